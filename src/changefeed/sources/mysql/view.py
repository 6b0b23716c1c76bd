"""A snapshot for events: all rows of the tables in one consistent view, in order, over one connection.

    START TRANSACTION WITH CONSISTENT SNAPSHOT ─▶ position L ─▶ definitions ─▶ rows of table after table ─▶ COMMIT

Rule 1. Every row is as it was at L, and the log is read from L on. The copy for tables (`first_copy.py`) applies changes twice,
        which a table with a key does not show; a reader of events would see a row that is newer than the changes after it.
Rule 2. No lock lasts: MariaDB shows the position of a view; MySQL locks while the view begins.
Rule 3. A snapshot that is interrupted begins again, with another view: what was written of it stays.
Rule 4. The first and the last row of each table, and of the snapshot, are marked. So one row is always held back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from changefeed.errors import SchemaError, SourceError
from changefeed.model.batch import Decoded
from changefeed.model.event import Instant, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import TableShape, canonical
from changefeed.sources.mysql.changes import PARTITION, TOPIC, ShapeRows
from changefeed.sources.mysql.columns import columns_of, of_select
from changefeed.sources.mysql.connection import translated
from changefeed.sources.mysql.definitions import Definitions
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.tables import Captured, CopiedTable, describe, list_tables, quoted
from changefeed.sources.mysql.transactions import RowDetails, closing

_FETCHED = 20_000
_Image = tuple[Any, ...]


@dataclass(slots=True)
class View:
    """A consistent view of a server's tables, which is open on the server's connection.

    Attributes:
        low: the position in the log that belongs to the view.
        gtids: of all transactions before it; None if they are not known.
        seconds: the server's time when it began, in seconds since 1970.
        tables: the captured tables, in the order of their names.
        context: identifies the run; see `Transactions`.
        now: returns the time in nanoseconds since 1970.
    """

    server: Server
    low: LogPosition
    gtids: str | None
    seconds: int
    tables: tuple[CopiedTable, ...]
    context: dict[str, str]
    now: Callable[[], int] = time.time_ns

    @classmethod
    def open(cls, server: Server, captured: Captured, context: dict[str, str]) -> View:
        """Begins a view.

        Raises:
            AccessError: MySQL alone: the user may not lock.
            SourceError: a long query keeps the lock from being taken, or a table was dropped at this moment.
        """
        low, gtids = server.begin_view()
        [(seconds,)] = server.texts("SELECT UNIX_TIMESTAMP()")
        tables = []
        for name in list_tables(server, captured):
            table = describe(server, *name)
            if table is None:
                raise SourceError(f"{'.'.join(name)} was dropped while the snapshot began", transient=True)
            tables.append(table)
        return cls(server, low, gtids, int(seconds), tuple(tables), context)

    def definitions(self) -> list[SchemaChange]:
        """Returns the CREATE TABLE of each table."""
        instant = Instant(self.seconds * 1_000_000, 6)
        return [
            SchemaChange(
                "create_table", *table.name, table.create, Place(TOPIC, PARTITION, self.low.number, number, number),
                commit_ts=self.low.number, instant=instant, origin={**self._origin("true"), "row": 0},
            )
            for number, table in enumerate(self.tables)
        ]  # fmt: skip

    def rows(self, definitions: Definitions) -> Iterator[Decoded]:
        """Yields all rows, in batches of one table."""
        mark = "first"
        for (table, images), following in _with_next(self._read()):
            marks = [mark, *["true"] * (len(images) - 1)]
            mark = "true"
            if following is None:
                marks[-1] = "last"
            elif following[0] is not table:
                marks[-1], mark = "last_in_data_collection", "first_in_data_collection"
            yield self._decoded(table, images, marks, definitions)
        self.server.rows("COMMIT")

    def _read(self) -> Iterator[tuple[CopiedTable, list[_Image]]]:
        """Yields rows as images; tables without rows yield nothing."""
        from pymysql.cursors import SSCursor

        for table in self.tables:
            readers = [of_select(column) for column in table.table.columns]
            database, name = table.name
            with translated(self.server.address), self.server.connection.cursor(SSCursor) as cursor:
                cursor.execute(f"SELECT {table.expressions} FROM {quoted(database)}.{quoted(name)}")
                while rows := cursor.fetchmany(_FETCHED):
                    yield table, [_image(readers, row) for row in rows]

    def _decoded(self, table: CopiedTable, images: list[_Image], marks: list[str], definitions: Definitions) -> Decoded:
        count, low = len(images), self.low.number
        shape = definitions.completed(TableShape(*table.name, columns_of(table.table)))
        zeros = np.zeros(count, np.int64)
        details = [
            RowDetails(
                f'{canonical(self._origin(mark))[:-1]},"row":', closing(canonical(self.context), self.now), zeros[:length],
                self.seconds * 1_000_000, None, zeros[:length], zeros[:length],
            )
            for mark, length in _runs(marks)
        ]  # fmt: skip
        rows = ShapeRows(
            list(range(count)), [low] * count, [0] * count, ["read"] * count, [low] * count, [None] * count,
            [None] * count, list(images), details,
        )  # fmt: skip
        return Decoded([rows.built(shape)])

    def _origin(self, mark: str) -> dict[str, Any]:
        return {"server_id": 0, "file": self.low.file, "pos": self.low.position, "snapshot": mark}


def _image(readers: list[Callable[[bytes], Any]], row: tuple[bytes | None, ...]) -> _Image:
    try:
        return tuple([None if value is None else read(value) for read, value in zip(readers, row, strict=True)])
    except (ValueError, IndexError, SchemaError) as error:
        raise SourceError(f"a row of the snapshot has a value that is not of its column's type: {error}") from error


def _runs(marks: list[str]) -> Iterator[tuple[str, int]]:
    """Yields each run of equal marks with its length."""
    start = 0
    for end in range(1, len(marks) + 1):
        if end == len(marks) or marks[end] != marks[start]:
            yield marks[start], end - start
            start = end


def _with_next(
    parts: Iterator[tuple[CopiedTable, list[_Image]]],
) -> Iterator[tuple[tuple[CopiedTable, list[_Image]], tuple[CopiedTable, list[_Image]] | None]]:
    """Yields each part with the one that follows it; None after the last: Rule 4."""
    before = next(parts, None)
    while before is not None:
        following = next(parts, None)
        yield before, following
        before = following
