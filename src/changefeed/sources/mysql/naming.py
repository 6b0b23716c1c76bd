"""Names the columns of a table map by the definition of its table, and adds whatever else the log may lack.

    binlog_row_metadata    a table map has                                          a definition adds
    FULL                   everything
    MINIMAL (MySQL)        kinds and sizes, signs, character sets of texts          names, members, keys
    NO_LOG (MariaDB)       kinds and sizes                                          all of these

The table map counts: a definition adds to it only if number, kinds and sizes of all columns fit, and whatever else the map has.
"""

from __future__ import annotations

from dataclasses import replace

from changefeed.errors import UnsupportedError
from changefeed.model.definition import PRIMARY, Table
from changefeed.model.table import Column
from changefeed.model.types import BINARIES, GEOMETRIES, INTEGERS, TEXTS, ColumnType
from changefeed.mysql import charsets
from changefeed.mysql.binlog import codes, collations
from changefeed.mysql.binlog.table_map import MappedColumn, TableMap
from changefeed.sources.mysql.tables import CODES, MARIADB_SIZES, VECTOR_SIZE, has_size
from changefeed.sources.mysql.unlogged import SEQUENCE

_NUMERIC = frozenset({*INTEGERS, "decimal", "float", "double"})
_SIZES = {"float": 4, "double": 8, "json": 4, "vector": 4}
_SECONDS = {
    "time": (codes.TIME2, codes.TIME),
    "datetime": (codes.DATETIME2, codes.DATETIME),
    "timestamp": (codes.TIMESTAMP2, codes.TIMESTAMP),
}
_COMPRESSED = {codes.VARCHAR_COMPRESSED: codes.VARCHAR, codes.BLOB_COMPRESSED: codes.BLOB}
_LONG = (TEXTS | BINARIES) - {"char", "binary"}
_SEQUENCE_CODES = (*(codes.LONGLONG,) * 6, codes.TINY, codes.LONGLONG)


def is_named(table: TableMap) -> bool:
    """Whether a table map has the names of all columns."""
    return all(column.name is not None for column in table.columns)


def named_sequence(table: TableMap) -> TableMap:
    """Returns the table map of a sequence with the names of its columns; the same one if it is of a table."""
    if tuple(column.code for column in table.columns) != _SEQUENCE_CODES:
        return table
    columns = tuple(replace(c, name=name) for c, name in zip(table.columns, SEQUENCE, strict=True))
    return replace(table, columns=columns)


def named(table: TableMap, definition: Table) -> TableMap | None:
    """Returns a table map with all that a definition adds to it; None if the definition does not fit."""
    all_columns = definition.carrying([column.name for column in definition.virtual]).columns
    for columns in (
        all_columns,
        definition.columns,
        all_columns + _hashes(definition, len(table.columns) - len(all_columns)),
    ):
        if len(columns) == len(table.columns):
            described = [_described(mapped, column) for mapped, column in zip(table.columns, columns, strict=True)]
            known = tuple(column for column in described if column is not None)
            if len(known) == len(described):
                return replace(table, columns=known, primary_key=table.primary_key or _primary_key(definition, known))
    return None


def _hashes(definition: Table, count: int) -> tuple[Column, ...]:
    """The hidden columns behind all others in which MariaDB keeps hashes of unique keys that are too long for an index."""
    types = {column.name: column.type for column in definition.columns}
    long = [
        key for key in definition.uniques if any(types[name].name in _LONG for name in key.columns if name in types)
    ]
    if not 0 < count <= len(long):
        return ()
    return tuple(Column(f"DB_ROW_HASH_{number}", ColumnType("bigint", unsigned=True)) for number in range(1, count + 1))


def _primary_key(definition: Table, columns: tuple[MappedColumn, ...]) -> tuple[tuple[int, int], ...] | None:
    names = [column.name for column in columns]
    primary = next((key.columns for key in definition.uniques if key.name == PRIMARY), ())
    return tuple((names.index(name), 0) for name in primary) or None


def _described(mapped: MappedColumn, column: Column) -> MappedColumn | None:
    """A column of a table map with the details of its definition; None if that is of another kind or size."""
    kind, details = column.type, MappedColumn(mapped.code, mapped.metadata, mapped.nullable, column.name)
    declared = "" if column.declared is None else column.declared.type.lower()
    if mapped.code == codes.STRING and declared in MARIADB_SIZES:
        fits = has_size(mapped, declared)
        return replace(details, charset=mapped.charset, mariadb_type=declared) if fits else None
    if kind.name == "vector" and mapped.code == codes.VARCHAR:  # of MariaDB
        fits = mapped.metadata == VECTOR_SIZE * (kind.length or 0)
        return replace(details, charset=charsets.BINARY, mariadb_type="vector") if fits else None
    if kind.name == "json" and mapped.code == codes.BLOB:  # MariaDB's JSON is a LONGTEXT
        return _agreeing(mapped, replace(details, charset="utf8mb4")) if mapped.metadata == 4 else None
    if not _has_form(mapped, column):
        return None
    charset = None
    if kind.name in BINARIES:
        charset = charsets.BINARY
    elif kind.name in TEXTS or kind.name in ("enum", "set"):
        charset = column.charset
    return _agreeing(
        mapped,
        replace(
            details,
            unsigned=kind.unsigned if kind.name in _NUMERIC else None,
            charset=charset,
            members=kind.members and tuple(_stored(member, charset or mapped.charset) for member in kind.members),
            geometry=kind.name if kind.name in GEOMETRIES else None,
            dimensions=kind.length if kind.name == "vector" else None,
        ),
    )


def _stored(member: str, charset: str | None) -> str:
    """A member as the server stores it: a character that its character set does not have is a question mark."""
    known = None if charset is None else charsets.known(charset)
    if member.isascii() or known is None or known == charsets.BINARY:
        return member
    return "".join(character if _has(known, character) else "?" for character in member)


def _has(charset: str, character: str) -> bool:
    try:
        charsets.encode(character, charset)
    except UnsupportedError:
        return False
    return True


def _agreeing(mapped: MappedColumn, details: MappedColumn) -> MappedColumn | None:
    """The details together with those of the table map; None if they contradict each other."""
    for name in ("unsigned", "charset", "geometry"):
        sent, known = getattr(mapped, name), getattr(details, name)
        if sent is not None and known is not None and sent != (_own_name(known) if name == "charset" else known):
            return None
    return replace(
        details,
        unsigned=details.unsigned if mapped.unsigned is None else mapped.unsigned,
        charset=(details.charset and _own_name(details.charset)) if mapped.charset is None else mapped.charset,
        geometry=details.geometry if mapped.geometry is None else mapped.geometry,
        members=details.members if mapped.members is None else mapped.members,
        dimensions=details.dimensions if mapped.dimensions is None else mapped.dimensions,
        visible=mapped.visible,
    )


def _own_name(charset: str) -> str:
    """A character set as collations name it."""
    return "utf8mb3" if charset == "utf8" else charset


def _has_form(mapped: MappedColumn, column: Column) -> bool:
    """Whether a column has the kind and the size of its definition; texts and blobs without a length may have any."""
    kind, code = column.type, _COMPRESSED.get(mapped.code, mapped.code)
    size = mapped.metadata - (mapped.code == codes.VARCHAR_COMPRESSED)
    if kind.name in _SECONDS:
        current, old = _SECONDS[kind.name]
        return (code, size) == (current, kind.length or 0) or (code == old and not kind.length)
    if code != CODES.get(kind.name, codes.GEOMETRY):
        return code == codes.NEWDATE and kind.name == "date"
    match kind.name:
        case "decimal":
            return size == (kind.length or 10) << 8 | (kind.scale or 0)
        case "bit":
            return size == (kind.length or 1)
        case "binary" | "varbinary":
            return size == (kind.length if kind.length is not None else 1)
        case "char" | "varchar":
            charset = (column.charset and _own_name(column.charset)) or mapped.charset
            length = kind.length if kind.length is not None else 1
            return charset is not None and size == length * collations.longest(charset)
        case "enum" | "set":
            return kind.members is not None and size == _membered_size(kind.name, len(kind.members))
    return kind.name not in _SIZES or size == _SIZES[kind.name]


def _membered_size(kind: str, members: int) -> int:
    """Number of bytes of a value of ENUM or SET."""
    if kind == "enum":
        return 1 if members < 256 else 2
    size = (members + 7) // 8
    return 8 if size > 4 else size
