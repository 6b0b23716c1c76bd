"""A snapshot for events: the rows of tables in one consistent view, in order, over one connection.

    START TRANSACTION WITH CONSISTENT SNAPSHOT ─▶ position L ─▶ definitions ─▶ rows of table after table ─▶ COMMIT

Rule 1. Every row is as it was at L, and the log is read from L on. The copy for tables (`first_copy.py`) applies changes twice,
        which a table with a key does not show; a reader of events would see a row that is newer than the changes after it.
Rule 2. No lock lasts: MariaDB shows the position of a view; MySQL locks while the view begins (`table_locks.py`).
Rule 3. A snapshot that is interrupted begins again, with another view: what was written of it stays.
Rule 4. The first and the last row of each table, and of the snapshot, are marked. So one row is always held back. Not so in a
        snapshot that was requested while the log is followed: its rows have the connector's mark of such a one, `incremental`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from changefeed.errors import SchemaError, SourceError
from changefeed.model.batch import Decoded
from changefeed.model.event import Instant, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import TableShape, canonical
from changefeed.sources.copies import CopyRequest
from changefeed.sources.mysql.changes import PARTITION, TOPIC, schema_change
from changefeed.sources.mysql.column_rules import ColumnRules
from changefeed.sources.mysql.columns import columns_of
from changefeed.sources.mysql.connection import translated
from changefeed.sources.mysql.definitions import Definitions, Effect
from changefeed.sources.mysql.rights import check_readable
from changefeed.sources.mysql.selected import copied_rows
from changefeed.sources.mysql.selecting import select
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.table_locks import begin_view
from changefeed.sources.mysql.tables import (
    Captured,
    CopiedTable,
    Name,
    database_charsets,
    describe,
    expressions,
    list_tables,
    quoted,
)
from changefeed.sources.mysql.transactions import RowDetails, closing

_SCHEMATA = "SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA"
_Part = tuple[CopiedTable, list[pa.BinaryArray]]


@dataclass(slots=True)
class View:
    """A consistent view of a server's tables, which is open on the server's connection.

    Attributes:
        low: the position in the log that belongs to the view.
        gtids: of all transactions before it; None if they are not known.
        seconds: the server's time when it began, in seconds since 1970.
        tables: those of the snapshot, in the order of their names.
        context: identifies the run; see `Transactions`.
        rules: exclude and mask columns.
        request: what was requested; None: the snapshot with which a pipeline begins.
        now: returns the time in nanoseconds since 1970.
    """

    server: Server
    low: LogPosition
    gtids: str | None
    seconds: int
    tables: tuple[CopiedTable, ...]
    context: dict[str, str]
    rules: ColumnRules
    request: CopyRequest | None = None
    now: Callable[[], int] = time.time_ns

    @classmethod
    def open(
        cls, server: Server, captured: Captured, context: dict[str, str], request: CopyRequest | None = None
    ) -> View:
        """Begins a view of all captured tables, or of those that are requested and exist.

        Raises:
            AccessError: MySQL alone: the user may not lock.
            SourceError: a long query keeps the lock from being taken, or a table was dropped at this moment.
        """
        requested = None if request is None else request.tables
        low, gtids = begin_view(server, partial(_names, captured=captured, requested=requested))
        [(seconds,)] = server.texts("SELECT UNIX_TIMESTAMP()")
        tables = captured_tables(server, captured, requested)
        rules = ColumnRules(captured.columns, of_events=True)
        return cls(server, low, gtids, int(seconds), tables, context, rules, request)

    def rows(self, definitions: Definitions) -> Iterator[tuple[CopiedTable, Decoded]]:
        """Yields all rows, in batches of one table, with the table; nothing of a table without rows."""
        mark = "first"
        for (table, columns), following in _with_next(self._read()):
            marks = [mark, *["true"] * (len(columns[0]) - 1)]
            mark = "true"
            if self.request is not None:
                marks = ["incremental"] * len(columns[0])
            elif following is None:
                marks[-1] = "last"
            elif following[0] is not table:
                marks[-1], mark = "last_in_data_collection", "first_in_data_collection"
            yield table, self._decoded(table, columns, marks, definitions)
        self.server.rows("COMMIT")

    def _read(self) -> Iterator[_Part]:
        """Yields rows as columns of bytes; tables without rows yield nothing."""
        for table in self.tables:
            database, name = table.name
            query = f"SELECT {expressions(self.rules.table(table.table))} FROM {quoted(database)}.{quoted(name)}"
            if self.request is not None and self.request.where is not None:
                query += f" WHERE ({self.request.where})"
            with translated(self.server.address):
                for columns in select(self.server.connection, query):
                    yield table, columns

    def _decoded(
        self, table: CopiedTable, columns: list[pa.BinaryArray], marks: list[str], definitions: Definitions
    ) -> Decoded:
        count, low = len(columns[0]), self.low.number
        selected = self.rules.table(table.table)
        whole = definitions.completed(TableShape(*table.name, columns_of(table.table)))
        shape = self.rules.without(whole)
        zeros = np.zeros(count, np.int64)
        details = [
            RowDetails(
                f'{canonical(self._origin(mark))[:-1]},"row":', closing(canonical(self.context), self.now), zeros[:length],
                self.seconds * 1_000_000, None, zeros[:length], zeros[:length],
            )
            for mark, length in _runs(marks)
        ]  # fmt: skip
        try:
            rows = copied_rows(selected, shape, columns, commit_ts=low, offset=low, details=details)
            return Decoded([self.rules.batch(rows)])
        except (ValueError, IndexError, SchemaError) as error:
            raise SourceError(f"a row of the snapshot has a value that is not of its column's type: {error}") from error

    def _origin(self, mark: str) -> dict[str, Any]:
        return {"server_id": 0, "file": self.low.file, "pos": self.low.position, "snapshot": mark}


def captured_tables(
    server: Server, captured: Captured, requested: Collection[Name] | None = None
) -> tuple[CopiedTable, ...]:
    """Returns the captured tables, or those of them that are requested, in the order of their names.

    Raises:
        AccessError: the user may not read all captured tables.
        SourceError: one was dropped at this moment.
    """
    tables = []
    check_readable(server, captured.selector())
    for name in _names(server, captured, requested):
        table = describe(server, *name)
        if table is None:
            raise SourceError(f"{'.'.join(name)} was dropped while the snapshot began", transient=True)
        tables.append(table)
    return tuple(tables)


def _names(server: Server, captured: Captured, requested: Collection[Name] | None) -> list[Name]:
    names = list_tables(server, captured.selector())
    return [name for name in names if requested is None or name in requested]


def first_changes(
    server: Server,
    tables: Sequence[CopiedTable],
    definitions: Definitions,
    low: LogPosition,
    run: dict[str, Any],
    *,
    seconds: int,
    is_all: bool,
) -> list[SchemaChange]:
    """Returns the statements that make the tables of an empty server, as the connector writes them, and applies them.

    Args:
        server: the server.
        tables: the captured tables.
        definitions: gets their definitions.
        low: the position in the log where they are so.
        run: see `run_details`.
        seconds: the server's time there.
        is_all: whether no rows follow, so that the last statement is the end of the snapshot.
    """
    definitions.charsets |= database_charsets(server)
    effects = [Effect("", "", None, server_charset(server))]
    effects += [
        Effect("DROP", *t.name, f"DROP TABLE IF EXISTS {quoted(t.name[0])}.{quoted(t.name[1])}") for t in tables
    ]
    origin = {
        "server_id": 0,
        "file": low.file,
        "pos": low.position,
        "row": 0,
        "snapshot": "true",
        "connector": server.kind,
    }
    changes = list[SchemaChange]()

    def add(effect: Effect) -> None:
        place = Place(TOPIC, PARTITION, low.number, len(changes), len(changes))
        instant = Instant(seconds * 1_000_000, 6)
        changes.append(schema_change(effect, definitions, place, instant, origin | run))

    for effect in effects:
        add(effect)
    for database in dict.fromkeys(table.name[0] for table in tables):
        for text in database_statements(server, database):
            add(Effect("", database, None, text))
        for table in tables:
            if table.name[0] == database:
                definitions.apply(table.create, database)
                add(Effect("CREATE", *table.name, table.create))
    if is_all:
        changes[-1] = replace(changes[-1], origin=changes[-1].origin | {"snapshot": "last"})
    return changes


def server_charset(server: Server) -> str:
    """Returns the statement that sets the server's character set."""
    [(charset, collation)] = server.texts("SELECT @@GLOBAL.character_set_server, @@GLOBAL.collation_server")
    return f"SET character_set_server={charset}, collation_server={collation}"


def database_statements(server: Server, database: str) -> list[str]:
    """Returns the statements that make an empty database."""
    [(charset, collation)] = server.texts(f"{_SCHEMATA} WHERE SCHEMA_NAME = %s", (database,))
    name = quoted(database)
    create = f"CREATE DATABASE {name} CHARSET {charset} COLLATE {collation}"
    return [f"DROP DATABASE IF EXISTS {name}", create, f"USE {name}"]


def _runs(marks: list[str]) -> Iterator[tuple[str, int]]:
    """Yields each run of equal marks with its length."""
    start = 0
    for end in range(1, len(marks) + 1):
        if end == len(marks) or marks[end] != marks[start]:
            yield marks[start], end - start
            start = end


def _with_next(
    parts: Iterator[_Part],
) -> Iterator[tuple[_Part, _Part | None]]:
    """Yields each part with the one that follows it; None after the last: Rule 4."""
    before = next(parts, None)
    while before is not None:
        following = next(parts, None)
        yield before, following
        before = following
