"""Interprets Avro schemas: which fields are columns, their types, and which fields belong to the producer.

    fields   id  name  …  │ _ticdc_before │ _tidb_op  _tidb_commit_ts  …
             columns      │ the old row   │ the extension

Rule 1. Fields before the first one of the producer are columns; after it, only fields of the producer are allowed.
Rule 2. A column's type follows from its `tidb_type` and Avro type; a pair that no producer writes is refused.
Rule 3. Decoder and encoder interpret a schema in the same way: the encoder also uses this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.protocols.ticdc_avro.schema_text import (
    BEFORE,
    CHECKSUM,
    COMMIT_TS,
    CORRUPTED,
    OP,
    PHYSICAL,
    VERSION,
    members_of,
)
from changefeed.wire import avro
from changefeed.wire.avro import Field, Type
from changefeed.wire.strict_json import REPLACED

_OWN = {
    OP: "string",
    COMMIT_TS: "long",
    PHYSICAL: "long",
    CHECKSUM: "string",
    CORRUPTED: "boolean",
    VERSION: "int",
}
_MAX_DIGITS = 76
_TYPES: dict[tuple[str, str], ColumnType] = {
    ("INT", "int"): ColumnType("int"),
    ("INT UNSIGNED", "int"): ColumnType("int", True),
    ("INT UNSIGNED", "long"): ColumnType("int", True),
    ("BIGINT", "long"): ColumnType("bigint"),
    ("BIGINT UNSIGNED", "long"): ColumnType("bigint", True),
    ("BIGINT UNSIGNED", "string"): ColumnType("bigint", True),
    ("FLOAT", "float"): ColumnType("float"),
    ("FLOAT", "double"): ColumnType("double"),
    ("DOUBLE", "double"): ColumnType("double"),
    ("DECIMAL", "string"): ColumnType("decimal"),
    ("TEXT", "string"): ColumnType("text"),
    ("BLOB", "bytes"): ColumnType("blob"),
    ("JSON", "string"): ColumnType("json"),
    ("DATE", "string"): ColumnType("date"),
    ("DATETIME", "string"): ColumnType("datetime"),
    ("TIMESTAMP", "string"): ColumnType("timestamp"),
    ("TIME", "string"): ColumnType("time"),
    ("YEAR", "int"): ColumnType("year"),
    ("TiDBVECTORFloat32", "string"): ColumnType("vector"),
}


@dataclass(frozen=True, slots=True)
class AvroColumn:
    """A field that is a column.

    Attributes:
        column: the column as the field declares it; `key` is None.
        kind: the Avro type, without the union with null.
        scale: scale of a decimal in bytes.
    """

    column: Column
    kind: str
    scale: int


@dataclass(frozen=True, slots=True, eq=False)
class RowSchema:
    """The schema of a key or a value.

    Attributes:
        schema_id: the id of the schema.
        text: the text of the schema.
        record: the parsed Avro type.
        database, table: names from the record's namespace and name, as far as these contain them.
        columns: the fields that are columns.
        own: names of the producer's fields after the columns.
    """

    schema_id: int
    text: str
    record: Type
    database: str
    table: str
    columns: tuple[AvroColumn, ...]
    own: frozenset[str]


def understand(schema_id: int, text: str, *, key: bool = False) -> RowSchema:
    """Compiles the text of a schema; the schema of a key has only columns.

    Raises:
        SchemaError: the text is not the schema of a TiCDC row.
    """
    record = avro.parse(text)
    if record.kind != "record":
        raise SchemaError(f"schema {schema_id} is {record.kind}, expected a record", reason="bad-schema")
    split = next((at for at, f in enumerate(record.fields) if f.name in _OWN or f.name == BEFORE), len(record.fields))
    own = record.fields[split:]
    columns = tuple(_column(field, schema_id) for field in record.fields[:split])
    if key and own:
        raise SchemaError(f"schema {schema_id} of a key has a field {own[0].name}", reason="bad-schema")
    if not columns:
        raise SchemaError(f"schema {schema_id} has no columns", reason="bad-schema")
    for field in own:
        _check_own(field, columns, schema_id)
    database = record.namespace.rpartition(".")[2] if "." in record.namespace else ""
    table = record.name.rpartition(".")[2]
    return RowSchema(schema_id, text, record, database, table, columns, frozenset(f.name for f in own))


def _check_own(field: Field, columns: tuple[AvroColumn, ...], schema_id: int) -> None:
    if field.name == BEFORE:
        old, nullable = field.type.other, field.type.kind == "union"
        if nullable and old.kind == "record" and tuple(_column(f, schema_id) for f in old.fields) == columns:
            return
    elif field.type.kind == _OWN.get(field.name):
        return
    raise SchemaError(f"schema {schema_id} has an unknown field after its columns: {field.name}", reason="bad-schema")


def _column(field: Field, schema_id: int) -> AvroColumn:
    t = field.type.other
    parameters = t.attributes.get("connect.parameters")
    name = parameters.get("tidb_type") if type(parameters) is dict else None
    if type(name) is not str or type(parameters) is not dict:
        raise SchemaError(f"schema {schema_id}: {field.name} has no tidb_type", reason="unknown-type")
    try:
        kind, scale = _type(name, t, parameters)
    except ProtocolError as error:
        raise SchemaError(f"schema {schema_id}: {field.name}: {error}", reason="unknown-type") from error
    return AvroColumn(Column(field.name, kind, field.type.kind == "union"), t.kind, scale)


def _type(name: str, t: Type, parameters: Mapping[str, Any]) -> tuple[ColumnType, int]:
    if (name, t.kind) in (("ENUM", "string"), ("SET", "string")):
        joined = parameters.get("allowed")
        members = members_of(joined.replace(REPLACED, "\ufffd")) if type(joined) is str else None
        if members is None:
            raise SchemaError(f"{name} has no allowed members")
        return ColumnType(name.lower(), members=members), 0
    if (name, t.kind) == ("BIT", "bytes"):
        return ColumnType("bit", length=_number(parameters.get("length"), 64, "length")), 0
    if (name, t.kind) == ("DECIMAL", "bytes"):
        precision = _number(t.attributes.get("precision"), _MAX_DIGITS, "precision")
        scale = _number(t.attributes.get("scale", "0"), precision, "scale", 0)
        if t.attributes.get("logicalType") != "decimal":
            raise SchemaError("DECIMAL in bytes has no logicalType decimal")
        return ColumnType("decimal", length=precision, scale=scale), scale
    known = _TYPES.get((name, t.kind))
    if known is None:
        raise SchemaError(f"tidb_type {name!r:.40} with the Avro type {t.kind} is unknown")
    return known, 0


def _number(text: Any, most: int, what: str, least: int = 1) -> int:
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 4 and least <= int(text) <= most:
        return int(text)
    raise SchemaError(f"{text!r:.40} is not a {what} from {least} to {most}")
