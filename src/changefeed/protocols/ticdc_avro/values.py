"""Converts column values between what Avro carries and ready values (see `model.values`), type by type.

    tidb_type            Avro             value
    INT, INT UNSIGNED    int, long        number
    BIGINT               long             number
    BIGINT UNSIGNED      long, string     number, from 2^63 on less 2^64; or its digits
    YEAR                 int              number
    FLOAT, DOUBLE        float, double    number; FLOAT as double before v7.0.0
    DECIMAL              bytes, string    unscaled integer; or the digits with the column's scale
    BIT                  bytes            big-endian: classic without leading zeros, newarch as many as the type has
    TEXT, BLOB           string, bytes    the bytes of the column
    ENUM, SET            string           the member; members with commas between
    JSON, DATE, TIME     string           what MySQL prints
    DATETIME             string           the same
    TIMESTAMP            string           the same, in the producer's zone
    TiDBVECTORFloat32    string           [1,2.5]

A value that its type cannot hold is `ticdc.texts.Irregular`: NULL in the column, and its bytes are kept beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model import values as model
from changefeed.model.types import ColumnType
from changefeed.model.values import Irregular
from changefeed.mysql.zone import to_local
from changefeed.ticdc.texts import moment, or_irregular, read_string, read_vector
from changefeed.wire.avro import read_decimal, write_decimal
from changefeed.wire.floats import fixed

Read = Callable[[Any], Any]
Write = Callable[[Any], Any]


def reader(t: ColumnType, kind: str, scale: int, zone: tzinfo) -> Read:
    """Returns a function that converts Avro values, except null, to ready values.

    That function returns `Moment` for datetime and timestamp, and `Irregular` for a value that the type cannot hold.

    Args:
        t: the column's type.
        kind: the Avro type.
        scale: digits after the point, for a decimal in bytes.
        zone: time zone of the text of a TIMESTAMP.
    """
    match t.name, kind:
        case "int", _:
            return model.reader(t)
        case "bigint", "string":
            return _digits(t)
        case "bigint", _:
            return (lambda value: value % 2**64) if t.unsigned else _same
        case "year", _:
            return model.reader(t)
        case "decimal", "bytes":
            return _decimal(t, scale)
        case (("decimal" | "date" | "time"), _):
            return or_irregular(model.reader(t))
        case (("datetime" | "timestamp"), _):
            return moment(zone if t.name == "timestamp" else None)
        case "bit", _:
            return _bit(t)
        case "vector", _:
            return read_vector
        case _, "string":
            return read_string
        case _:
            return _same


def _same(value: Any) -> Any:
    return value


def _digits(t: ColumnType) -> Read:
    check = model.reader(t)

    def read(text: str) -> Any:
        if not (text.isascii() and text.isdigit()) or len(text) > 20 or (text[0] == "0" and text != "0"):
            raise SchemaError(f"{text!r:.60} is not {t.with_article}")
        return check(int(text))

    return read


def _decimal(t: ColumnType, scale: int) -> Read:
    precision = t.length or 0

    def read(data: bytes) -> Any:
        value = read_decimal(data, scale)
        if len(value.as_tuple().digits) > precision:
            return Irregular(format(value, "f").encode())
        return value

    return read


def _bit(t: ColumnType) -> Read:
    bits = t.length or 64
    width = -(-bits // 8)

    def read(data: bytes) -> int:
        value = int.from_bytes(data, "big")
        if len(data) not in (width, max(1, -(-value.bit_length() // 8))) or value >> bits:
            raise SchemaError(f"{data[:20].hex()} is not {t.with_article}")
        return value

    return read


def writer(t: ColumnType, kind: str, scale: int, zone: tzinfo, *, classic: bool) -> Write:
    """Returns a function that converts ready values to Avro value; not for NULL. `t` is the type of the shape that is written."""
    match t.name, kind:
        case "bigint", "string":
            return str
        case "bigint", _:
            return (lambda value: value - 2**64 if value >= 2**63 else value) if t.unsigned else _same
        case "decimal", "bytes":
            return lambda value: write_decimal(Decimal(value), scale)
        case "decimal", _:
            return lambda value: value if isinstance(value, str) else format(value, "f")
        case "bit", _:
            return _write_bit(None if classic else -(-(t.length or 64) // 8))
        case ("date", _):
            return model.writer(t)
        case (("datetime" | "timestamp"), _):
            return _write_moment(t, zone if t.name == "timestamp" else None)
        case "vector", _:
            return lambda value: "[" + ",".join(_item(item) for item in value) + "]"
        case "boolean", _:
            return int
        case "enum", _:
            return _member(t)
        case _:
            return _same


def write_irregular(data: bytes, t: ColumnType, kind: str, scale: int) -> Any:
    """Returns the Avro value of a value that the column's type cannot hold.

    Raises:
        UnsupportedError: Avro's type cannot hold it either.
    """
    text = data.decode("utf-8", "surrogateescape")
    if kind == "string":
        return text
    try:
        if kind == "bytes" and t.name == "decimal" and (value := Decimal(text)) == value and not _negative_zero(value):
            return write_decimal(value, scale)
    except InvalidOperation:
        pass
    raise UnsupportedError(f"{text!r:.60} is not a value of a column of type {t}")


def _negative_zero(value: Decimal) -> bool:
    return value.is_zero() and value.is_signed()


def _write_bit(width: int | None) -> Write:
    return lambda value: value.to_bytes(width or max(1, -(-value.bit_length() // 8)), "big")


def _item(value: float) -> str:
    if not math.isfinite(value):
        raise UnsupportedError(f"a vector cannot contain {value}")
    return fixed(value, 32)


def _member(t: ColumnType) -> Write:
    def write(value: str) -> str:
        if value == "" and "" not in (t.members or ()):
            raise UnsupportedError(f"the invalid value of {t}, index 0, has no name (ErrAvroEncodeFailed)")
        return value

    return write


def _write_moment(t: ColumnType, zone: tzinfo | None) -> Write:
    def write(us: int) -> str:
        try:
            return model.write_datetime(us if zone is None else to_local(us, zone), t.length or 0)
        except (OverflowError, ValueError) as error:
            raise UnsupportedError(f"{us} µs since 1970 do not fit {t}") from error

    return write
