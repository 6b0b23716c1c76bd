"""Converts ready values to the JSON of a field's schema: the inverse of `reading`, for columns of any type.

Rule 1. A value that the schema cannot represent raises `UnsupportedError`. Values are not rounded, with two exceptions, as in the
        connector: digits of times that the mode does not have (ms in `connect`), and a bigint unsigned that wraps in mode `long`.
Rule 2. A Point's x and y are those of its wkb.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from changefeed.connect import java_json
from changefeed.connect.schema import Node
from changefeed.errors import UnsupportedError
from changefeed.model import values
from changefeed.model.types import BINARIES, ColumnType
from changefeed.protocols.debezium_mysql.values import numbers, times
from changefeed.wire import base64_text
from changefeed.wire.strict_json import Number

Write = Callable[[Any], Any]
_D, _C = "io.debezium.", "org.apache.kafka.connect.data."
_BINARY_TEXT: dict[str, Callable[[bytes], str]] = {
    "base64": base64_text.write,
    "base64-url-safe": lambda data: base64_text.write(data).translate(str.maketrans("+/", "-_")),
    "hex": bytes.hex,
}


def writing(t: ColumnType, node: Node, *, numeric: bool = False, binary: str = "bytes") -> Write:
    """Returns a function that converts ready values to JSON value; not for NULL.

    Args:
        t: the column's type.
        node: the field's schema.
        numeric: decimals are JSON numbers (`decimal.format=NUMERIC`).
        binary: `binary.handling.mode`, for bytes in a string field.
    """
    if (node.type, node.name) in _NAMED:
        return _NAMED[node.type, node.name](t, node)
    if node.scale is not None:
        return _decimal(node.scale, numeric)
    if node.bits is not None:
        return _bits(node.bits)
    if node.type in ("int8", "int16", "int32", "int64"):
        return _wrapped if node.type == "int64" else lambda value: Number(int(value))
    if node.type == "number":
        return Number
    if node.type in ("float", "double"):
        bits = 32 if node.type == "float" else 64
        return lambda value: java_json.number(float(value), bits)
    if node.type == "boolean":
        return bool
    if node.type == "string":
        return _text(t, binary)
    if node.type == "bytes":
        return base64_text.write
    if t.name == "vector":
        bits = 64 if node.items is not None and node.items.type == "double" else 32
        return lambda value: [java_json.number(item, bits) for item in value]
    return lambda value: java_json.read(value.encode(), "json")


def write_irregular(data: bytes, node: Node) -> Any:
    """Returns the JSON of a value that the column's type cannot hold."""
    text = data.decode("utf-8", "surrogateescape")
    if node.scale is not None:
        number = numbers.read_plain(text)
        if number is None:
            raise UnsupportedError(f"debezium-mysql cannot carry {text!r:.60} as a decimal")
        return numbers.write_unscaled(numbers.unscaled(number, node.scale))
    if node.type == "struct":
        return java_json.read(data, "irregular")
    if node.type.startswith("int") and not times.as_number(Number(text or "x")):
        raise UnsupportedError(f"debezium-mysql cannot carry {text!r:.60} in a field of {node.type}")
    return Number(text) if node.type.startswith("int") else text


def _wrapped(value: int) -> Number:
    return Number(value - 2**64 if value >= 2**63 else value)


def _text(t: ColumnType, binary: str) -> Write:
    if t.name in BINARIES:
        return _BINARY_TEXT.get(binary, base64_text.write)
    if t.name == "decimal" and t.length is not None:
        return values.writer(t)
    return lambda value: value


def _decimal(scale: int, numeric: bool) -> Write:
    def write(value: Any) -> Any:
        number = numbers.unscaled(Decimal(value), scale)
        return Number(numbers.scaled(number, scale)) if numeric else numbers.write_unscaled(number)

    return write


def _bits(length: int) -> Write:
    return lambda value: numbers.write_bits(value, length)


def _moment(t: ColumnType, node: Node) -> Write:
    strip = node.name.endswith("IsoTimestamp")
    return lambda us: times.write_moment(us, t.length or 0, strip=strip)


def _geometry(t: ColumnType, node: Node) -> Write:
    point = node.name.endswith("Point")

    def write(value: dict[str, Any]) -> dict[str, Any]:
        if (value["srid"] or 0) >= 2**31:
            raise UnsupportedError(f"debezium-mysql cannot carry the srid {value['srid']}")
        srid = Number(value["srid"]) if value["srid"] else None
        geometry: dict[str, Any] = {"wkb": base64_text.write(value["wkb"]), "srid": srid}
        if point:
            x, y = _coordinates(value["wkb"])
            geometry = {"x": java_json.number(x, 64), "y": java_json.number(y, 64), **geometry}
        return geometry

    return write


def _coordinates(wkb: bytes) -> tuple[float, float]:
    """Reads x and y of a point from its WKB: byte order, type 1, two doubles."""
    order = {0: ">", 1: "<"}.get(wkb[0]) if len(wkb) == 21 else None
    if order is None or struct.unpack(order + "I", wkb[1:5])[0] != 1:
        raise UnsupportedError("debezium-mysql cannot carry a point whose WKB is not that of a point")
    x, y = struct.unpack(order + "dd", wkb[5:])
    return x, y


def _iso_date(t: ColumnType, node: Node) -> Write:
    return lambda days: values.write_date(days) + "Z"


def _iso_time(t: ColumnType, node: Node) -> Write:
    return lambda text: text + "Z"


def _days(t: ColumnType, node: Node) -> Write:
    return Number


def _time(unit: str) -> Callable[[ColumnType, Node], Write]:
    write = times.time_writer(unit)
    return lambda t, node: write


def _datetime(unit: str) -> Callable[[ColumnType, Node], Write]:
    write = times.datetime_writer(unit)
    return lambda t, node: write


# Fields of numbers: what their numbers are to days, or to microseconds, times the one and divided by the other.
UNITS: dict[tuple[str, str], tuple[int, int]] = {
    ("int32", _D + "time.Date"): (1, 1),
    ("int32", _C + "Date"): (1, 1),
    ("int32", _C + "Time"): (1, 1000),
    ("int32", _D + "time.Time"): (1, 1000),
    ("int64", _D + "time.MicroTime"): (1, 1),
    ("int64", _D + "time.NanoTime"): (1000, 1),
    ("int64", _C + "Timestamp"): (1, 1000),
    ("int64", _D + "time.Timestamp"): (1, 1000),
    ("int64", _D + "time.MicroTimestamp"): (1, 1),
    ("int64", _D + "time.NanoTimestamp"): (1000, 1),
}
_NAMED: dict[tuple[str, str], Callable[[ColumnType, Node], Write]] = {
    ("struct", _D + "data.geometry.Point"): _geometry,
    ("struct", _D + "data.geometry.Geometry"): _geometry,
    ("int32", _D + "time.Date"): _days,
    ("int32", _C + "Date"): _days,
    ("int32", _C + "Time"): _time("ms"),
    ("int32", _D + "time.Time"): _time("ms"),
    ("int64", _D + "time.MicroTime"): _time("us"),
    ("int64", _D + "time.NanoTime"): _time("ns"),
    ("int64", _C + "Timestamp"): _datetime("ms"),
    ("int64", _D + "time.Timestamp"): _datetime("ms"),
    ("int64", _D + "time.MicroTimestamp"): _datetime("us"),
    ("int64", _D + "time.NanoTimestamp"): _datetime("ns"),
    ("string", _D + "time.ZonedTimestamp"): _moment,
    ("string", _D + "time.IsoTimestamp"): _moment,
    ("string", _D + "time.IsoDate"): _iso_date,
    ("string", _D + "time.IsoTime"): _iso_time,
}
