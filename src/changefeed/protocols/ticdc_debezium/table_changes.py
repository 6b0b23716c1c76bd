r"""Reads and writes `tableChanges` of a schema change: the table after the change, as Debezium's connectors describe it.

    {"type":"ALTER","id":"\"shop\".\"t\"","table":{"defaultCharsetName":…,"primaryKeyColumnNames":["id"],"columns":[C,…],"comment":null}}
    C   {"name":"total","jdbcType":3,"nativeType":null,"comment":null,"defaultValueExpression":null,"enumValues":null,
         "typeName":"DECIMAL","typeExpression":"DECIMAL","charsetName":null,"length":12,"scale":2,"position":1,
         "optional":false,"autoIncremented":false,"generated":false}

`length` is left out where it is the type's default (bit 1, char 1, varchar 5), and means fraction digits for temporal types and
the display width for integers. Defaults are not read: CURRENT_TIMESTAMP is written as 1970-01-01, a text like an expression.
A message made for a foreign statement describes the columns of the event or its CREATE TABLE, without charsets.
"""

from __future__ import annotations

from typing import Any

from changefeed.errors import UnsupportedError
from changefeed.model.event import SchemaChange
from changefeed.model.table import Column
from changefeed.model.types import BINARIES, NAMES, TEXTS, ColumnType
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.statements import CreateTable, RenameTable, Statement
from changefeed.protocols.ticdc_debezium import actions
from changefeed.protocols.ticdc_debezium.types import optional, tidb_type

_LENGTH = {"bit": 1, "char": 1, "binary": 1, "varchar": 5, "varbinary": 5, "decimal": 10}
_DIGITS = frozenset({"datetime", "timestamp", "time"})
_SIZED = frozenset({*_LENGTH, *_DIGITS, "vector"})
_JDBC = {
    "tinyint": 5,
    "smallint": 5,
    "mediumint": 4,
    "int": 4,
    "year": 4,
    "bigint": -5,
    "float": 6,
    "double": 8,
    "decimal": 3,
    "date": 91,
    "time": 92,
    "datetime": 93,
    "timestamp": 2014,
    "char": 1,
    "enum": 1,
    "set": 1,
    "binary": -2,
    "varbinary": -3,
    "bit": -7,
    "json": 1111,
    "vector": 12,
    "null": 0,
    "boolean": 5,
}


def columns(changes: Any) -> tuple[Column, ...] | None:
    """Returns the columns of the table after the change; None if the message lacks them, or has them in an unknown form."""
    last = changes[-1] if isinstance(changes, list) and changes else None
    table = last.get("table") if isinstance(last, dict) else None
    if not isinstance(table, dict) or not isinstance(table.get("columns"), list) or not table["columns"]:
        return None
    described, keys = table["columns"], table.get("primaryKeyColumnNames")
    columns: list[Column] = []
    for member in described:
        kind = _type(member) if isinstance(member, dict) else None
        if kind is None or not isinstance(member.get("name"), str):
            return None
        nullable = member.get("optional")
        key = member["name"] in keys if isinstance(keys, list) and keys else None
        columns.append(Column(member["name"], kind, nullable if isinstance(nullable, bool) else None, key))
    return tuple(columns)


def _type(member: dict[str, Any]) -> ColumnType | None:
    words = str(member.get("typeName")).lower().split()
    name, length, scale = words[0] if words else "", _natural(member.get("length")), _natural(member.get("scale"))
    if name not in NAMES:
        return None
    unsigned = "unsigned" in words[1:]
    if name in ("enum", "set"):
        members = member.get("enumValues")
        known = isinstance(members, list) and all(isinstance(m, str) for m in members)
        return ColumnType(name, members=tuple(_unquoted(m) for m in members) if known else None)  # type: ignore[union-attr]
    if name == "decimal":
        return ColumnType(name, unsigned, length or 10, scale or 0)
    if name in _SIZED:
        return ColumnType(name, length=(length or _LENGTH.get(name)))
    if name in ("float", "double") and scale is not None and length is not None:
        return ColumnType(name, unsigned, length, scale)
    return ColumnType(name, unsigned, 1 if name == "tinyint" and length == 1 else None)


def _natural(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None


def _unquoted(text: str) -> str:
    """The member between the quotes: producers put them around it and change nothing inside."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text


def made(event: SchemaChange) -> list[dict[str, Any]]:
    """Builds `tableChanges` for a foreign schema change."""
    if not event.table or event.type == "truncate_table":
        return []
    statement = _statement(event)
    names = [(event.database or "", event.table)]
    if isinstance(statement, RenameTable):
        names = [(statement.database, statement.table), (statement.to_database, statement.to_table)]
    table = None
    if event.type != "drop_table":
        described, keys = event.columns or (), [c.name for c in event.columns or () if c.key]
        if event.columns is None and isinstance(statement, CreateTable):
            described, keys = statement.columns, list(statement.keys)
        table = {
            "defaultCharsetName": None,
            "primaryKeyColumnNames": keys,
            "columns": [_column(c, place) for place, c in enumerate(described, 1)],
            "comment": None,
        }
    shown = ",".join(f'"{database}"."{name}"' for database, name in names)
    return [{"type": actions.change(event.type), "id": shown, "table": table}]


def _statement(event: SchemaChange) -> Statement | None:
    """Parses a CREATE TABLE or RENAME TABLE; None for other events, and for DDL that is not a single supported statement."""
    if event.type not in ("create_table", "rename_table"):
        return None
    try:
        statements = parse(event.ddl or "", event.database)
    except UnsupportedError:
        return None
    return statements[0] if len(statements) == 1 else None


def _column(column: Column, place: int) -> dict[str, Any]:
    t = column.type
    name = tidb_type(t).upper()
    return {
        "name": column.name,
        "jdbcType": _JDBC.get(t.name, 12 if t.name in TEXTS else 2004 if t.name in BINARIES else 1111),
        "nativeType": None,
        "comment": None,
        "defaultValueExpression": None,
        "enumValues": None if t.members is None else [f"'{m}'" for m in t.members],
        "typeName": name,
        "typeExpression": name + (f"({t.length})" if t.name == "vector" and t.length else ""),
        "charsetName": None,
        "length": _length(t),
        "scale": t.scale,
        "position": place,
        "optional": optional(column),
        "autoIncremented": False,
        "generated": False,
    }


def _length(t: ColumnType) -> int | None:
    if t.name in ("enum", "set"):
        return 1 if t.name == "enum" else 2 * len(t.members or ()) - 1 if t.members else None
    if t.name == "decimal" or t.length != _LENGTH.get(t.name):
        return t.length
    return None
