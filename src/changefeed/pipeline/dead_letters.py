"""Dead letters: records, or messages in a record, that could not be decoded, in files of the pipeline (`letter_files.py`).

A dead letter is written once, by its position, before the step that follows it; a repeated step finds it there. Then the policy
decides: `stop` ends the run, and the records stay unread; `continue` and `quarantine` go on. `replayed` is NULL until the dead
letter has been replayed (`replay.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from changefeed.errors import FencedError, ProtocolError
from changefeed.model.position import Place
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.contracts import Pending
from changefeed.pipeline.ledger import owner
from changefeed.pipeline.letter_files import LetterFiles, StoredLetter
from changefeed.pipeline.paths import own_folder
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.state import Positions
from changefeed.pipeline.store.base import StateStore
from changefeed.pipeline.store.hadoop import folder_of_session, folder_to_read
from changefeed.pipeline.tables import folder_of
from changefeed.sinks import old_letters
from changefeed.telemetry import passed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Dead(msgspec.Struct, frozen=True):
    """The payload of a chunk with a dead letter, see `frames.payloads`."""

    reason: str
    error: str
    protocol: str
    index: int | None
    byte: int | None
    schema_id: int | str | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def letters(definition: Definition, *, replayed: bool = False) -> list[StoredLetter]:
    """The dead letters that have not been replayed, see `LetterFiles.rows`; with `replayed`, all of them.

    Needs no Spark.

    Raises:
        ConfigError: the ledger belongs to another pipeline.
        SinkError: the files cannot be read.
    """
    owner(definition)
    return files_of(definition).rows(replayed=replayed)


def files_of(definition: Definition, session: SparkSession | None = None) -> LetterFiles:
    """The files of the pipeline's dead letters; without a session, to read them."""
    path = f"{own_folder(definition)}/dead_letters"
    if session is None:
        folder = folder_to_read(path, definition.storage, definition.spark)
    else:
        folder = folder_of_session(session, path, definition.storage)
    return LetterFiles(folder, partial(_old, definition, path, session))


def _old(definition: Definition, path: str, session: SparkSession | None) -> list[StoredLetter]:
    """The dead letters that an earlier version of changefeed kept in a table of the sink."""
    rows = old_letters(definition.sink, path, session, folder_of(definition, path, session))
    return [msgspec.convert(row, StoredLetter) for row in rows]


def stops_at(policy: str, fresh: Iterable[ChunkInfo]) -> Literal["any", "nameless"] | None:
    """The dead letters of a batch that stop a run by the policy: any of them, or those that name no table."""
    dead = [chunk for chunk in fresh if chunk.kind == "dead"]
    if policy == "stop" and dead:
        return "any"
    return "nameless" if policy == "quarantine" and any(chunk.table is None for chunk in dead) else None


def stop(count: int, first: str, which: Literal["any", "nameless"], *, are_stored: bool = True) -> ProtocolError:
    """The error of a run that stops at dead letters.

    Args:
        count: number of the batch's dead letters.
        first: the error of the first one that stops the run.
        which: what `stops_at` returned.
        are_stored: whether they have been stored.
    """
    nameless = " and names no table that could be quarantined" if which == "nameless" else ""
    return ProtocolError(
        f"{count:,} record{'s' if count > 1 else ''} could not be decoded, the first{nameless}: "
        f"{first}{'' if first.endswith('?') else '.'} {'They are kept: changefeed dlq list. ' if are_stored else ''}Correct the "
        "protocol or its options and run again, or set pipeline.dead-letters to `continue`",
        reason="dead-letters",
    )


def position(letter: StoredLetter) -> str:
    """The position of a dead letter, as text."""
    return str(Place(*letter.position))


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of one pipeline.

    Attributes:
        files: where they are stored.
        policy: what to do after a dead letter: `stop`, `quarantine` or `continue`.
        ledger: the pipeline's ledger, which the run has claimed.
    """

    files: LetterFiles
    policy: str
    ledger: StateStore

    def take(self, pending: Pending, folder: str, fresh: list[ChunkInfo]) -> None:
        """Stores the dead letters of a batch.

        Args:
            pending: the pending store.
            folder: the batch's folder in it.
            fresh: the batch's chunks.

        Raises:
            ProtocolError: there are dead letters, and the policy is to stop.
            FencedError: another run has taken over.
        """
        count = sum(c.rows for c in fresh if c.kind == "dead")
        if not count:
            return
        passed("letters.before")
        which = stops_at(self.policy, fresh)
        first: StoredLetter | None = None
        reasons = Counter[str]()

        def noted() -> Iterator[StoredLetter]:
            nonlocal first
            time = datetime.now(UTC)
            for row in pending.dead(folder):
                letter = _letter(row, self.ledger.pipeline, time)
                if (which == "any" or letter.table is None) and (first is None or letter.order < first.order):
                    first = letter
                reasons[letter.reason] += 1
                yield letter

        self.files.write(noted(), self._check)
        passed("letters.after", reasons=reasons)
        if which is not None:
            raise stop(count, first.error if first is not None else "", which)

    def mark(self, places: Iterable[str]) -> None:
        """Marks the dead letters at these positions as replayed.

        Raises:
            FencedError: another run has taken over.
        """
        parsed = [Place.parse(text) for text in places]
        passed("letters.before")
        self.files.mark([(p.topic, p.partition, p.offset, p.index) for p in parsed], self._check)
        passed("letters.after")

    def settle(self, positions: Positions) -> None:
        """Marks the dead letters of records that have not been passed yet as replayed, for a run that reads them again.

        Policy `stop` leaves such dead letters. Those that still cannot be decoded are written again.

        Raises:
            FencedError: another run has taken over.
        """
        ends = {(topic, p): offset for topic, offsets in positions.items() for p, offset in offsets.items()}
        self.files.mark_from(ends, self._check)

    def _check(self) -> None:
        if self.ledger.is_fenced():
            raise FencedError(
                f"{self.ledger.path}: a newer run of pipeline {self.ledger.pipeline} has taken over; this run is epoch "
                f"{self.ledger.epoch} and stops"
            )


def _letter(chunk: Mapping[str, Any], pipeline: str, time: datetime) -> StoredLetter:
    """The dead letter in a chunk of the pending store."""
    payload = chunk["payload"]
    if b"\\ud" in payload:  # half of a surrogate pair in a text becomes `?`: no file of UTF-8 holds it
        payload = json.dumps(json.loads(payload), ensure_ascii=False).encode("utf-8", "replace")
    dead = msgspec.json.decode(payload, type=_Dead)
    return StoredLetter(
        topic=chunk["topic"],
        partition=chunk["partition"],
        offset=chunk["first_offset"],
        database=chunk["database"],
        table=chunk["table"],
        at=time,
        pipeline=pipeline,
        sha256=hashlib.sha256((dead.key or b"") + (dead.value or b"")).hexdigest(),
        **msgspec.structs.asdict(dead) | {"schema_id": None if dead.schema_id is None else str(dead.schema_id)},
    )
