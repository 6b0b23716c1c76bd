"""Rows that the log has, although their transaction, or a part of it, was rolled back.

    GTID  rows  rows  ROLLBACK                                   none of them counts
    GTID  rows  SAVEPOINT `a`  rows  ROLLBACK TO `a`  rows  XID   those between the two statements do not

MariaDB logs such a transaction if it has created or dropped a temporary table, or written to a table without transactions.

Rule 1. All rows of such a transaction are of tables with transactions: rows of others are in transactions of their own, which are
        committed.
Rule 2. The planner finds these rows in a batch, whose tasks drop them; a stream holds them back (`held_back.py`). Where an
        earlier batch has rows of the transaction already, or it is too large for a stream to hold, the decoder refuses the
        statement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from changefeed.model.batch import Decoded, TableBatch
from changefeed.mysql.binlog import Parser, codes
from changefeed.mysql.binlog.events import Query
from changefeed.sources.mysql.dump import GTIDS, QUERIES, LogEvent
from changefeed.sources.mysql.source_offset import LogPosition

_STATEMENT = re.compile(r"(SAVEPOINT|ROLLBACK)(?: TO)?(?: `((?:[^`]|``)+)`)?", re.IGNORECASE)


class Undone(NamedTuple):
    """Rows that were rolled back: those from `start` on, up to the statement at `end`."""

    start: LogPosition
    end: LogPosition


class Rollbacks:
    """Follows the transactions of a log, event by event, to find the rows that are rolled back."""

    def __init__(self) -> None:
        self._start: LogPosition | None = None  # of the open transaction
        self._savepoints: dict[str, LogPosition] = {}

    def add(self, event: LogEvent) -> Undone | None:
        """Reads an event; returns the rows that it rolls back."""
        if event.code in GTIDS:
            self._start, self._savepoints = event.at, {}
            return None
        if event.code not in QUERIES or event.is_begin:
            return None
        if event.code == codes.QUERY and not (b"SAVEPOINT" in event.data or b"ROLLBACK" in event.data):
            return None
        for part in Parser(checksum=event.has_checksum).feed(event.data):
            if isinstance(part, Query) and (statement := _STATEMENT.fullmatch(part.text.strip())):
                return self._statement(statement[1].upper(), statement[2], event.at)
        return None

    def _statement(self, verb: str, savepoint: str | None, at: LogPosition) -> Undone | None:
        name = None if savepoint is None else savepoint.lower()
        if verb == "SAVEPOINT" and name is not None:
            self._savepoints[name] = at
            return None
        start = self._start if name is None else self._savepoints.get(name)
        return None if start is None else Undone(start, at)


def without(decoded: Decoded, undone: Sequence[Undone]) -> Decoded:
    """Returns the changes without rows that were rolled back."""
    tables = list[TableBatch]()
    for table in decoded.tables:
        ts = np.asarray(table.rows.column("commit_ts").to_numpy(zero_copy_only=False))
        kept = np.ones(len(ts), bool)
        for start, end in undone:
            kept &= (ts < start.number) | (ts >= end.number)
        if kept.all():
            tables.append(table)
        elif kept.any():
            tables.append(TableBatch(table.shape, table.rows.filter(pa.array(kept))))
    return replace(decoded, tables=tables)
