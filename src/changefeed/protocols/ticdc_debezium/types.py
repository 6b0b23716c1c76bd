"""Converts between the fields of a schema block and column types, as far as a field declares its type.

    type, name io.debezium.…        without tidb_type        tidb_type refines it to
    int16                           smallint                 tinyint, tinyint unsigned
    int32                           int                      smallint unsigned, mediumint, mediumint unsigned
    int64                           bigint                   int unsigned, bigint unsigned
    float                           float                    float unsigned
    double                          double                   decimal; float (declared with digits), … unsigned
    boolean                         bit(1)                   –
    bytes    data.Bits {length:n}   bit(n)                   –
    string                          text                     char … longtext, binary … longblob
    string   data.Enum {allowed}    enum(…)                  –
    string   data.EnumSet {allowed} set(…)                   –
    string   data.Json              json                     –
    string   time.ZonedTimestamp    timestamp(p), p as sent  –
    string   data.TiDBVectorFloat32 vector                   –
    int32    time.Date, time.Year   date, year               –
    int64    time.Timestamp         datetime(3): ms          –
    int64    time.MicroTimestamp    datetime(6): µs          –
    int64    time.MicroTime         time(6): µs              –

Rule 1. A type is the form of the value: datetime(3) is sent in milliseconds, though the column may be a DATETIME.
Rule 2. `text` may be the base64 of a binary column, `bigint` a bigint unsigned that wrapped, `double` a decimal: only a
        tidb_type or the table's DDL shows it. The value follows from both types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from changefeed.errors import ProtocolError, SchemaError, UnsupportedError
from changefeed.model.table import Column
from changefeed.model.types import BINARIES, TEXTS, ColumnType
from changefeed.wire.json_form import mapping, show, unicode_name
from changefeed.wire.strict_json import REPLACED

_PREFIX = "io.debezium."
DATE, TIMESTAMP, MICRO_TIMESTAMP = "time.Date", "time.Timestamp", "time.MicroTimestamp"
_DECLARED_TYPES: dict[tuple[str, str | None], str] = {
    ("int16", None): "smallint",
    ("int32", None): "int",
    ("int64", None): "bigint",
    ("float", None): "float",
    ("double", None): "double",
    ("boolean", None): "bit(1)",
    ("string", None): "text",
    ("bytes", "data.Bits"): "bit",
    ("string", "data.Enum"): "enum",
    ("string", "data.EnumSet"): "set",
    ("string", "data.Json"): "json",
    ("string", "data.TiDBVectorFloat32"): "vector",
    ("string", "time.ZonedTimestamp"): "timestamp",
    ("int32", "time.Date"): "date",
    ("int32", "time.Year"): "year",
    ("int64", "time.Timestamp"): "datetime(3)",
    ("int64", "time.MicroTimestamp"): "datetime(6)",
    ("int64", "time.MicroTime"): "time(6)",
}
# tidb_type, without `unsigned` -> the (type, name) pairs that it refines.
_REFINES: dict[str, tuple[str, ...]] = {
    "tinyint": ("smallint",),
    "smallint": ("smallint", "int"),
    "mediumint": ("int",),
    "int": ("int", "bigint"),
    "bigint": ("bigint",),
    "float": ("float", "double"),
    "decimal": ("double",),
    **dict.fromkeys((*TEXTS, *BINARIES), ("text",)),
}
_WITHOUT_UNSIGNED = frozenset({"year", "bit", "varchar", "char", "decimal"})


def declared(field: Mapping[str, Any]) -> ColumnType:
    """Returns the type of a field of the schema block.

    Raises:
        ProtocolError: the type of the field is unknown, or its members contradict each other.
    """
    kind, name, sent = field.get("type"), field.get("name"), field.get("tidb_type")
    if type(name) is str and name.startswith(_PREFIX):
        base = _DECLARED_TYPES.get((str(kind), name.removeprefix(_PREFIX)))
    else:
        base = _DECLARED_TYPES.get((str(kind), None)) if name is None else None
    if base is None:
        raise ProtocolError(f"type {show(kind)} named {show(name)} is unknown", reason="unknown-type")
    base_type = _with_parameters(base, field)
    return base_type if sent is None else _refined(base_type, sent)


def _with_parameters(base: str, field: Mapping[str, Any]) -> ColumnType:
    if base not in ("bit", "enum", "set"):
        return ColumnType.parse(base)
    parameters = mapping(field.get("parameters"), "parameters")
    value = parameters.get("length" if base == "bit" else "allowed")
    if type(value) is not str:
        raise SchemaError(f"{show(value)} is not a parameter of a field named {show(field['name'])}")
    value = unicode_name(value.replace(REPLACED, "\ufffd"), "parameters")
    if base != "bit":
        return ColumnType(base, members=_members(base, value))
    if not re.fullmatch(r"[1-9]|[1-5]\d|6[0-4]", value, re.ASCII):
        raise SchemaError(f"{show(value)} is not a number of bits")
    return ColumnType("bit", length=int(value))


def _members(base: str, allowed: str) -> tuple[str, ...]:
    r"""Members stand between commas; those of an enum may hold commas of their own, as `\,`."""
    if base == "set":
        return tuple(allowed.split(","))
    return tuple(member.replace("\\,", ",") for member in re.split(r"(?<!\\),", allowed))


def _refined(declared: ColumnType, sent: Any) -> ColumnType:
    if type(sent) is not str:
        raise SchemaError(f"{show(sent)} is not a tidb_type")
    name, _, attribute = sent.partition(" ")
    if attribute not in ("", "unsigned"):
        raise SchemaError(f"{show(sent)} is not a tidb_type")
    if name == declared.name and name in _REFINES | {"double": ()}:
        return ColumnType(name, bool(attribute))
    if name == declared.name and not attribute:
        return declared
    if str(declared) not in _REFINES.get(name, ()):
        raise SchemaError(f"tidb_type {show(sent)} contradicts the type {declared}")
    return ColumnType(name, bool(attribute))


def described(t: ColumnType) -> tuple[str, str | None, dict[str, str]]:
    """Returns `type`, semantic name and parameters of the field for a column type.

    Raises:
        UnsupportedError: the protocol does not have the type.
    """
    kind, name = _DESCRIBED.get(t.name, (None, None))
    if t.name in TEXTS or t.name in BINARIES:
        kind = "string"
    if kind is None or (t.name in ("enum", "set") and t.members is None) or (t.name == "bit" and t.length is None):
        why = ": its members are not known" if t.name in ("enum", "set") else ""
        raise UnsupportedError(f"ticdc-debezium cannot carry a column of type {t}{why}")
    if t.unsigned:
        kind = {"smallint": "int32", "int": "int64"}.get(t.name, kind)
    if t.name == "float" and t.scale is not None:
        kind = "double"
    if t.name == "bit" and t.length == 1:
        return "boolean", None, {}
    if t.name == "datetime" and (t.length or 0) > 3:
        name = MICRO_TIMESTAMP
    parameters = {"length": str(t.length)} if t.name == "bit" else {}
    if t.members is not None:
        parameters = {"allowed": _allowed(t.name, t.members)}
    return kind, None if name is None else _PREFIX + name, parameters


_DESCRIBED: dict[str, tuple[str | None, str | None]] = {
    "tinyint": ("int16", None),
    "boolean": ("int16", None),
    "smallint": ("int16", None),
    "mediumint": ("int32", None),
    "int": ("int32", None),
    "bigint": ("int64", None),
    "float": ("float", None),
    "double": ("double", None),
    "decimal": ("double", None),
    "bit": ("bytes", "data.Bits"),
    "enum": ("string", "data.Enum"),
    "set": ("string", "data.EnumSet"),
    "json": ("string", "data.Json"),
    "vector": ("string", "data.TiDBVectorFloat32"),
    "timestamp": ("string", "time.ZonedTimestamp"),
    "date": ("int32", DATE),
    "year": ("int32", "time.Year"),
    "datetime": ("int64", TIMESTAMP),
    "time": ("int64", "time.MicroTime"),
}


def _allowed(name: str, members: tuple[str, ...]) -> str:
    if name == "set":
        return ",".join(members)
    return ",".join(m.replace(",", "\\,").replace("\\'", "'").replace("''", "'") for m in members)


def tidb_type(t: ColumnType) -> str:
    """Returns the text of a field's `tidb_type`."""
    name = "tinyint" if t.name == "boolean" else t.name
    return name + (" unsigned" if t.unsigned and name not in _WITHOUT_UNSIGNED else "")


def optional(column: Column) -> bool:
    """Whether the column allows NULL; if unknown, every column except those of the key does."""
    return not column.key if column.nullable is None else column.nullable
