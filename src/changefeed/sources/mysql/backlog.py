"""The backlog of a server behind a source offset: rows of tables while the first copy is read, then bytes of the log.

The rows are the server's estimates, which may be wrong by half: they are for people who wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from changefeed.sources import Backlog
from changefeed.sources.mysql.connection import GoneError
from changefeed.sources.mysql.key_ranges import Bound, KeyRange
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.source_offset import CopyProgress, LogPosition, SourceOffset
from changefeed.sources.mysql.tables import Name, describe, list_tables, quoted
from changefeed.ticdc.dispatch.matcher import TableFilter

_ROWS = "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'"
_ROWS_FIELD = {"mysql": 9, "mariadb": 8}  # in the table that EXPLAIN shows; MySQL has `partitions` before it


def backlog_of(
    server: Server, patterns: Sequence[str], known: SourceOffset | None, end: LogPosition | None = None, *, copies: bool
) -> Backlog:
    """Returns what is behind a source offset.

    Args:
        server: the server.
        patterns: those of the captured tables.
        known: the source offset; None before the first batch.
        end: what is behind it in the log does not count; None: everything counts.
        copies: whether there is a first copy.
    """
    if known is None:
        names = list_tables(server, TableFilter(patterns)) if copies else []
        return Backlog(sum(_estimates(server, names)) if copies else None)
    if known.copy is not None and known.copy.table < len(known.copy.tables):
        return Backlog(_rows_left(server, known.copy))
    return Backlog(None, bytes=_log_bytes(server, known.at, end))


def _rows_left(server: Server, progress: CopyProgress) -> int:
    """About the number of rows that the first copy has not read."""
    name, *later = progress.tables[progress.table :]
    return _rows_from(server, name, progress.start) + sum(_estimates(server, later))


def _estimates(server: Server, names: list[Name]) -> list[int]:
    if not names:
        return []
    if server.kind == "mysql":
        server.rows("SET SESSION information_schema_stats_expiry = 0")
    rows = {(database, table): int(count or 0) for database, table, count in server.texts(_ROWS)}
    return [rows.get(name, 0) for name in names]


def _rows_from(server: Server, name: Name, start: Bound | None) -> int:
    """About the number of a table's rows from a key on, as the server plans to read them."""
    table = describe(server, *name)
    if table is None:
        return 0
    condition = KeyRange(table.ordered, (start or ())[: len(table.ordered)]).condition()
    where = "" if condition is None else f" WHERE {condition}"
    try:
        [plan] = server.texts(f"EXPLAIN FORMAT=TRADITIONAL SELECT * FROM {quoted(name[0])}.{quoted(name[1])}{where}")
    except GoneError:
        return 0
    rows = plan[_ROWS_FIELD[server.kind]]
    return int(rows) if rows.isdigit() else 0


def _log_bytes(server: Server, at: LogPosition, end: LogPosition | None) -> int:
    """The bytes of the log between two positions."""
    total = 0
    for file, size in server.files():
        first = LogPosition(file, at.position if file == at.file else 0, at.shift)
        last = replace(first, position=min(size, end.position) if end is not None and file == end.file else size)
        if last.number > at.number and (end is None or first.number < end.number):
            total += last.position - first.position
    return total
