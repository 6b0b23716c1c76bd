"""The contract of an event sink: changes that a pipeline appends to a log of records, one atomic append at a time.

Theory of operation:

Rule 1. An *append* takes changes in commit order and writes them as records, in the protocol of the sink. The
protocol's encoder decides topic, partition, key, value and headers of each record; the target stores them unchanged. (A
target may choose the partition by the key, if the protocol has `fixed_topics`.) The target assigns offsets, separately for
each partition of each topic.
Rule 2. Records of one partition keep the order in which the encoder returned them, within an append and from one append to
the next. There is no order between partitions.
Rule 3. Every append carries, atomically with the records, the *write id* of the pipeline that made it. Write ids of one
pipeline only grow; there is one sequence of them for the whole sink. The target keeps the last one of each pipeline, and `last`
reports it. A pipeline is known by its *owner* text, which no other pipeline has.
Rule 4. `append` with a write id at or below the last one changes nothing: the append has been made. If the last one has a
higher epoch, `append` raises `FencedError`. If two writers of one pipeline append at the same time after the same last
write id, at most one succeeds; the other raises, and none of its records become visible.
Rule 5. An answer can be lost: `append` may raise although the append was made. The pipeline then calls `last` of the same
sink, whose answer is final: an append that `last` does not show will not appear later. `last` of another sink object is
final after that sink has appended.
Rule 6. An append without changes is a *touch*: it carries its write id like any other. A run that finishes the step of an
older run first makes a touch with number 0; from then on rule 4 applies to the older run, and `made` shows whether the
older run has made its append.
Rule 7. If the sink is `atomic`, a reader sees all records of an append or none. The sink's module states how to read.

State that an encoder keeps from one append to the next:

Rule 8. A sink creates its encoder at its first append and keeps it. After an append that raised, it creates a new one: the
old one may remember records that were not written. So a new encoder must be correct after any append, as in a new run.
Schemas and shapes need no care: an encoder repeats them as needed, and a schema registry keeps the id of a schema.
Two things need care:
  * A protocol that numbers its events continues counting (`protocols.base.NumberingEncoder`). The number is stored with the
    write id.
  * A `ClosingEncoder` closes each append, so that no append depends on the encoder's memory.
Rule 9. What an encoder stores outside the records (claim-check files, registered schemas) is written before the append, and
stays if the append fails. Then no record refers to it.
Rule 10. The pipeline must pass changes in commit order, and resolved events that hold for all appends: no later append has a
change at or below one. An encoder that dispatches tables to topics sends resolved events only to the topics that it has
written to since it was created.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
import pyarrow as pa

from changefeed.errors import FencedError, SinkError
from changefeed.model.batch import RECORDS, Decoded
from changefeed.protocols.base import ClosingEncoder, Encoder, NumberingEncoder
from changefeed.sinks.writes import WriteId


class EventSink(Protocol):
    """A log of records, written by one pipeline. Must not be used from several threads at once.

    Raises, in addition to the errors of each method:
        SinkError: the target cannot be read or written; `transient` if another try may succeed.
        ConfigError: the target lacks what the encoder's options ask for, such as a topic.
    """

    @property
    def atomic(self) -> bool:
        """Whether readers see either all of an append or nothing; see rule 7."""
        ...

    @property
    def location(self) -> str:
        """The destination of the records, for messages: `kafka://broker:9092/shop`."""
        ...

    def owned_by(self, owner: str) -> EventSink:
        """Returns the same sink for the pipeline with this owner text, with its own encoder; see rule 3."""
        ...

    def check(self) -> str | None:
        """Checks that the target answers and can be written, as far as that shows without an append. Changes nothing.

        Returns:
            what was looked at, for people; None if it is the location.

        Raises:
            ConfigError: the target lacks a topic or a folder, or this user may not write there.
            SinkError: the target does not answer.
        """
        ...

    def last(self) -> WriteId | None:
        """Reads the write id of the owner's last append from the target; None if there is none. See rule 5."""
        ...

    def made(self) -> WriteId | None:
        """Reads the write id of the owner's last append that was not a touch; None if there is none. Final as `last`."""
        ...

    def append(self, changes: Decoded, write_id: WriteId, note: str) -> None:
        """Makes one append. See rules 3 to 6.

        Args:
            changes: changes in commit order by `(record, index)`. Dead letters among them are not written.
            write_id: the write id; higher than that of every earlier append of this pipeline.
            note: JSON about the append, for people; stored with it if the target allows it.

        Raises:
            FencedError: a newer run of the pipeline appends here.
            SinkError: the append was not made, or its answer was lost.
            UnsupportedError: the protocol cannot represent a change; nothing was appended.
        """
        ...

    def close(self) -> None:
        """Closes connections. The sink may be used again afterwards."""
        ...


# What implementations share.


class Mark(msgspec.Struct, frozen=True):
    """The write id as a target stores it.

    Attributes:
        number: the last event number that the encoder has assigned; see rule 8.
        note: the `note` of the append.
        before: epoch, step and number of the last append before a touch; None if there was none, or this is not a touch.
    """

    epoch: int
    step: int
    write: int
    number: int = 0
    note: str = ""
    before: tuple[int, int, int] | None = None

    @property
    def write_id(self) -> WriteId:
        """The write id as a `WriteId`."""
        return WriteId(self.epoch, self.step, self.write)


def mark_of(write_id: WriteId, number: int, note: str, last: Mark | None) -> Mark:
    """Creates the mark of an append that follows `last`."""
    earlier = made_by(last) if write_id.number == 0 else None
    before = None if earlier is None else (earlier.epoch, earlier.step, earlier.number)
    return Mark(write_id.epoch, write_id.step, write_id.number, number, note, before)


def made_by(last: Mark | None) -> WriteId | None:
    """Returns what `EventSink.made` does, by the owner's last mark."""
    if last is None or last.write > 0:
        return None if last is None else last.write_id
    return None if last.before is None else WriteId(*last.before)


def is_made(location: str, last: Mark | None, write_id: WriteId) -> bool:
    """Whether an append has been made already, according to its owner's last write id; see rule 4.

    Raises:
        FencedError: a newer run of the pipeline appends here.
    """
    if last is not None and last.epoch > write_id.epoch:
        raise FencedError(
            f"{location}: epoch {last.epoch} of the pipeline appends here now; this run is epoch {write_id.epoch} and stops"
        )
    return last is not None and last.write_id >= write_id


def overtaken(location: str, last: Mark | None, write_id: WriteId) -> SinkError:
    """Returns the error for an append during which another writer has appended.

    Raises:
        FencedError: a newer run of the pipeline appends here.
    """
    is_made(location, last, write_id)
    return SinkError(
        f"{location}: another writer appended at the same time; {write_id} was not appended", transient=True
    )


@dataclass(slots=True)
class AppendEncoder:
    """The encoder of a sink; see rule 8.

    Attributes:
        make: creates a new encoder.
    """

    make: Callable[[], Encoder]
    _encoder: Encoder | None = field(default=None, repr=False)

    def records(self, changes: Decoded, last: Mark | None) -> tuple[pa.RecordBatch, int]:
        """Encodes an append that follows `last`; returns its records, and the last event number that they use."""
        if self._encoder is None:
            self._encoder = self.make()
        encoder = self._encoder
        if isinstance(encoder, NumberingEncoder) and last is not None:
            encoder.last_number = max(encoder.last_number, last.number)
        parts = [encoder.encode(changes)]
        if isinstance(encoder, ClosingEncoder):
            parts.append(encoder.finish())
        numbered = encoder.last_number if isinstance(encoder, NumberingEncoder) else 0
        return pa.concat_batches([part.cast(RECORDS) for part in parts]), numbered

    def forget(self) -> None:
        """Drops the encoder: the next append creates a new one."""
        self._encoder = None


Ends = dict[str, dict[int, int]]  # topic -> partition -> the offset of its next record


def numbered(records: pa.RecordBatch, ends: Ends) -> tuple[pa.RecordBatch, Ends]:
    """Assigns offsets to records, from `ends` on; returns the new ends. For targets that do not assign offsets."""
    after = {topic: dict(partitions) for topic, partitions in ends.items()}
    offsets = []
    for topic, partition in zip(
        records.column("topic").to_pylist(), records.column("partition").to_pylist(), strict=True
    ):
        partitions = after.setdefault(topic, {})
        offsets.append(partitions.setdefault(partition, 0))
        partitions[partition] += 1
    at = RECORDS.get_field_index("offset")
    return records.set_column(at, RECORDS.field(at), pa.array(offsets, pa.int64())), after
