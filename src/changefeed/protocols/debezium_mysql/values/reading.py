"""Derives the column type of a field from its schema, and converts JSON values to ready values.

    schema                                column type        value
    int8 int16 int32 int64                tinyint … bigint   as sent: a wrapped bigint unsigned is negative
    float, double, boolean, string        the same, varchar
    bytes                                 varbinary          base64
    … named data.Bits                     bit(n)             base64, little-endian
    … named Decimal                       decimal(p,s)       base64 of the unscaled value, or a number
    string named Enum, EnumSet            enum(…), set(…)    the label; one that leaked its escapes is mended
    string named Json, Uuid               json, char(36)
    numbers and text named time.…         see `times`
    int32 named Year                      year
    struct named geometry.…               point, geometry    wkb and srid
    array of float                        vector
    any other struct, array or map        json               the text as sent

Rule 1. The type has only the details that the schema has; the others are in the schema-change topic.
Rule 2. A value of another form than its schema's is an error; one that the column type cannot hold is `Irregular`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from changefeed.connect import java_json
from changefeed.connect.schema import BITS, DECIMAL, Node
from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.types import ColumnType
from changefeed.model.values import Irregular
from changefeed.mysql.type_codes import MOST_DIMENSIONS
from changefeed.protocols.debezium_mysql.values import numbers, times
from changefeed.protocols.debezium_mysql.values.times import as_number
from changefeed.wire import base64_text
from changefeed.wire.floats import float32
from changefeed.wire.strict_json import Number

Read = Callable[[Any], Any]
Reading = tuple[ColumnType, Read]

_INTEGERS = {"int8": ("tinyint", 8), "int16": ("smallint", 16), "int32": ("int", 32), "int64": ("bigint", 64)}
_SPECIAL = ("NaN", "Infinity", "-Infinity")
_SHOWN = 60


def reading(node: Node) -> Reading:
    """Returns the column type of a field, and a function that converts JSON values, except null, to ready values.

    That function returns `Moment` for date and time, and `Irregular` for a value that the type cannot hold.
    """
    named = _NAMED.get((node.type, node.name))
    if named is not None:
        return named(node)
    if node.type in _INTEGERS:
        name, bits = _INTEGERS[node.type]
        return ColumnType(name), integer(bits, lambda number: number)
    if node.type == "array" and node.items is not None and node.items.type in ("float", "double"):
        return ColumnType("vector"), _vector
    return _PLAIN.get(node.type, (ColumnType("json"), java_json.write))


def show(value: Any) -> str:
    """Formats a tree for an error."""
    return java_json.write(value)[:_SHOWN]


def integer(bits: int, then: Read) -> Read:
    """Returns a function that reads integers of `bits` bits, and applies `then` to them."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def read(value: Any) -> Any:
        if not as_number(value) or not low <= int(value) <= high:
            raise SchemaError(f"{show(value)} is not an int{bits}")
        return then(int(value))

    return read


def text(then: Read) -> Read:
    """Returns a function that reads strings, and applies `then` to them."""

    def read(value: Any) -> Any:
        if type(value) is not str:
            raise SchemaError(f"{show(value)} is not a string")
        return then(value)

    return read


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise SchemaError(f"{show(value)} is not a boolean")
    return value


def _float(value: Any) -> float:
    if type(value) is str and value in _SPECIAL:
        return float(value)
    number = float32(value) if type(value) is Number and len(value) <= 400 else None
    if number is None:
        raise SchemaError(f"{show(value)} is not a float")
    return number


def _double(value: Any) -> float:
    if type(value) is str and value in _SPECIAL:
        return float(value)
    number = float(value) if type(value) is Number and len(value) <= 800 else float("inf")
    if number in (float("inf"), float("-inf")):
        raise SchemaError(f"{show(value)} is not a double")
    return number


def _vector(value: Any) -> list[float]:
    if not isinstance(value, list) or len(value) > MOST_DIMENSIONS:
        raise SchemaError(f"{show(value)} is not a vector of at most {MOST_DIMENSIONS} numbers")
    return [_float(item) for item in value]


_PLAIN: dict[str, Reading] = {
    "float": (ColumnType("float"), _float),
    "double": (ColumnType("double"), _double),
    "boolean": (ColumnType("boolean"), _boolean),
    "string": (ColumnType("varchar"), text(lambda value: value)),
    "bytes": (ColumnType("varbinary"), text(base64_text.read)),
}


def _bits(node: Node) -> Reading:
    length = node.bits
    if length is None:
        return _PLAIN["bytes"]
    return ColumnType("bit", length=length), text(lambda value: numbers.read_bits(value, length))


def _decimal(node: Node) -> Reading:
    scale = node.scale
    if scale is None:
        return _PLAIN["bytes"]
    precision = node.number("connect.decimal.precision", 65)
    fixed = precision is not None and precision > 0 and scale <= precision
    t = ColumnType("decimal", length=precision, scale=scale) if fixed else ColumnType("decimal")

    def read(value: Any) -> Any:
        number = numbers.read_number(value) if type(value) is Number else None
        if type(value) is str:
            number = numbers.read_unscaled(value, scale)
            number = numbers.read_plain(value) if number is None else number
        if number is None:
            raise SchemaError(f"{show(value)} is not a decimal")
        return decimal_value(number, t)

    return t, read


def decimal_value(value: Decimal, t: ColumnType) -> Any:
    """Converts a decimal to the ready value of the type; `Irregular` if the type has too few digits."""
    plain = format(value, "f")
    if t.length is None:
        return plain
    digits = value.adjusted() + 1 if value else 0
    exponent = int(value.as_tuple().exponent)
    if digits > t.length - (t.scale or 0) or -exponent > (t.scale or 0):
        return Irregular(plain.encode())
    return value


def _enum(node: Node) -> Reading:
    members = _members(node)
    if members is None:
        return _PLAIN["string"]

    def read(value: str) -> str:
        if value not in members:
            labels = numbers.read_members(value)
            if len(labels) == 1 and labels[0] in members:
                return labels[0]
        return value

    return ColumnType("enum", members=members), text(read)


def _set(node: Node) -> Reading:
    members = _members(node)
    if members is None:
        return _PLAIN["string"]

    def read(value: str) -> str:
        if not set(value.split(",")) <= {"", *members}:
            labels = numbers.read_members(value)
            if set(labels) <= set(members):
                return ",".join(labels)
        return value

    return ColumnType("set", members=members), text(read)


def _members(node: Node) -> tuple[str, ...] | None:
    allowed = node.parameters.get("allowed")
    return None if allowed is None else numbers.read_members(allowed)


def _point(node: Node) -> Reading:
    return ColumnType("point"), _read_geometry


def _geometry(node: Node) -> Reading:
    return ColumnType("geometry"), _read_geometry


def _read_geometry(value: Any) -> Any:
    wkb, srid = (value.get("wkb"), value.get("srid")) if isinstance(value, dict) else (None, None)
    if not isinstance(value, dict) or (srid is not None and not (as_number(srid) and 0 <= int(srid) < 2**31)):
        raise SchemaError(f"{show(value)} is not a geometry")
    if type(wkb) is not str:  # a Point may come as its coordinates alone
        return Irregular(java_json.write(value).encode())
    return {"srid": int(srid or 0), "wkb": base64_text.read(wkb)}


def _number(t: ColumnType, bits: int, then: Read) -> Callable[[Node], Reading]:
    made = t, integer(bits, then)
    return lambda node: made


def _text(t: ColumnType, then: Read) -> Callable[[Node], Reading]:
    made = t, text(then)
    return lambda node: made


def _year(number: int) -> Any:
    return number if 0 <= number <= 2155 else Irregular(str(number).encode())


def _iso_time(value: str) -> Any:
    try:
        return times.read_iso_time(value)
    except ProtocolError:
        return Irregular(value.encode())


_D, _C = "io.debezium.", "org.apache.kafka.connect.data."
_DATE, _MS, _US = ColumnType("date"), ColumnType("datetime", length=3), ColumnType("datetime", length=6)
_NAMED: dict[tuple[str, str], Callable[[Node], Reading]] = {
    ("bytes", BITS): _bits,
    ("bytes", DECIMAL): _decimal,
    ("string", _D + "data.Enum"): _enum,
    ("string", _D + "data.EnumSet"): _set,
    ("string", _D + "data.Json"): _text(ColumnType("json"), lambda value: value),
    ("string", _D + "data.Uuid"): _text(ColumnType("char", length=36), lambda value: value),
    ("struct", _D + "data.geometry.Point"): _point,
    ("struct", _D + "data.geometry.Geometry"): _geometry,
    ("int32", _D + "time.Year"): _number(ColumnType("year"), 32, _year),
    ("int32", _D + "time.Date"): _number(_DATE, 32, times.read_days),
    ("int32", _C + "Date"): _number(_DATE, 32, times.read_days),
    ("int32", _C + "Time"): _number(ColumnType("time", length=3), 32, times.time_reader("ms")),
    ("int32", _D + "time.Time"): _number(ColumnType("time", length=3), 32, times.time_reader("ms")),
    ("int64", _D + "time.MicroTime"): _number(ColumnType("time", length=6), 64, times.time_reader("us")),
    ("int64", _D + "time.NanoTime"): _number(ColumnType("time", length=6), 64, times.time_reader("ns")),
    ("int64", _C + "Timestamp"): _number(_MS, 64, times.datetime_reader("ms")),
    ("int64", _D + "time.Timestamp"): _number(_MS, 64, times.datetime_reader("ms")),
    ("int64", _D + "time.MicroTimestamp"): _number(_US, 64, times.datetime_reader("us")),
    ("int64", _D + "time.NanoTimestamp"): _number(_US, 64, times.datetime_reader("ns")),
    ("string", _D + "time.ZonedTimestamp"): _text(ColumnType("timestamp"), times.read_moment),
    ("string", _D + "time.IsoTimestamp"): _text(ColumnType("datetime"), times.read_moment),
    ("string", _D + "time.IsoDate"): _text(_DATE, times.read_iso_date),
    ("string", _D + "time.IsoTime"): _text(ColumnType("time"), _iso_time),
}
