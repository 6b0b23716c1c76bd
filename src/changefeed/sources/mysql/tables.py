"""The tables of a server: which are captured, their columns, and their definitions.

A column of `information_schema` becomes the same `MappedColumn` that the log has of it, so that a row of the first copy has the
types of its rows in the log.

    SELECT               of                                  because
    CAST(c AS BINARY)    texts, in their own character set   they are decoded as those of the log are
    CAST(c AS UNSIGNED)  ENUM, SET: number, bitmap           their members are those of the log
    c + 0e0              FLOAT, DOUBLE                       a FLOAT is printed with six digits
    c                    all others
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from changefeed.errors import SourceError
from changefeed.model.names import full_name
from changefeed.mysql import charsets
from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.table_map import MappedColumn, TableMap
from changefeed.mysql.ddl.tokens import Tokens
from changefeed.mysql.ddl.types import column_type as parse_type
from changefeed.sources.mysql.connection import GoneError
from changefeed.sources.mysql.masks import ColumnPatterns
from changefeed.sources.mysql.server import Server
from changefeed.ticdc.dispatch.matcher import TableFilter

Name = tuple[str, str]  # database and table


class BrokenTableError(SourceError):
    """A table that the server lists and cannot open: its files, its engine or the tables that it unites are missing."""


SYSTEM = frozenset({"mysql", "sys", "performance_schema", "information_schema"})
MARIADB_SIZES = {"uuid": 16, "inet4": 4, "inet6": 16}  # bytes in the log of types that look like BINARY there
VECTOR_SIZE = 4  # bytes of each number of a VECTOR, which looks like VARBINARY in MariaDB's log
CODES = {
    "tinyint": codes.TINY, "smallint": codes.SHORT, "mediumint": codes.INT24, "int": codes.LONG, "bigint": codes.LONGLONG,
    "float": codes.FLOAT, "double": codes.DOUBLE, "decimal": codes.NEWDECIMAL, "bit": codes.BIT, "year": codes.YEAR,
    "date": codes.DATE, "time": codes.TIME2, "datetime": codes.DATETIME2, "timestamp": codes.TIMESTAMP2,
    "char": codes.STRING, "binary": codes.STRING, "varchar": codes.VARCHAR, "varbinary": codes.VARCHAR,
    "enum": codes.ENUM, "set": codes.SET, "json": codes.JSON, "vector": codes.VECTOR,
    **dict.fromkeys(MARIADB_SIZES, codes.STRING),
}  # fmt: skip
_BLOBS = {"tiny": 1, "": 2, "medium": 3, "long": 4}
CODES |= {f"{size}{kind}": codes.BLOB for size in _BLOBS for kind in ("text", "blob")}
_SIZES = {f"{size}{kind}": count for size, count in _BLOBS.items() for kind in ("text", "blob")}
_GEOMETRIES = {"geomcollection": "geometrycollection"}
_ORDERED = frozenset({
    "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "bit", "enum",
    "date", "time", "datetime", "timestamp", "year", "char", "varchar", "binary", "varbinary", *MARIADB_SIZES,
})  # fmt: skip
_MOST_MEMBERS = 64  # of an ENUM that is ordered: conditions list them, and MySQL reads a table for a list of 200
_NUMERIC = {
    codes.TINY, codes.SHORT, codes.INT24, codes.LONG, codes.LONGLONG, codes.FLOAT, codes.DOUBLE, codes.NEWDECIMAL,
}  # fmt: skip
_KNOWN_GEOMETRIES = frozenset({
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
})  # fmt: skip
_COLUMNS = """\
SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, CHARACTER_OCTET_LENGTH, CHARACTER_SET_NAME, NUMERIC_PRECISION,
NUMERIC_SCALE, DATETIME_PRECISION, COLLATION_NAME FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION"""
_KEYS = """\
SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME, NULLABLE, SUB_PART, COLLATION FROM information_schema.STATISTICS
WHERE NON_UNIQUE = 0{} ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX"""
_TRIES = 5  # of describing a table that changes


@dataclass(frozen=True, slots=True)
class Captured:
    """The tables that a section selects; it is sent to Spark's workers.

    Attributes:
        patterns: those of the section's `tables`.
        mariadb_types: (database, table) -> its columns of MariaDB's types UUID, INET4, INET6 and VECTOR, with the type.
        named: adds the names of columns, and what else the log may lack (`Definitions.named`); None: the log has it.
        names_rule: the server's `lower_case_table_names`.
        replaced: tables that are copied again behind the events: what the log does not tell of their rows is not needed.
        columns: the columns that are excluded or masked.
    """

    patterns: tuple[str, ...]
    mariadb_types: dict[Name, dict[str, str]]
    named: Callable[[TableMap], TableMap] | None = None
    names_rule: int = 0
    replaced: frozenset[Name] = frozenset()
    columns: ColumnPatterns = field(default_factory=ColumnPatterns)

    def selector(self) -> TableFilter:
        """The patterns, compiled."""
        return TableFilter(self.patterns)

    def completed(self, table: TableMap) -> TableMap:
        """A table map with the types that the log does not name."""
        if self.named is not None:
            table = self.named(table)
        types = self.mariadb_types.get((table.database, table.table))
        if types is None:
            return table
        columns = tuple(_completed(column, types.get(column.name or "")) for column in table.columns)
        return TableMap(table.table_id, table.flags, table.database, table.table, columns, table.primary_key)


def is_captured(selector: TableFilter, database: str, table: str) -> bool:
    """Whether a table is captured."""
    return database.lower() not in SYSTEM and selector.matches(database, table)


def _completed(column: MappedColumn, kind: str | None) -> MappedColumn:
    if kind is None or not has_size(column, kind):
        return column
    return MappedColumn(
        column.code, column.metadata, column.nullable, column.name, charset=column.charset, visible=column.visible,
        mariadb_type=kind,
    )  # fmt: skip


def has_size(column: MappedColumn, kind: str) -> bool:
    """Whether a column of the log has the code and the size that MariaDB gives to a type of its own."""
    if kind == "vector":
        return column.code == codes.VARCHAR and column.metadata % VECTOR_SIZE == 0
    return column.code == codes.STRING and column.metadata == MARIADB_SIZES[kind]


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A column of a key, as its index has it.

    Attributes:
        name: of the column.
        is_whole: whether the index has whole values, not their beginnings alone.
        is_descending: whether the index begins with its largest value.
    """

    name: str
    is_whole: bool
    is_descending: bool


@dataclass(frozen=True, slots=True)
class OrderedColumn:
    """A column of a key whose values a literal names exactly, and which the server orders; see `key_ranges.py`."""

    column: MappedColumn
    is_descending: bool = False


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table of the first copy.

    Attributes:
        table: as the log has it.
        create: its CREATE TABLE.
        ordered: the first columns of its key by which rows are ordered, at best all of them; empty if the first is none.
    """

    table: TableMap
    create: str
    ordered: tuple[OrderedColumn, ...] = ()

    @property
    def name(self) -> Name:
        """Its database and name."""
        return self.table.database, self.table.table

    @property
    def is_keyless(self) -> bool:
        """Whether it has neither a primary key nor a unique key without NULL."""
        return self.table.primary_key is None


def list_tables(server: Server, selector: TableFilter) -> list[Name]:
    """Returns the captured tables of a server, in the order of their names."""
    names = server.texts(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' ORDER BY 1, 2"
    )
    return [(database, table) for database, table in names if is_captured(selector, database, table)]


def database_charsets(server: Server) -> dict[str, str]:
    """Returns the default character set of each database."""
    rows = server.texts("SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA")
    return {database: charset for database, charset in rows}  # noqa: C416  # of tuples of any length


def sequences(server: Server) -> set[str]:
    """Returns `database.name` of MariaDB's sequences."""
    statement = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'SEQUENCE'"
    return {full_name(database, name) for database, name in server.texts(statement)}


def mariadb_types(server: Server) -> dict[Name, dict[str, str]]:
    """Returns the columns of types that MariaDB's log does not name."""
    if server.kind != "mariadb":
        return {}
    types: dict[Name, dict[str, str]] = {}
    for database, table, column, kind in server.texts(
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS "
        f"WHERE DATA_TYPE IN ({', '.join(map(repr, (*MARIADB_SIZES, 'vector')))})"
    ):
        types.setdefault((database, table), {})[column] = kind
    return types


def describe(server: Server, database: str, table: str) -> CopiedTable | None:
    """Returns a table as the first copy reads it; None if the server does not have it.

    Raises:
        SourceError: the type of a column is unknown, or the table changes again and again at this moment.
    """
    for _ in range(_TRIES):
        described = server.texts(_COLUMNS, (database, table))
        if not described:
            return None
        columns = tuple(_column(row, f"{database}.{table}") for row in described)
        key = key_parts(server, database, table)
        names = [column.name for column in columns]
        create = show_create(server, database, table)
        if create is None:
            return None
        if {part.name for part in key} <= set(names):  # else it has changed between the questions
            break
    else:
        raise SourceError(
            f"{database}.{table} is altered again and again: start the run when that has ended", transient=True
        )
    primary = tuple((names.index(part.name), 0) for part in key) or None
    orders = {column.name for column, row in zip(columns, described, strict=True) if _is_ordered(column, row)}
    ordered = _ordered(key, [columns[names.index(part.name)] for part in key], orders)
    return CopiedTable(TableMap(0, 0, database, table, columns, primary), create, ordered)


def _ordered(key: list[KeyPart], columns: list[MappedColumn], orders: set[str | None]) -> tuple[OrderedColumn, ...]:
    """The first columns of a key by which rows are ordered.

    Args:
        key, columns: its columns, as the index and as the table has them.
        orders: the names of columns that can be an `OrderedColumn`.
    """
    ordered = list[OrderedColumn]()
    for part, column in zip(key, columns, strict=True):
        if part.name not in orders or not (part.is_whole or not ordered):
            break
        ordered.append(OrderedColumn(column, part.is_descending))
        if not part.is_whole:  # its index does not order rows by what follows
            break
    return tuple(ordered)


def _is_ordered(column: MappedColumn, row: tuple[str, ...]) -> bool:
    """Whether a column can be an `OrderedColumn`; `row`: its description.

    Not a SET, whose 64 members are compared as a signed number; not a FLOAT(7,2) or DOUBLE(7,2), which round what they are
    compared with; not a CHAR without padding of MariaDB, whose order has the padding, and whose comparisons have not.
    """
    kind, scale, collation = row[1], row[7], row[9]
    if kind in ("float", "double"):
        return not scale
    if kind == "char" and "_nopad_" in collation:
        return False
    return kind in _ORDERED and len(column.members or ()) <= _MOST_MEMBERS


def show_create(server: Server, database: str, table: str) -> str | None:
    """Returns the CREATE TABLE of a table; None if the server does not have it.

    Raises:
        BrokenTableError: the server cannot open it.
    """
    try:
        return server.texts(f"SHOW CREATE TABLE {quoted(database)}.{quoted(table)}")[0][1]
    except GoneError:
        return None
    except SourceError as error:
        if error.transient:
            raise
        raise BrokenTableError(
            f"the server cannot open {database}.{table} ({error}). Repair it, or leave it out of source.tables"
        ) from error


def engine_of(server: Server, database: str, table: str) -> str:
    """Returns the storage engine of a table, such as `InnoDB`; empty if the server does not have the table."""
    rows = server.texts(
        "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s", (database, table)
    )
    return rows[0][0] if rows else ""


def key_of(server: Server, database: str, table: str) -> list[str]:
    """Returns the columns of a table's primary key, else of a unique key without NULL; empty if it has neither."""
    return [part.name for part in key_parts(server, database, table)]


def key_parts(server: Server, database: str, table: str) -> list[KeyPart]:
    """Returns the same columns, as their index has them."""
    rows = server.texts(_KEYS.format(" AND TABLE_SCHEMA = %s AND TABLE_NAME = %s"), (database, table))
    return _key([row[2:] for row in rows])


def all_keys(server: Server) -> dict[Name, list[str]]:
    """Returns the key of each table of a server, as `key_of` does; without tables that have none."""
    rows = groupby(server.texts(_KEYS.format("")), key=itemgetter(0, 1))
    chosen = {name: [part.name for part in _key([row[2:] for row in of_table])] for name, of_table in rows}
    return {name: key for name, key in chosen.items() if key}


def _key(rows: Iterable[tuple[str, ...]]) -> list[KeyPart]:
    """The key among unique indexes, whose rows are: index, column, whether it is nullable, length of its prefix, order."""
    indexes, others = dict[str, list[KeyPart]](), set[str]()
    for index, column, nullable, prefix, order in rows:
        indexes.setdefault(index, []).append(KeyPart(column, not prefix, order == "D"))
        if not column or (index != "PRIMARY" and (nullable == "YES" or prefix)):  # an expression has no column
            others.add(index)
    whole = {index: parts for index, parts in indexes.items() if index not in others}
    return whole.get("PRIMARY") or min(whole.values(), key=len, default=[])


def _column(row: tuple[str, ...], table: str) -> MappedColumn:
    name, kind, column_type, nullable, octets, charset, precision, scale, fraction, _ = row
    kind = _GEOMETRIES.get(kind, kind)
    code = CODES.get(kind, codes.GEOMETRY)
    metadata = _metadata(kind, octets, precision, scale, fraction)
    if metadata is None:
        raise SourceError(f"column {name} of {table} has the type {column_type}, which changefeed does not know")
    is_bytes = code in (codes.STRING, codes.VARCHAR, codes.BLOB)
    return MappedColumn(
        code, metadata, nullable == "YES", name,
        unsigned="unsigned" in column_type if code in _NUMERIC else None,
        charset=charset or (charsets.BINARY if is_bytes else None),
        members=parse_type(Tokens(column_type)).members if kind in ("enum", "set") else None,
        geometry=kind if code == codes.GEOMETRY else None,
        dimensions=parse_type(Tokens(column_type)).length if kind == "vector" else None,
        mariadb_type=kind if kind in MARIADB_SIZES else None,
    )  # fmt: skip


def _metadata(kind: str, octets: str, precision: str, scale: str, fraction: str) -> int | None:
    """The number in a table map's metadata; None if the type is unknown."""
    match kind:
        case "decimal":
            return int(precision) << 8 | int(scale)
        case "bit":
            return int(precision)
        case "time" | "datetime" | "timestamp":
            return int(fraction or 0)
        case "char" | "varchar" | "binary" | "varbinary":
            return int(octets)
        case "float" | "json" | "vector":
            return 4
        case "double":
            return 8
        case "enum" | "set":
            return 1
    if kind in MARIADB_SIZES:
        return MARIADB_SIZES[kind]
    return _SIZES.get(kind, 0 if kind in CODES or kind in _KNOWN_GEOMETRIES else None)


def expression(column: MappedColumn) -> str:
    """Returns the expression that selects a column: see the head of this file."""
    name = quoted(column.name or "")
    if column.mariadb_type is not None:
        return f"CAST({name} AS CHAR)"
    if column.code in (codes.STRING, codes.VARCHAR, codes.BLOB) and column.charset != charsets.BINARY:
        return f"CAST({name} AS BINARY)"
    if column.code in (codes.ENUM, codes.SET):
        return f"CAST({name} AS UNSIGNED)"
    return f"{name} + 0e0" if column.code in (codes.FLOAT, codes.DOUBLE) else name


def expressions(table: TableMap) -> str:
    """Returns the list of a SELECT of a table's columns."""
    return ", ".join(expression(column) for column in table.columns)


def quoted(name: str) -> str:
    """A name in a statement."""
    return "`" + name.replace("`", "``") + "`"


def listed(names: Iterable[Name]) -> str:
    """Names of tables, for messages: `shop.orders, shop.items`."""
    return ", ".join(f"{database}.{table}" for database, table in names)
