"""Row events to images. The hot loop is `RowReader.image`: everything about a table is compiled before it.

    table id   6 bytes (4 if the fixed part of the event has 6)
    flags      2 bytes: 1 statement end, 2 no foreign key checks, 4 no unique checks, 8 complete rows
    extra      v2 alone: size (2, with itself), then tags: 0 NDB size (1, with itself and format), format, data
                                                       1 partition (2), in updates the source's (2), too
    columns    packed count, then a bitmap of the columns in the images; in updates one before, one after
    rows       each ┌ before ┐ delete, update
                    └ after  ┘ insert, update
    image      bitmap of NULLs, one bit for each column that is in the image; then the values that are not NULL

PARTIAL_UPDATE_ROWS is an update whose image after begins with

    options    packed integer: bit 0, the image has partial JSON values
    partial    if so, a bitmap with one bit for each JSON column of the table, in the image or not: its value is a `json_diff`

Rule 1. The table map gives the type of each column. An event of an unknown table, or with another count, is an error.
Rule 2. A column that is in no bitmap is absent from the image: it was not logged.
Rule 3. Rows follow each other to the end of the event, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from changefeed.errors import ProtocolError
from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.compression import inflate_event
from changefeed.mysql.binlog.cursor import EventCursor
from changefeed.mysql.binlog.events import Header, Image, Rows
from changefeed.mysql.binlog.json_diff import read_json_diff
from changefeed.mysql.binlog.table_map import TableMap
from changefeed.mysql.binlog.values import Read, reader

STATEMENT_END = 1
# Numbers of no table: such an event ends a statement that has no rows left.
NO_TABLES = (0xFFFFFF, 0xFFFFFFFFFFFF)
_NDB, _PARTITION = 0, 1
_PARTIAL_JSON = 1


@dataclass(frozen=True, slots=True)
class Kind:
    """One type of row event."""

    op: str
    version: int
    compressed: bool = False
    partial: bool = False


KINDS = {
    codes.WRITE_ROWS_V1: Kind("insert", 1),
    codes.UPDATE_ROWS_V1: Kind("update", 1),
    codes.DELETE_ROWS_V1: Kind("delete", 1),
    codes.WRITE_ROWS: Kind("insert", 2),
    codes.UPDATE_ROWS: Kind("update", 2),
    codes.DELETE_ROWS: Kind("delete", 2),
    codes.PARTIAL_UPDATE_ROWS: Kind("update", 2, partial=True),
    codes.WRITE_ROWS_COMPRESSED_V1: Kind("insert", 1, compressed=True),
    codes.UPDATE_ROWS_COMPRESSED_V1: Kind("update", 1, compressed=True),
    codes.DELETE_ROWS_COMPRESSED_V1: Kind("delete", 1, compressed=True),
    codes.WRITE_ROWS_COMPRESSED: Kind("insert", 2, compressed=True),
    codes.UPDATE_ROWS_COMPRESSED: Kind("update", 2, compressed=True),
    codes.DELETE_ROWS_COMPRESSED: Kind("delete", 2, compressed=True),
}


class RowReader:
    """Reads the images of one table.

    Attributes:
        table: the table map.
    """

    __slots__ = ("_json", "_readers", "table")

    def __init__(self, table: TableMap) -> None:
        """Compiles a reader for each column.

        Raises:
            ProtocolError: a column has an impossible type.
        """
        self.table = table
        self._readers: tuple[Read, ...] = tuple(map(reader, table.columns))
        self._json = [i for i, column in enumerate(table.columns) if column.code == codes.JSON]

    def readers(self, columns: tuple[int, ...]) -> tuple[Read, ...]:
        """The readers of the columns that an image carries."""
        return tuple(self._readers[i] for i in columns)

    def image(self, cursor: EventCursor, readers: tuple[Read, ...]) -> Image:
        """Reads one image with the readers of its columns."""
        count = len(readers)
        nulls = cursor.uint((count + 7) // 8)
        return tuple([None if nulls >> i & 1 else readers[i](cursor) for i in range(count)])

    def partial_image(self, cursor: EventCursor, columns: tuple[int, ...]) -> Image:
        """Reads an image after of PARTIAL_UPDATE_ROWS."""
        start, options = cursor.at, cursor.packed()
        if options & ~_PARTIAL_JSON:
            raise ProtocolError(f"value options {options:#x} are unknown", reason="unknown-option", byte=start)
        readers = self._readers
        if options:
            partial = dict(zip(self._json, cursor.bits(len(self._json)), strict=True))
            readers = tuple(read_json_diff if partial.get(i) else read for i, read in enumerate(readers))
        return self.image(cursor, tuple(readers[i] for i in columns))


def read_rows(cursor: EventCursor, header: Header, kind: Kind, table: RowReader) -> Rows:
    """Reads a row event after its table's number.

    Raises:
        ProtocolError: the bytes contradict the format or the table map.
    """
    flags = cursor.uint(2)
    partition, ndb = _extra(cursor, kind) if kind.version == 2 else (None, None)
    start, count = cursor.at, cursor.packed()
    if count != len(table.table.columns):
        message = f"{count} columns, but the table map of {table.table.database}.{table.table.table} has"
        raise ProtocolError(f"{message} {len(table.table.columns)}", reason="schema", byte=start)
    before = _columns(cursor, count) if kind.op != "insert" else None
    after = _columns(cursor, count) if kind.op != "delete" else None
    if kind.compressed:
        cursor = EventCursor(inflate_event(cursor.rest()), "rows")
    rows = tuple(_rows(cursor, kind, table, before, after))
    return Rows(
        header, kind.op, table.table, bool(flags & STATEMENT_END), before, after, rows, flags, partition, ndb
    )  # fmt: skip


def _rows(
    cursor: EventCursor, kind: Kind, table: RowReader, before: tuple[int, ...] | None, after: tuple[int, ...] | None
) -> list[tuple[Image | None, Image | None]]:
    before_readers = None if before is None else table.readers(before)
    after_readers = None if after is None else table.readers(after)
    rows: list[tuple[Image | None, Image | None]] = []
    while cursor.left:
        start = cursor.at
        old = None if before_readers is None else table.image(cursor, before_readers)
        if after is None or after_readers is None:
            new: Any = None
        elif kind.partial:
            new = table.partial_image(cursor, after)
        else:
            new = table.image(cursor, after_readers)
        if cursor.at == start:
            raise ProtocolError("rows without columns have bytes", reason="trailing-bytes", byte=start)
        rows.append((old, new))
    return rows


def _columns(cursor: EventCursor, count: int) -> tuple[int, ...]:
    return tuple(i for i, present in enumerate(cursor.bits(count)) if present)


def _extra(cursor: EventCursor, kind: Kind) -> tuple[tuple[int, int | None] | None, bytes | None]:
    """Partition and NDB's information of an event of version 2."""
    start, size = cursor.at, cursor.uint(2)
    if size < 2:
        raise ProtocolError(f"extra information has {size} bytes, expected at least 2", reason="bad-length", byte=start)
    extra = EventCursor(cursor.take(size - 2), "extra information")
    partition: tuple[int, int | None] | None = None
    ndb: bytes | None = None
    while extra.left:
        tag = extra.uint(1)
        if tag == _PARTITION:
            partition = (extra.uint(2), extra.uint(2) if kind.op == "update" else None)
        elif tag == _NDB:
            length = extra.uint(1)
            if length < 2:
                raise ProtocolError(
                    f"NDB information has {length} bytes, expected at least 2", reason="bad-length", byte=start
                )
            ndb = extra.take(length - 1)
        else:
            raise ProtocolError(f"extra information {tag} is unknown", reason="unknown-option", byte=start)
    return partition, ndb
