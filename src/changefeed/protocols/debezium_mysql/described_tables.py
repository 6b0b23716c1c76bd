r"""Writes tables for the schema-change topic: `tableChanges` from the columns of a schema change and its origin's `definition`.

    {"type":"ALTER","keys":["id"],"charset":"utf8mb4","comment":null}      a definition

Rule 1. What only statements declare of a column is its `declared`: the type as it is written, AUTO_INCREMENT and comment. A type
        that is written by another of its names, such as INTEGER, keeps that name.
Rule 2. `length` and `scale` are the numbers in the type as it is written: without display width, an integer has none.
Rule 3. `defaultValueExpression` is the literal without its quotes; the time of a statement is 1970-01-01 00:00:00.
"""

from __future__ import annotations

import re
from typing import Any

from changefeed.errors import UnsupportedError
from changefeed.model.event import SchemaChange
from changefeed.model.table import Column, Declared
from changefeed.model.types import BINARIES, GEOMETRIES, TEXTS
from changefeed.mysql.ddl.defaults import is_now
from changefeed.mysql.ddl.tokens import Tokens
from changefeed.protocols.debezium_mysql.defaults import is_expression

_JDBC = {
    "tinyint": 5, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "decimal": 3, "float": 6, "double": 8, "bit": -7,
    "date": 91, "time": 92, "datetime": 93, "timestamp": 2014, "year": 4, "char": 1, "enum": 1, "set": 1, "varchar": 12,
    "binary": -2, "varbinary": -3, "json": 1111, "uuid": 1111, "vector": 1111, "boolean": 16,
}  # fmt: skip
_ALIASES = frozenset({
    "integer", "int1", "int2", "int3", "int4", "int8", "middleint", "numeric", "dec", "fixed", "real", "float4", "float8",
})  # fmt: skip
_JDBC_OF_ALIASES = {"numeric": 2, "real": 7}
_TEXT, _BLOB, _GEOMETRY = 12, 2004, 1111
_NUMBERS = re.compile(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_NAMED_TYPES = frozenset({"boolean", "json", "uuid"})  # which are other types in the definition
_QUOTED = re.compile(r"(?:_\w+\s*)?'(.*)'", re.DOTALL)
_BITS = re.compile(r"b'([01]*)'", re.IGNORECASE)
_BYTES = re.compile(r"x'([0-9a-f]*)'", re.IGNORECASE)


def changes(event: SchemaChange, *, comments: bool, is_newer: bool) -> list[dict[str, Any]]:
    """Returns the tables that a schema change changes; empty if its definition is not known.

    Args:
        event: the schema change.
        comments: whether comments are written.
        is_newer: as version 3.6 writes them, which takes a column with ON UPDATE for one that counts.
    """
    known = event.origin.get("definition")
    if not isinstance(known, dict) or known.get("type") not in ("CREATE", "ALTER", "DROP") or "passed_over_in" in known:
        return []
    name = ".".join('"' + (part or "").replace('"', '""') + '"' for part in (event.database, event.table))
    if known["type"] == "DROP":
        return [{"type": "DROP", "id": name, "table": None}]
    if event.columns is None:
        return []
    columns = [
        _column(number, column, known.get("charset"), is_newer=is_newer)
        for number, column in enumerate(event.columns, 1)
    ]
    if not comments:
        columns = [column | {"comment": None} for column in columns]
    table = {
        "defaultCharsetName": known.get("charset"),
        "primaryKeyColumnNames": known.get("keys", []),
        "columns": columns,
        "comment": known.get("comment") if comments else None,
    }
    return [{"type": known["type"], "id": name, "table": table}]


def _column(number: int, column: Column, charset: str | None, *, is_newer: bool) -> dict[str, Any]:
    written, counted, comment, updated = column.declared or Declared("")
    counted = counted or (updated and is_newer)
    length, scale = _numbers(column, written)
    name = _type_name(column, written)
    return {
        "name": column.name,
        "jdbcType": _jdbc(column, written),
        "nativeType": None,
        "typeName": name,
        "typeExpression": name,
        "charsetName": _charset(column, charset),
        "length": length,
        "scale": scale,
        "position": number,
        "optional": column.nullable is not False,
        "autoIncremented": counted,
        "generated": counted,
        "comment": comment,
        "defaultValueExpression": _default(column, is_newer=is_newer),
        "enumValues": None if column.type.members is None else [_member(member) for member in column.type.members],
    }


def _word(written: str) -> str:
    match = re.match(r"\w+", written)
    word = match[0].lower() if match else ""
    return "boolean" if word == "bool" else word


def _alias(written: str) -> str:
    """The other name by which a number's type is written; empty for its usual one."""
    word = _word(written)
    if word == "double" and re.match(r"double\s+precision\b", written, re.IGNORECASE):
        return "double precision"
    return word if word in _ALIASES else ""


def _jdbc(column: Column, written: str) -> int:
    name = column.type.name
    if (alias := _alias(written)) in _JDBC_OF_ALIASES:
        return _JDBC_OF_ALIASES[alias]
    if _word(written) in _NAMED_TYPES:
        return _JDBC[_word(written)]
    if name == "float" and _of_double(written):
        return _JDBC["double"]
    if name in GEOMETRIES:
        return _GEOMETRY
    if name in _JDBC:
        return _JDBC[name]
    return _BLOB if name in BINARIES else _TEXT


def _of_double(written: str) -> bool:
    """Whether a FLOAT is declared with more digits than one has."""
    match = _NUMBERS.search(written)
    return match is not None and match[2] is None and int(match[1]) > 24


def _type_name(column: Column, written: str) -> str:
    name = _word(written) if _word(written) in _NAMED_TYPES else _alias(written) or column.type.name
    suffix = " UNSIGNED" if column.type.unsigned else ""
    return f"{name.upper()}{suffix}{' ZEROFILL' if column.zerofill else ''}"


def _numbers(column: Column, written: str) -> tuple[int | None, int | None]:
    t = column.type
    if _word(written) in _NAMED_TYPES:
        return None, None
    if t.members is not None:
        return (1 if t.name == "enum" else 2 * len(t.members) - 1), None
    if t.name == "decimal":
        return t.length, t.scale or 0
    match = _NUMBERS.search(written)
    if match is None:
        known = t.length if t.name in ("char", "varchar", "binary", "varbinary", "bit") else None
        return known, None
    return int(match[1]), None if match[2] is None else int(match[2])


def _charset(column: Column, charset: str | None) -> str | None:
    is_text = column.type.name in TEXTS and _word((column.declared or Declared("")).type) != "uuid"
    if not is_text and column.type.members is None:
        return None
    return column.charset or charset


def _default(column: Column, *, is_newer: bool) -> str | None:
    text = column.default
    if text is None or is_expression(text):
        return None
    if is_now(text):
        return "1970-01-01 00:00:00"
    if match := _BITS.fullmatch(text):
        return match[1]
    if match := _BYTES.fullmatch(text):
        return match[1] if is_newer else None
    match = _QUOTED.fullmatch(text)
    return text if match is None else match[1].replace("''", "'")


def with_single_quotes(ddl: str) -> str:
    """Returns a statement with texts in single quotes, as version 3.6 of the connector for MySQL writes them."""
    try:
        reader, parts, end = Tokens(ddl), list[str](), 0
        while (lexeme := reader.take()).kind != "end":
            if lexeme.kind == "text" and lexeme.raw[0] == '"':
                parts += [ddl[end : lexeme.start], "'", lexeme.raw[1:-1], "'"]
                end = lexeme.end
    except UnsupportedError:
        return ddl
    return "".join([*parts, ddl[end:]])


def _member(member: str) -> str:
    return "'" + member.replace("\\", "\\\\").replace("'", "''") + "'"
