"""TABLE_MAP: number, name and columns of a table, for the row events of one statement.

    table id    6 bytes
    flags       2
    database    length (1), text, 00
    table       length (1), text, 00
    columns     packed count n, then n types of one byte
    metadata    packed size, then 0 to 2 bytes a column, by type
    nullable    bitmap of n
    optional    ┌ kind (1) ┬ packed size ┬ value ┐ …             binlog_row_metadata: MINIMAL has 1, 2, 3, 7; FULL all

    kind  value                                                 of
      1   bitmap, highest bit first: unsigned                   numeric columns
      2   default collation, then pairs column, collation       character columns; GEOMETRY of MariaDB, VECTOR of MySQL, too
      3   a collation each                                      character columns
      4   packed length and name each                           all columns
      5,6 packed count, then packed length and member each      SET, ENUM columns
      7   kind of geometry each                                 GEOMETRY columns
      8   column indexes                                        primary key
      9   pairs column index, prefix length (0: whole)          primary key
     10   default collation, then pairs                         ENUM and SET columns together
     11   a collation each                                      ENUM and SET columns together
     12   bitmap, highest bit first: visible                    all columns
     13   number of dimensions each                             VECTOR columns

Rule 1. Numbers in optional metadata are packed integers. Pairs count the columns of that kind, from 0.
Rule 2. ENUM and SET are sent as STRING, whose first byte of metadata has the real type. A CHAR of more than 255 bytes
        has two bits of its length in that byte, inverted, where they are 1 in every real type.
Rule 3. An unknown kind is passed over, because its size is known: kinds add details, they do not change the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.types import ColumnType
from changefeed.mysql import charsets, type_codes
from changefeed.mysql.binlog import codes, collations
from changefeed.mysql.binlog.cursor import EventCursor

_NUMERIC = {
    codes.YEAR, codes.TINY, codes.SHORT, codes.INT24, codes.LONG, codes.LONGLONG, codes.NEWDECIMAL, codes.FLOAT, codes.DOUBLE,
}  # fmt: skip
_CHARACTER = {
    codes.STRING, codes.VAR_STRING, codes.VARCHAR, codes.BLOB, codes.TINY_BLOB, codes.MEDIUM_BLOB, codes.LONG_BLOB,
    codes.VARCHAR_COMPRESSED, codes.BLOB_COMPRESSED,
}  # fmt: skip
_MYSQL_CHARACTER, _MARIADB_CHARACTER = _CHARACTER | {codes.VECTOR}, _CHARACTER | {codes.GEOMETRY}
_MEMBERED = {codes.ENUM, codes.SET}
# Bytes of metadata of each type: `big` for the two bytes of which the first is the higher.
_METADATA = {
    **dict.fromkeys((codes.FLOAT, codes.DOUBLE, codes.BLOB, codes.TINY_BLOB, codes.MEDIUM_BLOB, codes.LONG_BLOB), 1),
    **dict.fromkeys((codes.JSON, codes.GEOMETRY, codes.VECTOR, codes.BLOB_COMPRESSED), 1),
    **dict.fromkeys((codes.TIMESTAMP2, codes.DATETIME2, codes.TIME2), 1),
    **dict.fromkeys((codes.VARCHAR, codes.VAR_STRING, codes.VARCHAR_COMPRESSED, codes.BIT), 2),
    **dict.fromkeys((codes.STRING, codes.ENUM, codes.SET, codes.NEWDECIMAL), 2),
    **dict.fromkeys((codes.TINY, codes.SHORT, codes.INT24, codes.LONG, codes.LONGLONG, codes.YEAR, codes.NULL), 0),
    **dict.fromkeys((codes.DATE, codes.NEWDATE, codes.TIME, codes.DATETIME, codes.TIMESTAMP), 0),
}
_GEOMETRIES = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
)  # fmt: skip
_BLOB_NAMES = {
    1: ("tinytext", "tinyblob"),
    2: ("text", "blob"),
    3: ("mediumtext", "mediumblob"),
    4: ("longtext", "longblob"),
}
_TYPE_OF = {codes.TIMESTAMP2: "timestamp", codes.DATETIME2: "datetime", codes.TIME2: "time", codes.NEWDATE: "date"}


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """A column as a table map describes it; None: the server did not send it.

    Attributes:
        code: the column's real type, see `codes`: ENUM and SET, not STRING.
        metadata: the number in the metadata, by type: bytes of strings, size of a blob's length, fraction digits,
            precision << 8 | scale of a decimal, bits, bytes of ENUM and SET.
        nullable: whether it allows NULL.
        name: the column's name.
        unsigned: for numeric columns: whether it is UNSIGNED.
        charset: the character set of texts and members; `binary` for bytes.
        members: the labels of ENUM and SET.
        geometry: the kind of a geometry: `point`, ….
        visible: whether `SELECT *` shows it.
        dimensions: of a vector.
        mariadb_type: `uuid`, `inet4`, `inet6` or `vector`, which MariaDB does not send: only the caller can set it.
    """

    code: int
    metadata: int
    nullable: bool
    name: str | None = None
    unsigned: bool | None = None
    charset: str | None = None
    members: tuple[str, ...] | None = None
    geometry: str | None = None
    visible: bool | None = None
    dimensions: int | None = None
    mariadb_type: str | None = None

    @property
    def type(self) -> ColumnType | None:
        """The MySQL type, as far as it is known; None if text cannot be distinguished from bytes, or signed from unsigned."""
        return _column_type(self)


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table for the row events of one statement.

    Attributes:
        table_id: the number by which row events name it; it changes when the server opens the table again.
        columns: all columns, in their order.
        primary_key: index of each column of the primary key, and the length of its prefix (0: the whole column); None
            if the table has none or the server did not send it.
    """

    table_id: int
    flags: int
    database: str
    table: str
    columns: tuple[MappedColumn, ...]
    primary_key: tuple[tuple[int, int], ...] | None = field(default=None)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names.

        Raises:
            SchemaError: they are unknown.
        """
        names = tuple(column.name for column in self.columns if column.name is not None)
        if len(names) < len(self.columns):
            raise SchemaError(
                f"the columns' names of {self.database}.{self.table} are not in the log: SET GLOBAL binlog_row_metadata = FULL"
            )
        return names


def read_table_map(cursor: EventCursor, id_size: int, *, mariadb: bool) -> TableMap:
    """Reads the body of a TABLE_MAP event; the table's number has `id_size` bytes.

    Raises:
        ProtocolError: the bytes contradict the format.
    """
    table_id, flags = cursor.uint(id_size), cursor.uint(2)
    database, table = _name(cursor.terminated(1), cursor), _name(cursor.terminated(1), cursor)
    count, start = cursor.packed(), cursor.at
    if count > type_codes.MOST_COLUMNS:
        raise ProtocolError(
            f"{count} columns, expected at most {type_codes.MOST_COLUMNS}", reason="bad-length", byte=start
        )
    types, start = cursor.take(count), cursor.at
    described = EventCursor(cursor.packed_bytes(), "column metadata")
    kinds = [_metadata(code, described, start) for code in types]
    described.finish()
    nullable = cursor.bits(count)
    columns = [MappedColumn(code, size, null) for (code, size), null in zip(kinds, nullable, strict=True)]
    primary_key = None
    while cursor.left:
        kind, start = cursor.take(1)[0], cursor.at
        value = EventCursor(cursor.packed_bytes(), f"optional metadata {kind}")
        try:
            if kind in _KEYS:
                primary_key = _KEYS[kind](value, count)
            elif kind in _OPTIONAL:
                of, name, read = _OPTIONAL[kind]
                if mariadb and of is _MYSQL_CHARACTER:
                    of = _MARIADB_CHARACTER
                indexes = [i for i, column in enumerate(columns) if of is None or column.code in of]
                for index, detail in zip(indexes, read(value, len(indexes)), strict=True):
                    columns[index] = replace(columns[index], **{name: detail})
            else:
                value.rest()
            value.finish()
        except ProtocolError as error:
            error.byte = start
            raise
    return TableMap(table_id, flags, database, table, tuple(map(_decode_members, columns)), primary_key)


def _metadata(code: int, cursor: EventCursor, start: int) -> tuple[int, int]:
    """The real type of a column, and its metadata as one number: Rule 2."""
    size = _METADATA.get(code)
    if size is None:
        raise ProtocolError(f"column type {code} is unknown", reason="unknown-type", byte=start)
    if code == codes.BIT:
        bits, whole = cursor.take(2)
        return code, whole * 8 + bits
    if code == codes.NEWDECIMAL:
        return code, int.from_bytes(cursor.take(2), "big")
    if code not in (codes.STRING, codes.ENUM, codes.SET):
        return code, cursor.uint(size)
    real, length = cursor.take(2)
    if real in _MEMBERED:
        return real, length
    if real | 0x30 != codes.STRING:
        raise ProtocolError(f"column type {real} inside of a STRING is unknown", reason="unknown-type", byte=start)
    return codes.STRING, length | ((real & 0x30) ^ 0x30) << 4


def _name(data: bytes, cursor: EventCursor) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{data!r} is not UTF-8", reason="bad-text", byte=cursor.at) from error


def _charset(collation: int) -> str:
    """The character set of a collation; its number as text if it is unknown, so that values stay bytes."""
    return collations.charset(collation) or f"collation {collation}"


def _default_charsets(cursor: EventCursor, count: int) -> Iterator[str]:
    default = cursor.packed()
    others = {}
    while cursor.left:
        index = cursor.packed()
        if index >= count:
            raise ProtocolError(f"{cursor.what} names column {index} of {count}", reason="bad-length")
        others[index] = cursor.packed()
    return (_charset(others.get(i, default)) for i in range(count))


def _names(cursor: EventCursor, count: int) -> list[str]:
    return [_name(cursor.packed_bytes(), cursor) for _ in range(count)]


def _member_bytes(cursor: EventCursor, count: int) -> list[tuple[bytes, ...]]:
    return [tuple(cursor.packed_bytes() for _ in range(_bounded(cursor))) for _ in range(count)]


def _bounded(cursor: EventCursor) -> int:
    count = cursor.packed()
    if count > cursor.left:  # a member has at least the byte of its length
        raise ProtocolError(f"{cursor.what} has {count} members in {cursor.left} bytes", reason="bad-length")
    return count


def _geometry(cursor: EventCursor, count: int) -> list[str]:
    kinds = [cursor.packed() for _ in range(count)]
    for kind in kinds:
        if kind >= len(_GEOMETRIES):
            raise ProtocolError(f"geometry type {kind} is unknown", reason="unknown-type")
    return [_GEOMETRIES[kind] for kind in kinds]


def _pairs(cursor: EventCursor, count: int, *, prefixes: bool) -> tuple[tuple[int, int], ...]:
    pairs = []
    while cursor.left:
        index = cursor.packed()
        if index >= count:
            raise ProtocolError(f"the primary key has column {index} of {count}", reason="bad-length")
        pairs.append((index, cursor.packed() if prefixes else 0))
    return tuple(pairs)


_KEYS: dict[int, Callable[[EventCursor, int], tuple[tuple[int, int], ...]]] = {
    8: lambda cursor, count: _pairs(cursor, count, prefixes=False),
    9: lambda cursor, count: _pairs(cursor, count, prefixes=True),
}
# Kind -> types of its columns (None: all), the field of the column, and a reader of all values.
_OPTIONAL: dict[int, tuple[set[int] | None, str, Callable[[EventCursor, int], Any]]] = {
    1: (_NUMERIC, "unsigned", EventCursor.high_bits),
    2: (_MYSQL_CHARACTER, "charset", _default_charsets),
    3: (_MYSQL_CHARACTER, "charset", lambda cursor, count: [_charset(cursor.packed()) for _ in range(count)]),
    4: (None, "name", _names),
    5: ({codes.SET}, "members", _member_bytes),
    6: ({codes.ENUM}, "members", _member_bytes),
    7: ({codes.GEOMETRY}, "geometry", _geometry),
    10: (_MEMBERED, "charset", _default_charsets),
    11: (_MEMBERED, "charset", lambda cursor, count: [_charset(cursor.packed()) for _ in range(count)]),
    12: (None, "visible", EventCursor.high_bits),
    13: ({codes.VECTOR}, "dimensions", lambda cursor, count: [cursor.packed() for _ in range(count)]),
}


def _decode_members(column: MappedColumn) -> MappedColumn:
    """Decodes the members of a column, which the metadata has as bytes; None if their character set is unknown."""
    raw: Any = column.members
    if raw is None:
        return column
    charset = None if column.charset is None else charsets.known(column.charset)
    if charset == charsets.BINARY:
        charset = "utf8mb4"  # members of a binary ENUM are written in UTF-8
    if charset is None:
        return replace(column, members=None)
    return replace(column, members=tuple(charsets.decode(member, charset) for member in raw))


def _column_type(column: MappedColumn) -> ColumnType | None:
    code, metadata = column.code, column.metadata
    if code in _NUMERIC and code != codes.YEAR and column.unsigned is None:
        return None
    unsigned = bool(column.unsigned) and code != codes.YEAR
    if code == codes.NEWDECIMAL:
        return ColumnType("decimal", unsigned, metadata >> 8, metadata & 0xFF)
    if code == codes.BIT:
        return ColumnType("bit", length=metadata)
    if code in (codes.TIMESTAMP2, codes.DATETIME2, codes.TIME2):
        return ColumnType(_TYPE_OF[code], length=metadata or None)
    if code in _MEMBERED:
        return ColumnType("enum" if code == codes.ENUM else "set", members=column.members)
    if code == codes.GEOMETRY:
        return ColumnType(column.geometry or "geometry")
    if code == codes.VECTOR:
        return ColumnType("vector", length=column.dimensions)
    if code in _CHARACTER:
        return _text_type(column)
    return ColumnType(_TYPE_OF.get(code) or type_codes.column_type(code, 0).name, unsigned)


def _text_type(column: MappedColumn) -> ColumnType | None:
    if column.charset is None:
        return None
    binary = column.charset == charsets.BINARY
    if column.code in (codes.VARCHAR, codes.VAR_STRING, codes.VARCHAR_COMPRESSED, codes.STRING):
        name = ("char", "binary") if column.code == codes.STRING else ("varchar", "varbinary")
        known = charsets.known(column.charset) is not None or binary
        # a compressed column's length includes the byte of its method
        size = column.metadata - (column.code == codes.VARCHAR_COMPRESSED)
        return ColumnType(name[binary], length=size // collations.longest(column.charset) if known else None)
    sizes = {codes.TINY_BLOB: 1, codes.MEDIUM_BLOB: 3, codes.LONG_BLOB: 4}
    return ColumnType(_BLOB_NAMES[sizes.get(column.code, column.metadata)][binary])
