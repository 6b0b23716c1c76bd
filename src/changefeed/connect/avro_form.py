"""Connect data as Avro, the way Confluent's AvroConverter maps it.

    Connect                            Avro
    int8, int16                        {"type":"int","connect.type":"int8"}, … "int16"
    int32 int64 float double           int long float double
    boolean string bytes               the same
    array, map                         array, map
    struct                             record named by the schema's name, with connect.name
    optional                           ["null",T], default null; with a default [T,"null"]
    name, version, parameters, doc     connect.name, connect.version, connect.parameters, connect.doc
    Decimal, Date, Time, Timestamp     a logicalType beside connect.name

Rule 1. A datum is converted to the tree that the JSON converter would have written, and back; the rest of the code handles
        trees only.
Rule 2. Without Connect's names (`connect.meta.data=false`), Avro's own logical types are understood: decimal, date, time and
        timestamp in milliseconds and microseconds. Those in microseconds have Debezium's names, Connect has none.
Rule 3. A type's Connect schema is derived from its attributes, and equals the JSON schema of the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from changefeed.connect import java_json
from changefeed.connect.schema import DECIMAL, Node
from changefeed.errors import ProtocolError, SchemaError, UnsupportedError
from changefeed.wire import base64_text
from changefeed.wire.avro import Type
from changefeed.wire.floats import float32
from changefeed.wire.strict_json import Number

_BASES = {
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
    "record": "struct",
    "array": "array",
    "map": "map",
    "enum": "string",
    "fixed": "bytes",
}
_SMALL = frozenset({"int8", "int16"})
_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium.time."
_LOGICAL = {
    ("bytes", "decimal"): DECIMAL,
    ("fixed", "decimal"): DECIMAL,
    ("int", "date"): _CONNECT + "Date",
    ("int", "time-millis"): _CONNECT + "Time",
    ("long", "time-micros"): _DEBEZIUM + "MicroTime",
    ("long", "timestamp-millis"): _CONNECT + "Timestamp",
    ("long", "timestamp-micros"): _DEBEZIUM + "MicroTimestamp",
    ("long", "local-timestamp-millis"): _CONNECT + "Timestamp",
    ("long", "local-timestamp-micros"): _DEBEZIUM + "MicroTimestamp",
}
_UNKNOWN_PRECISION = "64"  # which the converter writes where it has none
_UNNAMED = "io.confluent.connect.avro.ConnectDefault"


def node(t: Type, field: str = "", default: Any = None) -> Node:
    """Returns the Connect schema of an Avro type; `field` and `default` are the name and default of its field.

    Raises:
        SchemaError: Connect has no such type.
    """
    inner = t.other
    base = _BASES.get(inner.kind)
    if base is None:
        raise SchemaError(f"Avro type {inner.kind} is not supported by Connect", reason="bad-schema")
    small = inner.attributes.get("connect.type")
    name = inner.attributes.get("connect.name") or _logical(inner)
    if inner.kind == "record" and not name and inner.name != _UNNAMED:
        name = inner.name
    return Node(
        str(small) if base == "int32" and str(small) in _SMALL else base,
        optional=t.kind == "union",
        name=str(name),
        parameters=_parameters(inner),
        default=_default(default, inner),
        field=field,
        fields=tuple(node(f.type, f.name, f.attributes.get("default")) for f in inner.fields),
        items=node(inner.items) if inner.kind == "array" and inner.items is not None else None,
    )


def _default(value: Any, t: Type) -> Any:
    """Returns the tree of a field's default; Avro writes bytes as a string of characters below 256."""
    if t.kind == "bytes" and type(value) is str:
        return base64_text.write(value.encode("latin-1", "replace"))
    return value


def _parameters(t: Type) -> Mapping[str, str]:
    parameters = t.attributes.get("connect.parameters")
    if isinstance(parameters, dict):
        return {name: str(value) for name, value in parameters.items()}
    if t.attributes.get("connect.name") == DECIMAL and "scale" in t.attributes:
        return {"scale": str(t.attributes["scale"])}
    if not t.attributes.get("connect.name") and _logical(t) == DECIMAL:
        precision = str(t.attributes.get("precision", _UNKNOWN_PRECISION))
        known = {} if precision == _UNKNOWN_PRECISION else {"connect.decimal.precision": precision}
        return {"scale": str(t.attributes.get("scale", 0)), **known}
    return {}


def _logical(t: Type) -> str:
    """Returns the name of Connect's schema for Avro's logical type; empty for none."""
    return _LOGICAL.get((t.kind, str(t.attributes.get("logicalType", ""))), "")


def tree(value: Any, t: Type) -> Any:
    """Converts a datum to a JSON tree.

    Raises:
        SchemaError: a string is not UTF-8.
    """
    inner = t.other
    if value is None:
        return None
    match inner.kind:
        case "int" | "long":
            return Number(value)
        case "float" | "double":
            return java_json.number(value, 32 if inner.kind == "float" else 64)
        case "bytes" | "fixed":
            return base64_text.write(value)
        case "string":
            return _utf8(value)
        case "record":
            return {f.name: tree(value[f.name], f.type) for f in inner.fields}
        case "array":
            return [tree(item, inner.items or inner) for item in value]
        case "map":
            return {_utf8(name): tree(item, inner.items or inner) for name, item in value.items()}
    return value


def _utf8(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise SchemaError(f"{text!r:.60} is not UTF-8") from error
    return text


def datum(value: Any, t: Type) -> Any:
    """Converts a JSON tree to a datum.

    Raises:
        UnsupportedError: the tree is not a value of the type.
    """
    inner = t.other
    if value is None:
        return None
    try:
        match inner.kind:
            case "int" | "long":
                return int(value)
            case "float":
                return float32(value) if type(value) is Number else float(value)
            case "double":
                return float(value)
            case "bytes" | "fixed":
                return base64_text.read(value)
            case "record":
                return {f.name: datum(value.get(f.name), f.type) for f in inner.fields}
            case "array":
                return [datum(item, inner.items or inner) for item in value]
            case "map":
                return {name: datum(item, inner.items or inner) for name, item in value.items()}
    except (TypeError, ValueError, AttributeError, ProtocolError) as error:
        raise UnsupportedError(f"{value!r:.60} is not a value of the Avro type {inner.kind}") from error
    return value
