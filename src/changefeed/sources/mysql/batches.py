"""Divides the log behind a source offset into a batch of slices, which tasks read each with a connection of its own.

    GTID BEGIN TABLE_MAP rows rows XID │ GTID BEGIN TABLE_MAP rows ┆ rows rows XID │ …
    └──────── a slice of ≥ 4 MiB ──────┘                           ┆ only a transaction that is larger is cut inside

Rule 1. A slice ends before the GTID that begins a transaction: what lies before it is complete. Every server that the source
        reads logs one for each transaction and each statement.
Rule 2. A slice of more than twice the size ends before a row event, and begins with its transaction: what lies before is a slice
        of its own, complete. The next slice gets the table maps of the statement.
Rule 3. The end of the log is the end of a transaction: a server shows no part of one.
Rule 4. A small batch contains its events, so that no task needs a connection.
Rule 5. A transaction that may be prepared (XA) is not cut inside: whether its rows count is known at its end alone. See `xa.py`.
Rule 6. Behind 4 GiB of a file, where only a larger transaction reaches, slices are larger: each needs the file from its start on,
        because a connection cannot ask for such a position.
Rule 7. With a schema history, a slice also ends behind a statement that changes it: each slice has one, which its task reads by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from changefeed.mysql.binlog import Parser, codes
from changefeed.mysql.binlog.events import Query
from changefeed.mysql.binlog.framing import HEADER_SIZE
from changefeed.mysql.binlog.rows import KINDS, STATEMENT_END
from changefeed.sources.copies import CopyRequest
from changefeed.sources.mysql.dump import FARTHEST, GTIDS, QUERIES, LogEvent
from changefeed.sources.mysql.failover import Executed
from changefeed.sources.mysql.rolled_back import Rollbacks, Undone
from changefeed.sources.mysql.schema_history import SchemaHistory
from changefeed.sources.mysql.source_offset import LogPosition, Prepared
from changefeed.sources.mysql.xa import PreparedLog

_FLAGS_AT = HEADER_SIZE + 6
_SLICE_BYTES = 4 * 2**20
_FAR_SLICE_BYTES = 128 * 2**20
_KEPT_BYTES = 256 * 2**10


@dataclass(frozen=True, slots=True)
class LogSlice:
    """A part of the log that one task reads.

    Attributes:
        start, end: its first event, and the position after its last.
        maps: the table maps before it, if it begins inside of a statement.
        is_complete: whether no transaction is open at its end, and the tables are complete there.
        mark: the position that is marked as complete; None: `end`.
        events: its events, if there are few; None: the task asks the server.
        history: the definitions of its tables; None: its table maps name their columns.
        prepared: the XA transactions that it has, and those before it that are committed in it; see `xa.py`.
        undone: rows that were rolled back, of this slice or of slices next to it; see `rolled_back.py`.
    """

    start: LogPosition
    end: LogPosition
    maps: tuple[bytes, ...] = field(default=(), repr=False)
    is_complete: bool = True
    events: tuple[LogEvent, ...] | None = field(default=None, repr=False)
    mark: LogPosition | None = None
    history: SchemaHistory | None = field(default=None, repr=False)
    prepared: tuple[Prepared, ...] = ()
    undone: tuple[Undone, ...] = ()

    def shares(self, undone: Undone) -> bool:
        """Whether it has some of the rows that were rolled back, or the statement that did it."""
        return self.start.number <= undone.end.number and undone.start.number < self.end.number


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Slices that follow each other.

    Attributes:
        maps: the table maps of a statement that was begun, for the next batch.
        caught_up: whether the log ended, or the limit was reached.
        begun: when the file of `end` was begun, in seconds since 1970; 0 if that is not known.
        gtids: of all transactions before `end`; None if they are not known.
        history: the definitions at `end`; None without a history.
        requests: those of its signals.
        prepared: the XA transactions that have not ended at `end`, with their names.
    """

    slices: tuple[LogSlice, ...]
    end: LogPosition
    maps: tuple[bytes, ...]
    caught_up: bool
    begun: int = 0
    gtids: str | None = None
    history: SchemaHistory | None = field(default=None, repr=False)
    requests: tuple[CopyRequest, ...] = ()
    prepared: tuple[tuple[str, Prepared], ...] = ()


def divide(
    events: Iterable[LogEvent],
    start: LogPosition,
    maps: tuple[bytes, ...],
    most_bytes: int,
    *,
    end: LogPosition | None = None,
    complete: LogPosition | None = None,
    look: Callable[[LogEvent], None] = lambda event: None,
    gtids: str | None = None,
    history: SchemaHistory | None = None,
    prepared: PreparedLog | None = None,
) -> LogBatch:
    """Divides the events after a position into slices.

    Args:
        events: of the log, from `start` on.
        start, maps: where the batch begins; see `SourceOffset`.
        most_bytes: the batch ends where a transaction ends after so many bytes; inside of one, after twice as many.
        end: the batch ends there; None: at the end of the log.
        complete: slices that end before it are not complete.
        look: called for each statement, before it is in a slice; it may raise.
        gtids: of all transactions before `start`; None if they are not known.
        history: the definitions at `start`; None without a history.
        prepared: follows the XA transactions from `start` on.

    Raises:
        LostLogError: an XA transaction is committed that the log does not have.
    """
    cuts = _Cuts(start, maps, complete, min(_SLICE_BYTES, most_bytes), Executed(gtids), history, prepared)
    for event in events:
        if event.placed:
            if end is not None and event.at.number >= end.number:
                break
            if event.code in QUERIES:
                look(event)
            if cuts.before(event) and cuts.total >= most_bytes:
                return cuts.finished(caught_up=False)
        cuts.add(event)
    cuts.close(cuts.at, inside=False)
    return cuts.finished(caught_up=True)


def queries(event: LogEvent) -> list[Query]:
    """Returns the statement of an event, if it has one that was executed, other than BEGIN."""
    if event.code not in QUERIES or event.is_begin:
        return []
    parts = Parser(checksum=event.has_checksum).feed(event.data)
    return [part for part in parts if isinstance(part, Query) and part.is_executed]


def maps_after(event: LogEvent, maps: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Returns the table maps of the statement that is open after an event; `maps`: those before it."""
    if event.code == codes.TABLE_MAP:
        return (*maps, event.data)
    ends = event.code in GTIDS or (event.code in KINDS and event.data[_FLAGS_AT] & STATEMENT_END)
    return () if ends else maps


class _Cuts:
    """The slices so far, and the one that is open.

    Attributes:
        at: the position after the last event.
        total: bytes of all events.
    """

    def __init__(
        self,
        start: LogPosition,
        maps: tuple[bytes, ...],
        complete: LogPosition | None,
        slice_bytes: int,
        executed: Executed,
        history: SchemaHistory | None,
        prepared: PreparedLog | None,
    ) -> None:
        self.at, self.total = start, 0
        self._history = self._start_history = history  # after the last event, and at the start of the open slice
        self._start, self._start_maps, self._maps = start, maps, maps
        self._transaction = start  # where the open transaction begins, if it does so behind the start
        self._complete, self._slice_bytes = complete, slice_bytes
        self._size, self._slices = 0, list[LogSlice]()
        self._kept: list[LogEvent] | None = []
        self._begun: dict[str, int] = {}
        self._executed = executed
        self._prepared = PreparedLog() if prepared is None else prepared
        self._of_slice = dict[LogPosition, Prepared]()  # the XA transactions of the open slice, by their starts
        self._rollbacks, self._undone = Rollbacks(), list[Undone]()

    def before(self, event: LogEvent) -> bool:
        """Ends the slice before an event if that is a good place; returns whether it did."""
        is_changed = self._history is not self._start_history
        slice_bytes = self._slice_bytes if event.at.position <= FARTHEST else _FAR_SLICE_BYTES
        if event.code in GTIDS:
            self._maps, self._transaction = (), event.at
            if is_changed or self._size >= slice_bytes:
                self.close(event.at, inside=False)
                return True
        elif self._prepared.is_inside:
            return False
        elif is_changed or (event.code in KINDS and self._maps and self._size >= 2 * slice_bytes):
            if not is_changed and self._start.number < self._transaction.number:
                maps = self._maps
                self.close(self._transaction, inside=False)
                self._maps = maps
            # not at `event.at`: MariaDB does not send the event between a CREATE TABLE … SELECT and its rows
            self.close(self.at, inside=True)
            return True
        return False

    def add(self, event: LogEvent) -> None:
        """Adds an event to the open slice."""
        self._executed.add(event)
        if event.code == codes.FORMAT_DESCRIPTION:
            self._begun[event.at.file] = event.timestamp
        self.at = event.end
        if event.placed:
            self._size += len(event.data)
            self.total += len(event.data)
        if self.total > _KEPT_BYTES:
            self._kept = None
        if self._kept is not None:
            self._kept.append(event)
        self._maps = maps_after(event, self._maps)
        if (prepared := self._prepared.add(event)) is not None:
            self._of_slice[prepared.start] = prepared
        if (undone := self._rollbacks.add(event)) is not None:
            self._undone.append(undone)
        if self._history is not None:
            for query in queries(event):
                self._history = self._history.after(query)

    def close(self, at: LogPosition, *, inside: bool) -> None:
        """Ends the open slice at a position, inside of a transaction or between two."""
        if at == self._start:
            return
        is_complete = not inside and (self._complete is None or at.number >= self._complete.number)
        prepared = tuple(self._of_slice.values())
        self._slices.append(
            LogSlice(self._start, at, self._start_maps, is_complete, history=self._start_history, prepared=prepared)
        )
        self._of_slice = {}
        if not inside:
            self._maps = ()
        self._start, self._start_maps, self._size = at, self._maps, 0
        self._start_history = self._history

    def finished(self, *, caught_up: bool) -> LogBatch:
        """The batch of the slices that were closed."""
        slices = self._slices
        if self._undone:
            slices = [replace(each, undone=tuple(filter(each.shares, self._undone))) for each in slices]
        if self._kept is not None and len(slices) == 1:
            slices = [replace(slices[0], events=tuple(self._kept))]
        begun, gtids = self._begun.get(self._start.file, 0), self._executed.text()
        return LogBatch(
            tuple(slices), self._start, self._start_maps, caught_up, begun, gtids, self._start_history,
            prepared=tuple(self._prepared.open.items()),
        )  # fmt: skip
