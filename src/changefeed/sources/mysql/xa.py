r"""Transactions in two phases (XA): their rows are in the log before it is known whether they count.

    GTID  XA START …  rows  XA END  XA_PREPARE │ other transactions │ GTID  XA COMMIT …      the rows count here
                                               │                    │ GTID  XA ROLLBACK …    they never do

Rule 1. The planner finds the prepared transactions of the log, and keeps those whose end it has not seen in the source offset.
Rule 2. The rows of one are changes of the position of XA COMMIT: their commit_ts, offset and time are that statement's, and they
        are numbered through in their order. So they are in the cut of the transaction that committed them.
Rule 3. A slice has such a transaction whole. A task keeps its rows until the slice ends, and packs them if it is committed
        there. If that comes in a later slice, the task of that one reads the transaction again, from its own place. So does a
        stream of events, whose rows keep that place.
Rule 4. One that was prepared before the pipeline began, or on another server, is looked for in the server's log when it is
        committed. If the log no longer has it, its rows cannot be read, which ends the run.
Rule 5. MariaDB has no statement XA START in its log: its GTID has a flag. MySQL's transaction compression hides all but XA COMMIT
        from the planner, which inflates nothing. A task refuses a prepared transaction that the planner has not found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from changefeed.model.batch import Decoded, TableBatch
from changefeed.mysql.binlog import Parser, codes
from changefeed.mysql.binlog.events import Query, XaPrepare
from changefeed.mysql.binlog.framing import HEADER_SIZE
from changefeed.sources.mysql.connection import LostLogError
from changefeed.sources.mysql.dump import FIRST, GTIDS, QUERIES, LogEvent
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.source_offset import LogPosition, Prepared

_FLAGS_AT, _PREPARED = HEADER_SIZE + 12, 64  # of MariaDB's GTID
_START = b"XA START "
_END = re.compile(r"XA\s+(COMMIT|ROLLBACK)\s+(X'[0-9A-Fa-f]*',\s*X'[0-9A-Fa-f]*',\s*-?\d+)\s*", re.IGNORECASE)


_Numbers: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Find = Callable[[str, LogPosition], Prepared | None]
"""Returns the transaction of a name that was prepared before a position; None if the log does not have it."""


class PreparedLog:
    """Follows the prepared transactions of a log, event by event.

    Attributes:
        open: name -> transaction, of those that are neither committed nor rolled back.
        is_inside: whether the open transaction is one that may be prepared.
    """

    def __init__(self, known: Mapping[str, Prepared] | None = None, find: Find | None = None) -> None:
        """Begins at a position.

        Args:
            known: those that are open there.
            find: for one that is committed and is not known; None: the log has all from its beginning.
        """
        self.open, self._find = dict(known or {}), find
        self.is_inside, self._start = False, LogPosition("", 0)

    def add(self, event: LogEvent) -> Prepared | None:
        """Reads an event; returns the transaction that it prepares, or commits.

        Raises:
            LostLogError: it commits one that the log does not have: Rule 4.
        """
        code, data = event.code, event.data
        if code in GTIDS:
            self._start = event.at
            self.is_inside = code == codes.MARIADB_GTID and bool(data[_FLAGS_AT] & _PREPARED)
        elif code == codes.XA_PREPARE:
            self.is_inside = False
            for part in _parsed(event):
                if isinstance(part, XaPrepare) and not part.one_phase:
                    name = f"X'{part.gtrid.hex()}',X'{part.bqual.hex()}',{part.format_id}"
                    self.open[name] = Prepared(self._start, event.end)
                    return self.open[name]
        elif code in QUERIES and not event.is_begin:
            if code == codes.QUERY and b"XA " not in data:
                return None
            for part in _parsed(event):
                if isinstance(part, Query):
                    return self._statement(part, event)
        return None

    def _statement(self, query: Query, event: LogEvent) -> Prepared | None:
        if query.statement.startswith(_START):
            self.is_inside = True
        ended = _END.fullmatch(query.text)
        if ended is None:
            return None
        name = _normalized(ended[2])
        prepared = self.open.pop(name, None)
        if ended[1].upper() == "ROLLBACK":
            return None
        if prepared is None and self._find is not None:
            prepared = self._find(name, self._start)
        if prepared is None:
            raise LostLogError(
                f"the log has no XA PREPARE of the transaction {name} any more, which is committed at {event.at}: its rows "
                "cannot be read"
            )
        return replace(prepared, commit=event.at, seconds=query.header.timestamp)


def ends_prepared(event: LogEvent) -> bool:
    """Whether an event commits a prepared transaction, or rolls it back."""
    if event.code not in QUERIES or event.is_begin or (event.code == codes.QUERY and b"XA " not in event.data):
        return False
    return any(isinstance(part, Query) and _END.fullmatch(part.text) for part in _parsed(event))


def look_for(
    server: Server, name: str, before: LogPosition, dumped: Callable[[LogPosition], Iterable[LogEvent]]
) -> Prepared | None:
    """Returns the newest prepared transaction of a name before a position, in the whole log; None without one.

    Args:
        server: has the log.
        name: of the transaction.
        before: the position.
        dumped: returns the events from a position on.
    """
    files = [LogPosition(file, FIRST, before.shift) for file, _ in server.files()]
    parts = (
        takewhile(partial(_is_between, file, before), dumped(file))
        for file in reversed(files)
        if file.number < before.number
    )
    return find_prepared(name, parts)


def _is_between(file: LogPosition, end: LogPosition, event: LogEvent) -> bool:
    """Whether an event is in a file, and before a position."""
    return event.at.file == file.file and event.at.number < end.number


def find_prepared(name: str, logs: Iterable[Iterable[LogEvent]]) -> Prepared | None:
    """Returns the newest prepared transaction of a name in parts of the log, which are given newest first; None without one."""
    for events in logs:
        prepared = PreparedLog(find=lambda name, before: Prepared(before, before))
        for event in events:
            prepared.add(event)
        if name in prepared.open:
            return prepared.open[name]
    return None


def _parsed(event: LogEvent) -> list[Any]:
    return list(Parser(checksum=event.has_checksum).feed(event.data))


def _normalized(xid: str) -> str:
    gtrid, bqual, number = (part.strip() for part in xid.split(","))
    return f"X{gtrid[1:].lower()},X{bqual[1:].lower()},{int(number)}"


class PreparedRows:
    """The rows of prepared transactions, until the end of the slice: Rule 3."""

    def __init__(self, prepared: Iterable[Prepared]) -> None:
        """Keeps the rows of these transactions."""
        in_order = sorted(prepared, key=lambda each: each.start.number)
        self._starts = np.array([each.start.number for each in in_order], np.uint64)
        self._ends = np.array([each.end.number for each in in_order], np.uint64)
        self._commits = np.array([each.commit.number if each.commit else 0 for each in in_order], np.uint64)
        self._seconds = np.array([each.seconds for each in in_order], np.int64)
        self._kept = list[tuple[TableBatch, _Numbers]]()  # rows, and the number of the transaction of each

    def without(self, decoded: Decoded) -> Decoded:
        """Returns the changes without the rows of the transactions; those of committed ones are kept."""
        if not len(self._starts):
            return decoded
        others = list[TableBatch]()
        for table in decoded.tables:
            ts = _numbers(table, "commit_ts")
            of = np.searchsorted(self._starts, ts, side="right") - 1
            inside = (of >= 0) & (ts < self._ends[of])
            if not inside.any():
                others.append(table)
                continue
            if not inside.all():
                others.append(TableBatch(table.shape, table.rows.filter(pa.array(~inside))))
            kept = inside & (self._commits[of] > 0)
            if kept.any():
                self._kept.append((TableBatch(table.shape, table.rows.filter(pa.array(kept))), of[kept]))
        return replace(decoded, tables=others)

    def committed(self) -> tuple[list[TableBatch], list[int]]:
        """Returns the rows that were kept, as changes of their XA COMMIT, and the positions of these: Rule 2."""
        if not self._kept:
            return [], []
        of = np.concatenate([numbers for _, numbers in self._kept])
        ts, index = (
            np.concatenate([_numbers(table, name) for table, _ in self._kept]) for name in ("commit_ts", "index")
        )
        order = np.lexsort((index, ts, of))
        first_of = np.searchsorted(of[order], of)  # the place of the first row of each row's transaction
        places = np.empty(len(of), np.int64)
        places[order] = np.arange(len(of))
        indexes, commits = (places - first_of).astype(np.int32), self._commits[of]
        positions, records = np.unique(commits, return_inverse=True)
        tables, start = list[TableBatch](), 0
        for table, numbers in self._kept:
            part = slice(start, start + len(table))
            moved = {
                "record": pa.array(records[part], pa.int32()),
                "offset": pa.array(commits[part].astype(np.int64)),
                "index": pa.array(indexes[part]),
                "commit_ts": pa.array(commits[part]),
                "commit_time": pa.array(self._seconds[numbers], pa.timestamp("s", tz="UTC")),
            }
            schema = table.rows.schema
            columns = [moved.get(name, table.rows.column(name)) for name in schema.names]
            in_order = pa.array(np.lexsort((indexes[part], commits[part])))
            tables.append(TableBatch(table.shape, pa.RecordBatch.from_arrays(columns, schema=schema).take(in_order)))
            start += len(table)
        self._kept = []
        return tables, [int(position) for position in positions]


def _numbers(table: TableBatch, column: str) -> _Numbers:
    return np.asarray(table.rows.column(column).to_numpy(zero_copy_only=False))
