r"""Reads tables in the schema-change topic: converts `tableChanges` to columns with their full types.

    {"type":"ALTER","id":"\"shop\".\"orders\"","table":{"primaryKeyColumnNames":["id"],"columns":[
      {"name":"total","jdbcType":3,"typeName":"DECIMAL","length":20,"scale":4,"position":4,"optional":true, …}]}}

Rule 1. If one type is unknown, all columns are unknown: an incomplete table is of no use.
Rule 2. `length` is a display width for integers, which only distinguishes TINYINT(1); a fraction of no digits is null.
Rule 3. `defaultValueExpression` has lost its quotes: text, date and time get them back. CURRENT_TIMESTAMP has become
        1970-01-01 00:00:00 at the producer.
Rule 4. A text type with the character set `binary` is a binary type, whose column keeps that character set: `redefine`
        reads its values by it.
"""

from __future__ import annotations

import re
from typing import Any

from changefeed.errors import SchemaError
from changefeed.model.table import Column
from changefeed.model.types import BINARIES, INTEGERS, ColumnType
from changefeed.mysql import charsets

_ALIASES = {
    "uuid": "char(36)",
    "inet4": "varchar(15)",
    "inet6": "varchar(39)",
    "serial": "bigint unsigned",
    "boolean": "tinyint(1)",
    "bool": "tinyint(1)",
    "character": "char",
    "character varying": "varchar",
    "long varchar": "mediumtext",
    "long varbinary": "mediumblob",
    "long": "mediumtext",
}
_ESCAPE = re.compile(r"''|\\(.)", re.DOTALL)
_ATTRIBUTES = re.compile(r"\b(?:unsigned|signed|zerofill|national|precision|(?<=\w )binary)\b")
_SIZED = frozenset({"char", "varchar", "binary", "varbinary", "vector", "datetime", "timestamp", "time"})
_BINARY = {"char": "binary", "varchar": "varbinary"} | {
    size + "text": size + "blob" for size in ("", "tiny", "medium", "long")
}
_NUMBERS = frozenset({*INTEGERS, "decimal", "float", "double", "year"})


def columns(changes: list[dict[str, Any]], database: str | None, table: str | None) -> tuple[Column, ...] | None:
    """Returns the columns of the changed table; None if the changes do not contain them."""
    tables = [change["table"] for change in changes if isinstance(change.get("table"), dict)]
    if len(changes) > 1:
        named = f'"{database}"."{table}"'
        tables = [c["table"] for c in changes if c.get("id") == named and isinstance(c.get("table"), dict)]
    if len(tables) != 1:
        return None
    keys = tables[0].get("primaryKeyColumnNames") or ()
    try:
        return tuple(_column(column, keys) for column in tables[0]["columns"])
    except (SchemaError, KeyError, TypeError, AttributeError, ValueError):  # another shape of table than ours
        return None


def _column(described: dict[str, Any], keys: Any) -> Column:
    t = column_type(described["typeName"], described["length"], described["scale"], described.get("enumValues"))
    charset = described.get("charsetName")
    is_bytes = charset == "binary" and t.name in _BINARY
    if is_bytes:
        t = ColumnType(_BINARY[t.name], length=t.length)
    name, default = described["name"], described.get("defaultValueExpression")
    if not isinstance(name, str):
        raise SchemaError("column without a name")
    sql = None if default is None else _sql(default, t)
    has_charset = isinstance(charset, str) and (is_bytes or t.name not in BINARIES)
    known = charsets.known(charset) if has_charset else None
    return Column(name, t, bool(described["optional"]), name in keys, sql, charset=known)


def column_type(name: str, length: int | None, scale: int | None, members: list[str] | None) -> ColumnType:
    """Returns the type with this description of the connector.

    Raises:
        SchemaError: the type is unknown.
    """
    base = " ".join(_ATTRIBUTES.sub(" ", name.lower()).split())
    t = ColumnType.parse(_ALIASES.get(base, base))
    unsigned = t.unsigned or "unsigned" in name.lower() or "zerofill" in name.lower()
    if t.name in INTEGERS:
        return ColumnType(t.name, unsigned, 1 if t.length == 1 or (t.name, length) == ("tinyint", 1) else None)
    if t.name == "decimal":
        return ColumnType("decimal", unsigned, length or 10, scale or 0)
    if t.name in ("float", "double"):
        wide = t.name == "double" or ((length or 0) > 24 and scale is None)
        known = (length, scale) if length is not None and scale is not None else (None, None)
        return ColumnType("double" if wide else "float", unsigned, *known)
    if t.name == "bit":
        return ColumnType("bit", length=length or 1)
    if t.name in ("enum", "set"):
        return ColumnType(t.name, members=None if members is None else tuple(map(_member, members)))
    return ColumnType(t.name, length=(length or None) if t.name in _SIZED and t.length is None else t.length)


def _member(quoted: str) -> str:
    inside = quoted[1:-1] if quoted[:1] == quoted[-1:] == "'" and len(quoted) > 1 else quoted
    return _ESCAPE.sub(lambda match: match[1] or "'", inside)


def _sql(default: str, t: ColumnType) -> str:
    if t.name in _NUMBERS:
        return default
    if t.name == "bit":
        return f"b'{default}'"
    return "'" + default.replace("\\", "\\\\").replace("'", "''") + "'"
