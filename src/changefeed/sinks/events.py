"""The contract of an event sink: changes that a pipeline appends to a log of records, one atomic append at a time.

Theory of operation:

Rule 1. An *append* takes changes in commit order and writes them as records, in the protocol of the sink. The
protocol's encoder decides topic, partition, key, value and headers of each record; the target keeps all of these as they
are. Offsets are the target's: each partition of each topic counts on by itself.
Rule 2. Records of one partition stay in the order in which the encoder gave them, within an append and from one append to
the next. Nothing is promised between partitions.
Rule 3. Every append carries, atomically with the records, the *write id* of the pipeline that made it. Write ids of one
pipeline only grow; there is one sequence of them for the whole sink. The target keeps the last one of each pipeline, and `last`
reports it. A pipeline is known by its *owner* text, which no other pipeline has.
Rule 4. `append` with a write id at or below the last one changes nothing: the append has been made. If the last one has a
higher epoch, `append` raises `FencedError`. Of two writers of one pipeline that append at the same time behind the same
last write id, at most one succeeds; the other raises, and none of its records become visible.
Rule 5. An answer can be lost: `append` may raise although the append was made. The pipeline then asks `last` of the same
sink, and that answer is final: what `last` does not have will not appear later. `last` of another sink is final once that
one has appended.
Rule 6. An append without changes is a *touch*: it carries its write id as any other. A run that finishes the step of an
older run touches first, with number 0; from then on rule 4 holds against the older run, and `last` is final.
Rule 7. If the sink is `atomic`, a reader sees all records of an append or none. How to read so, the sink's module states.

What an encoder remembers from one append to the next:

Rule 8. A sink makes its encoder at its first append and keeps it. After an append that raised, it makes a new one: what the
old one remembers may be of records that are not there. So a new encoder must be right behind any append, as in a new run.
Schemas and shapes need no care: an encoder repeats them as needed, and a schema registry keeps the id of a schema.
Two things are:
  * A protocol that numbers its events counts on (`protocols.base.NumberingEncoder`). The number lies beside the write id.
  * A `ClosingEncoder` closes each append, so that no append rests on the encoder's memory.
Rule 9. What an encoder puts beside the records (claim-check files, registered schemas) is written before the append is
made, and stays if it is not. Nobody refers to it then.
Rule 10. It is the pipeline's part that changes come in commit order, and that each resolved event holds for all appends: no
later one has a change at or below it. An encoder that dispatches over topics by table sends marks to the topics that it has
written to since it was made, and to no others.
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
from changefeed.sinks.base import WriteId


class EventSink(Protocol):
    """A log of records, written by one pipeline. Not safe to use from several threads.

    Raises, beside what the methods name:
        SinkError: the target cannot be read or written; `transient` if another try may succeed.
        ConfigError: the target lacks what the encoder's options ask for, such as a topic.
    """

    @property
    def atomic(self) -> bool:
        """Whether readers see an append as a whole or not at all; see rule 7."""
        ...

    @property
    def location(self) -> str:
        """The destination of the records, for messages: `kafka://broker:9092/shop`."""
        ...

    def owned_by(self, owner: str) -> EventSink:
        """The same sink for the pipeline with this owner text; see rule 3. It has an encoder of its own."""
        ...

    def last(self) -> WriteId | None:
        """The write id of the owner's last append, from the target itself; None if it has never appended. See rule 5."""
        ...

    def append(self, changes: Decoded, write_id: WriteId, note: str) -> None:
        """Makes one append. See rules 3 to 6.

        Args:
            changes: in commit order by `(record, index)`. Dead letters among them are not written.
            write_id: higher than that of every earlier append of this pipeline.
            note: JSON about the append, for people; kept with it if the target has a place for it.

        Raises:
            FencedError: a newer run of the pipeline appends here.
            SinkError: the append was not made, or its answer was lost.
            UnsupportedError: the protocol has no words for a change; nothing was appended.
        """
        ...

    def close(self) -> None:
        """Lets go of connections. A sink that was closed may be used again."""
        ...


# What implementations share.


class Mark(msgspec.Struct, frozen=True):
    """The write id as a target keeps it.

    Attributes:
        number: the last one that the encoder gave an event; see rule 8.
        note: as it was given to `append`.
    """

    epoch: int
    step: int
    write: int
    number: int = 0
    note: str = ""

    @property
    def write_id(self) -> WriteId:
        """The write id itself."""
        return WriteId(self.epoch, self.step, self.write)


def mark_of(write_id: WriteId, number: int, note: str) -> Mark:
    """The mark of an append."""
    return Mark(write_id.epoch, write_id.step, write_id.number, number, note)


def is_made(location: str, last: Mark | None, write_id: WriteId) -> bool:
    """Whether an append has been made, by the last write id of its owner; see rule 4.

    Raises:
        FencedError: a newer run of the pipeline appends here.
    """
    if last is not None and last.epoch > write_id.epoch:
        raise FencedError(
            f"{location}: epoch {last.epoch} of the pipeline appends here now; this run is epoch {write_id.epoch} and stops"
        )
    return last is not None and last.write_id >= write_id


def overtaken(location: str, last: Mark | None, write_id: WriteId) -> SinkError:
    """The error for an append that found the target changed while it was made.

    Raises:
        FencedError: a newer run of the pipeline appends here.
    """
    is_made(location, last, write_id)
    return SinkError(f"{location}: another writer appended at the same time; {write_id} was not made", transient=True)


@dataclass(slots=True)
class AppendEncoder:
    """The encoder of a sink; see rule 8.

    Attributes:
        make: makes a new encoder.
    """

    make: Callable[[], Encoder]
    _encoder: Encoder | None = field(default=None, repr=False)

    def records(self, changes: Decoded, last: Mark | None) -> tuple[pa.RecordBatch, int]:
        """The records of an append behind `last`, and the last number that an event of theirs has."""
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
        """The next append begins with a new encoder."""
        self._encoder = None


Ends = dict[str, dict[int, int]]  # topic -> partition -> the offset of its next record


def numbered(records: pa.RecordBatch, ends: Ends) -> tuple[pa.RecordBatch, Ends]:
    """Gives records the offsets from `ends` on, and returns the ends behind them; for targets without offsets of their own."""
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
