r"""Writes the text of Avro schemas, byte for byte as both producers do (Go's encoding/json).

    {"type":"record","name":"orders","namespace":"default.shop","fields":[<field>,…]}
    field     {"default":…,"name":"id","type":…}                                  default only where there is one
    type      {"type":"long","connect.parameters":{"tidb_type":"BIGINT"}}
    ENUM      {"type":"string","connect.parameters":{"allowed":"a,b","tidb_type":"ENUM"}}
    BIT(10)   {"type":"bytes","connect.parameters":{"length":"10","tidb_type":"BIT"}}
    DECIMAL   {"type":"bytes","connect.parameters":{"tidb_type":"DECIMAL"},"logicalType":"decimal","precision":12,"scale":2}

    column                       type            default
    NOT NULL, with a default     T               the default; none for a decimal in bytes
    nullable, without            ["null",T]      null
    nullable, with a default     [T,"null"]      the default; as without for a decimal in bytes

Rule 1. Members of `allowed` are joined by commas: in each `,` becomes `\,`, then `\'` and `''` become `'`.
Rule 2. A type that lacks a necessary detail (the precision of a decimal, the members of an enum) is refused.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Sequence

from changefeed.errors import UnsupportedError
from changefeed.model.table import Column
from changefeed.model.types import BINARIES, TEXTS, ColumnType
from changefeed.protocols.ticdc_avro.names import sanitise
from changefeed.protocols.ticdc_avro.options import Options
from changefeed.wire.go_json import W_HTML

OP, COMMIT_TS, PHYSICAL = "_tidb_op", "_tidb_commit_ts", "_tidb_commit_physical_time"
CHECKSUM, CORRUPTED, VERSION = "_tidb_row_level_checksum", "_tidb_corrupted", "_tidb_checksum_version"
BEFORE = "_ticdc_before"

_STRING = W_HTML.string
_OP = f'{{"default":"","name":"{OP}","type":"string"}}'
_EXTENSION = (
    _OP,
    f'{{"default":0,"name":"{COMMIT_TS}","type":"long"}}',
    f'{{"default":0,"name":"{PHYSICAL}","type":"long"}}',
)
_CHECKSUM = (
    f'{{"default":"","name":"{CHECKSUM}","type":"string"}}',
    f'{{"default":false,"name":"{CORRUPTED}","type":"boolean"}}',
    f'{{"default":0,"name":"{VERSION}","type":"int"}}',
)
_PLAIN = {
    "bigint": ("long", "BIGINT"),
    "float": ("float", "FLOAT"),
    "double": ("double", "DOUBLE"),
    "json": ("string", "JSON"),
    "date": ("string", "DATE"),
    "datetime": ("string", "DATETIME"),
    "timestamp": ("string", "TIMESTAMP"),
    "time": ("string", "TIME"),
    "year": ("int", "YEAR"),
    "boolean": ("int", "INT"),
    "vector": ("string", "TiDBVECTORFloat32"),
}
_INTEGER = re.compile(r"-?\d+", re.ASCII)


def key_text(table: str, namespace: str, columns: Sequence[Column], options: Options) -> str:
    """Returns the schema of a table's keys."""
    return _record(table, namespace, [field_text(c, options) for c in columns])


def value_text(table: str, namespace: str, columns: Sequence[Column], options: Options) -> str:
    """Returns the schema of a table's values, with the fields that options add to the columns."""
    own = [field_text(c, options) for c in columns]
    fields = list(own)
    if options.avro_include_before_value:
        old = _record(table, namespace, own, "_before")
        fields.append(f'{{"default":null,"name":"{BEFORE}","type":["null",{old}]}}')
    if options.enable_tidb_extension:
        fields += _EXTENSION
        fields += _CHECKSUM if options.checksums else ()
    elif options.avro_include_before_value:
        fields.append(_OP)
    return _record(table, namespace, fields)


def _record(table: str, namespace: str, fields: Sequence[str], suffix: str = "") -> str:
    name = sanitise(table) + suffix
    return f'{{"type":"record","name":"{name}","namespace":"{namespace}","fields":[{",".join(fields)}]}}'


def field_text(column: Column, options: Options) -> str:
    """Returns the field of one column.

    Raises:
        UnsupportedError: Avro cannot represent its type.
    """
    kind, parameters, decimal = _type(column, options)
    inside = ",".join(f'"{name}":{_STRING(value)}' for name, value in parameters)
    t = f'{{"type":"{kind}","connect.parameters":{{{inside}}}{decimal}}}'
    default = None if decimal or column.default is None else _default(column.default, column.type, kind)
    name = f'"name":"{sanitise(column.name)}"'
    nullable = column.nullable is not False and not column.key
    if nullable and default is None:
        return f'{{"default":null,{name},"type":["null",{t}]}}'
    t = f'[{t},"null"]' if nullable else t
    return f'{{{name},"type":{t}}}' if default is None else f'{{"default":{default},{name},"type":{t}}}'


def _type(column: Column, options: Options) -> tuple[str, list[tuple[str, str]], str]:
    """Returns the Avro type, its parameters in order, and the members after them, for a decimal in bytes."""
    t = column.type
    if t.name in ("tinyint", "smallint", "mediumint", "int"):
        kind = "long" if t.name == "int" and t.unsigned else "int"
        return kind, [("tidb_type", "INT UNSIGNED" if t.unsigned else "INT")], ""
    if t.name == "bigint" and t.unsigned:
        return options.avro_bigint_unsigned_handling_mode, [("tidb_type", "BIGINT UNSIGNED")], ""
    if t.name in _PLAIN:
        kind, name = _PLAIN[t.name]
        return kind, [("tidb_type", name)], ""
    if t.name in TEXTS:
        return "string", [("tidb_type", "TEXT")], ""
    if t.name in BINARIES:
        return "bytes", [("tidb_type", "BLOB")], ""
    if t.name == "decimal":
        return _decimal(column, options)
    if t.name in ("enum", "set") and t.members is not None:
        return "string", [("allowed", allowed(t.members)), ("tidb_type", t.name.upper())], ""
    if t.name == "bit":
        return "bytes", [("length", str(t.length or 64)), ("tidb_type", "BIT")], ""
    if t.name in ("enum", "set"):
        raise UnsupportedError(f"column {column.name} of type {t}: its members are not known")
    raise UnsupportedError(f"the protocol has no type for column {column.name} of type {t}")


def _decimal(column: Column, options: Options) -> tuple[str, list[tuple[str, str]], str]:
    t, parameters = column.type, [("tidb_type", "DECIMAL")]
    if options.avro_decimal_handling_mode == "string":
        return "string", parameters, ""
    if t.length is None:
        raise UnsupportedError(
            f"column {column.name}: its precision is not known; set avro-decimal-handling-mode to string"
        )
    return "bytes", parameters, f',"logicalType":"decimal","precision":{t.length},"scale":{t.scale or 0}'


def allowed(members: Sequence[str]) -> str:
    """Joins the members of an enum or set to one text."""
    return ",".join(m.replace(",", "\\,").replace("\\'", "'").replace("''", "'") for m in members)


def members_of(text: str) -> tuple[str, ...]:
    r"""The members that `allowed` joined: split at each comma without a backslash in front."""
    return tuple(part.replace("\\,", ",") for part in re.split(r"(?<!\\),", text))


def _default(sql: str, t: ColumnType, kind: str) -> str | None:
    """Returns the JSON of a default; `sql` is its SQL text. An expression is written as text, as the producers do."""
    if sql.upper() == "NULL":
        return None
    quoted = len(sql) > 1 and sql[0] == sql[-1] == "'"
    text = sql[1:-1].replace("''", "'") if quoted else sql
    if kind in ("int", "long") and _INTEGER.fullmatch(text):
        number = int(text)
        return str(number - 2**64 if kind == "long" and number >= 2**63 else number)
    if kind in ("float", "double"):
        return _number(text, kind)
    if kind == "bytes":
        data = _bit(text, t.length or 64) if t.name == "bit" else text.encode("utf-8", "surrogateescape")
        return _STRING(base64.b64encode(data).decode())
    return _STRING(text)


def _number(text: str, kind: str) -> str:
    try:
        value = float(text)
        value = struct.unpack("<f", struct.pack("<f", value))[0] if kind == "float" else value
    except (ValueError, OverflowError):
        return _STRING(text)
    return W_HTML.float(value, 64)


def _bit(text: str, bits: int) -> bytes:
    """Returns the bytes of `b'101'` or of a number."""
    digits = text[2:-1] if text[:2].lower() == "b'" else f"{int(text):b}" if _INTEGER.fullmatch(text) else ""
    if not digits or set(digits) - {"0", "1"}:
        raise UnsupportedError(f"{text!r:.60} is not a default of bit({bits})")
    return int(digits, 2).to_bytes(-(-bits // 8), "big")
