"""A log of records in memory, for tests: a short implementation of the contract of `sinks.events`.

A `RecordLog` is the target: all sinks on it see the same records, as two runs of a pipeline see the same topic. A lock makes
appends atomic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock

import pyarrow as pa

from changefeed.model.batch import Decoded
from changefeed.protocols.base import Encoder
from changefeed.sinks.events import AppendEncoder, Ends, Mark, is_made, made_by, mark_of, numbered, overtaken
from changefeed.sinks.writes import WriteId


@dataclass(slots=True)
class RecordLog:
    """The target: records in memory.

    Attributes:
        appends: the records of each append, with offsets.
        marks: owner -> the mark of its last append.
        ends: the next offset of each partition.
        on_pass: called at the failpoints `append.before` and `append.after`, outside the lock; a test may raise there.
    """

    appends: list[pa.RecordBatch] = field(default_factory=list)
    marks: dict[str, Mark] = field(default_factory=dict)
    ends: Ends = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    on_pass: Callable[[str], None] = lambda name: None


@dataclass(slots=True)
class MemoryEvents:
    """The event sink of one pipeline on a `RecordLog`."""

    log: RecordLog
    encoder: Callable[[], Encoder]
    owner: str = ""
    atomic: bool = True
    location: str = "memory:"
    _writing: AppendEncoder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._writing = AppendEncoder(self.encoder)

    def owned_by(self, owner: str) -> MemoryEvents:
        """See `EventSink`."""
        return replace(self, owner=owner)

    def check(self) -> None:
        """See `EventSink`: memory can always be written."""

    def last(self) -> WriteId | None:
        """See `EventSink`."""
        mark = self.log.marks.get(self.owner)
        return None if mark is None else mark.write_id

    def made(self) -> WriteId | None:
        """See `EventSink`."""
        return made_by(self.log.marks.get(self.owner))

    def append(self, changes: Decoded, write_id: WriteId, note: str) -> None:
        """See `EventSink`."""
        last = self.log.marks.get(self.owner)
        if is_made(self.location, last, write_id):
            return
        try:
            records, number = self._writing.records(changes, last)
            self.log.on_pass("append.before")
            with self.log.lock:
                if self.log.marks.get(self.owner) != last:
                    raise overtaken(self.location, self.log.marks.get(self.owner), write_id)
                records, self.log.ends = numbered(records, self.log.ends)
                self.log.appends.append(records)
                self.log.marks[self.owner] = mark_of(write_id, number, note, last)
            self.log.on_pass("append.after")
        except BaseException:
            self._writing.forget()
            raise

    def close(self) -> None:
        """See `EventSink`."""
        self._writing.forget()
