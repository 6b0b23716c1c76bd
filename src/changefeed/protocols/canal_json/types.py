"""Converts between column types and the texts of `mysqlType`, and computes the `sqlType` of values.

    mysqlType      "bigint unsigned"    "bigint(20) unsigned"    "ENUM('a','b')"      bare, or with everything; any case
    sqlType        java.sql.Types       -5                       4                    of the value, not of the column

Rule 1. The type is `mysqlType`'s. `sqlType` adds nothing and decides nothing: TiCDC makes it larger with the value
        (a TINYINT UNSIGNED is 5, SMALLINT, from 128 on), and Canal numbers some types in its own way.
Rule 2. Without `mysqlType` the meaning of a text is unknown. Such a record is refused, not guessed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.types import BINARIES, GEOMETRIES, ColumnType

_LONGEST = 1 << 20  # characters of a type: 65535 members of 16
BIT, TINYINT, SMALLINT, INTEGER, BIGINT, DECIMAL = -7, -6, 5, 4, -5, 3
BLOB, CLOB, CHAR, VARCHAR = 2004, 2005, 1, 12
_SQL_TYPES = {
    "tinyint": TINYINT,
    "smallint": SMALLINT,
    "mediumint": INTEGER,
    "int": INTEGER,
    "bigint": BIGINT,
    "float": 7,
    "double": 8,
    "decimal": DECIMAL,
    "bit": BIT,
    "set": BIT,
    "enum": INTEGER,
    "boolean": TINYINT,
    "date": 91,
    "datetime": 93,
    "timestamp": 93,
    "time": 92,
    "char": CHAR,
    "tinytext": CLOB,
    "text": CLOB,
    "mediumtext": CLOB,
    "longtext": CLOB,
}
_SQL_TYPES |= dict.fromkeys(BINARIES | GEOMETRIES, BLOB)
# From which value on an unsigned number has the next larger type.
_LARGER = {
    "tinyint": (2**7, SMALLINT),
    "smallint": (2**15, INTEGER),
    "int": (2**31, BIGINT),
    "bigint": (2**63, DECIMAL),
}


@lru_cache(maxsize=4096)
def column_type(text: str) -> ColumnType:
    """Parses a `mysqlType`.

    Raises:
        ProtocolError: the type is unknown.
    """
    try:
        parsed = ColumnType.parse(text) if len(text) <= _LONGEST else None
    except SchemaError:
        parsed = None
    if parsed is None or parsed.name in ("null", "boolean") or not _possible(parsed):
        raise ProtocolError(f"column type {text!r:.60} is unknown", reason="unknown-type")
    return parsed


def _possible(t: ColumnType) -> bool:
    """Whether MySQL has a type with this length and scale."""
    length, scale = t.length, t.scale or 0
    if length is None:
        return True
    if t.name == "decimal":
        return 0 < length <= 65 and 0 <= scale <= min(length, 30)
    if t.name in ("datetime", "timestamp", "time"):
        return length <= 6
    return length <= (64 if t.name == "bit" else 2**32 - 1)


def type_text(t: ColumnType, *, full: bool) -> str:
    """Returns the `mysqlType` of a type: with lengths and members, or without."""
    if t.name == "boolean":
        return "tinyint(1)" if full else "tinyint"
    return str(t) if full else t.name + (" unsigned" if t.unsigned else "")


def sql_type(t: ColumnType, value: Any) -> int:
    """Returns the `sqlType` that TiCDC writes for a value."""
    if t.unsigned and type(value) is int and t.name in _LARGER:
        limit, larger = _LARGER[t.name]
        if value >= limit:
            return larger
    return _SQL_TYPES.get(t.name, VARCHAR)
