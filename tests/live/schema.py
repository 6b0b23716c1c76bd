"""The tables of a server as its own catalogue has them: what a history is drawn from, and what a result is compared with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tests.live.session import Session

MARKER = "zz_marker"  # a history's last row is in this table
_MEMBER = re.compile(r"'((?:[^']|'')*)'")
_DETAILS = re.compile(r"^([a-z]+)(?:\(([^)]*)\))?")


@dataclass(frozen=True, slots=True)
class ServerColumn:
    """A column.

    Attributes:
        type: the server's text, as `int(10) unsigned`.
        charset: character set; empty if it has none.
        generated: `virtual`, `stored` or empty.
    """

    name: str
    type: str
    nullable: bool
    charset: str
    generated: str
    has_default: bool
    auto_increment: bool

    @property
    def kind(self) -> str:
        """The name of the type: `int`, `varchar` …"""
        match = _DETAILS.match(self.type)
        return match[1] if match else self.type

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers in parentheses."""
        match = _DETAILS.match(self.type)
        return () if match is None or not match[2] or "'" in match[2] else tuple(map(int, match[2].split(",")))

    @property
    def unsigned(self) -> bool:
        """Whether it is UNSIGNED."""
        return "unsigned" in self.type

    @property
    def members(self) -> list[str]:
        """The members of an ENUM or a SET."""
        return [member.replace("''", "'") for member in _MEMBER.findall(self.type)]


@dataclass(frozen=True, slots=True)
class Key:
    """An index; `columns` has None for an expression, and `prefix` is whether it has a part of a column only."""

    name: str
    unique: bool
    columns: tuple[str | None, ...]
    prefix: bool


@dataclass(frozen=True, slots=True)
class ServerTable:
    """A table."""

    database: str
    name: str
    columns: tuple[ServerColumn, ...]
    keys: tuple[Key, ...]

    @property
    def full_name(self) -> tuple[str, str]:
        """The names of database and table."""
        return self.database, self.name

    def column(self, name: str) -> ServerColumn:
        """The column with this name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def handle(self) -> tuple[str, ...]:
        """The columns of a key that identifies every row; empty if there is none."""
        required = {column.name for column in self.columns if not column.nullable}
        whole = [key for key in self.keys if key.unique and not key.prefix and required.issuperset(key.columns)]
        keys = sorted(whole, key=lambda key: (key.name != "PRIMARY", len(key.columns)))
        return tuple(str(column) for column in keys[0].columns) if keys else ()


def tables(session: Session, databases: Iterable[str]) -> dict[tuple[str, str], ServerTable]:
    """The tables of these databases; without the marker's. MariaDB's JSON, which is a `longtext`, is `json`."""
    names = ", ".join(f"'{database}'" for database in databases)
    columns: dict[tuple[str, str], list[ServerColumn]] = {}
    for database, table, *column in session.query(
        "SELECT c.table_schema, c.table_name, c.column_name, "
        "IF(c.column_type = 'longtext' AND c.collation_name = 'utf8mb4_bin', 'json', c.column_type), "
        "c.is_nullable, IFNULL(c.character_set_name, ''), c.extra, c.column_default IS NOT NULL "
        "FROM information_schema.columns c JOIN information_schema.tables t "
        "ON t.table_schema = c.table_schema AND t.table_name = c.table_name "
        f"WHERE c.table_schema IN ({names}) AND t.table_type LIKE '%BASE TABLE%' "
        "ORDER BY c.table_schema, c.table_name, c.ordinal_position"
    ):
        if table != MARKER:
            columns.setdefault((database, table), []).append(_column(column))
    keys: dict[tuple[str, str], dict[str, list[list[str]]]] = {}
    for database, table, name, *part in session.query(
        "SELECT table_schema, table_name, index_name, non_unique, IFNULL(column_name, ''), sub_part IS NOT NULL "
        f"FROM information_schema.statistics WHERE table_schema IN ({names}) "
        "ORDER BY table_schema, table_name, index_name, seq_in_index"
    ):
        keys.setdefault((database, table), {}).setdefault(name, []).append(part)
    return {
        name: ServerTable(*name, tuple(its_columns), tuple(_key(n, parts) for n, parts in keys.get(name, {}).items()))
        for name, its_columns in columns.items()
    }


def _column(fields: list[str]) -> ServerColumn:
    name, kind, nullable, charset, extra, has_default = fields
    upper = extra.upper()
    generated = "virtual" if "VIRTUAL" in upper else "stored" if "STORED" in upper else ""
    return ServerColumn(
        name, kind, nullable == "YES", charset, generated, has_default == "1", "AUTO_INCREMENT" in upper
    )


def _key(name: str, parts: list[list[str]]) -> Key:
    columns = tuple(column or None for _, column, _ in parts)
    return Key(name, parts[0][0] == "0", columns, any(prefix == "1" for _, _, prefix in parts))


@dataclass(frozen=True, slots=True)
class Content:
    """A table at the end of a history.

    Attributes:
        columns: name, type and kind of generation (`virtual`, `stored` or empty) of each column, in order.
        rows: values in the order of `columns`; hex digits of the value's bytes or of its text in UTF-8, None for NULL.
    """

    columns: tuple[tuple[str, str, str], ...]
    rows: tuple[tuple[str | None, ...], ...]


def content(session: Session, table: ServerTable) -> Content:
    """Reads a table with all its rows."""
    selected = ", ".join(_hex(column) for column in table.columns)
    rows = session.query(f"SELECT {selected} FROM {quoted(table.database)}.{quoted(table.name)}")
    return Content(
        tuple((column.name, column.type, column.generated) for column in table.columns),
        tuple(tuple(None if value == "NULL" else value for value in row) for row in rows),
    )


def _hex(column: ServerColumn) -> str:
    """An expression for the exact value as hex digits."""
    name = quoted(column.name)
    match column.kind:
        case "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob":
            return f"HEX({name})"
        case "bit":
            return f"HEX(CAST({name} + 0 AS CHAR))"
        case "float":  # as text a float has six digits
            return f"HEX(CAST({name} + 0e0 AS CHAR))"
        case "point" | "geometry" | "linestring" | "polygon":
            return f"HEX(ST_AsBinary({name}))"
        case _:
            return f"HEX(CONVERT(CAST({name} AS CHAR) USING utf8mb4))"


def quoted(name: str) -> str:
    """A name between backticks."""
    return "`" + name.replace("`", "``") + "`"
