r"""Converts column values between JSON of a payload and ready values (see `model.values`), type by type.

    tinyint … bigint, year             number; bigint unsigned from 2^63 on wrapped: 18446744073709551615 is -1
    float, double                      number, shortest of its width
    decimal                            number, the nearest double
    bit(1), bit(n)                     true, base64 of ceil(n / 8) bytes, least first: bit(10) 257 is "AQE="
    date                               days since 1970-01-01
    datetime(0 … 3), datetime(4 … 6)   milliseconds, microseconds since 1970-01-01 of the wall clock
    timestamp(p)                       "2026-01-02T03:04:05.100Z"
    time                               microseconds, signed
    enum, set                          "red", "a,c"; an invalid value is ""
    char … longtext, json              string
    binary … longblob                  base64
    vector                             "[1,2.5]"

Rule 1. A value that does not have the form of its type is an error; it is never converted.
Rule 2. Text that is not UTF-8 is `Irregular`: NULL in the column, its bytes beside it.
Rule 3. A zero date goes out as null where that is allowed and else as 0. See `times` for other values that cannot be written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from changefeed.errors import ProtocolError, SchemaError, UnsupportedError
from changefeed.model import values as model
from changefeed.model.types import BINARIES, INTEGERS, TEXTS, ColumnType
from changefeed.model.values import Irregular
from changefeed.protocols.ticdc_debezium.times import (
    DAY_US,
    EPOCH_TEXT,
    NUMBERED,
    adjusted,
    instant,
    read_instant,
    unit_of,
    write_time,
)
from changefeed.ticdc.texts import read_vector
from changefeed.wire import base64_text
from changefeed.wire.floats import fixed, float32
from changefeed.wire.go_json import W_RAW
from changefeed.wire.json_form import show
from changefeed.wire.strict_json import REPLACED, Number

Read = Callable[[Any], Any]
Write = Callable[[Any], str]

_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,19})", re.ASCII)
_NO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[ T].*)?", re.ASCII)
_LONGEST_NUMBER = 400


@lru_cache(maxsize=4096)
def reader(t: ColumnType) -> Read:
    """Returns a function that converts JSON values, except null, to ready values or `Irregular`; see also `digits_of`."""
    name = t.name
    if name == "year":
        return _read_year
    if name in INTEGERS:
        return _unwrapped(t) if name == "bigint" and t.unsigned else _integer(t, model.reader(t))
    if name in ("float", "double"):
        return _read_float if name == "float" else _read_double
    if name == "decimal":
        return _read_decimal
    if name == "bit":
        return _read_boolean if t.length == 1 else _text(t, _bits(t))
    if name in ("date", "datetime", "time"):
        return _integer(t, NUMBERED[name](t))
    if name == "timestamp":
        return _text(t, read_instant)
    if name == "vector":
        return _text(t, read_vector)
    if name in BINARIES:
        return _text(t, base64_text.read)
    return _text(t, _read_string)


def _integer(t: ColumnType, check: Read) -> Read:
    def read(value: Any) -> Any:
        if type(value) is not Number or not _INTEGER.fullmatch(value):
            raise SchemaError(f"{show(value)} is not {t.with_article}")
        return check(int(value))

    return read


def _unwrapped(t: ColumnType) -> Read:
    return _integer(t, lambda number: model.reader(t)(number + 2**64 if -(2**63) <= number < 0 else number))


_YEAR = model.reader(ColumnType("year"))
_READ_YEAR = _integer(ColumnType("year"), _YEAR)


def _read_year(value: Any) -> int:
    """Reads a YEAR: a number, or a string where classic writes the default for NULL."""
    text = Number(value) if type(value) is str and value.isascii() and value.isdigit() else value
    year: int = _READ_YEAR(text)
    return year


def _number(value: Any, kind: str) -> str:
    if type(value) is not Number or len(value) > _LONGEST_NUMBER:
        raise SchemaError(f"{show(value)} is not a {kind}")
    return value


def _read_float(value: Any) -> float:
    number = float32(_number(value, "float"))
    if number is None:
        raise SchemaError(f"{show(value)} is not a float")
    return number


def _read_double(value: Any) -> float:
    number = float(_number(value, "double"))
    if math.isinf(number):
        raise SchemaError(f"{show(value)} is not a double")
    return number


def _read_decimal(value: Any) -> Any:
    text = fixed(_read_double(value), 64)
    try:
        return model.read_decimal(text)
    except model.IrregularError:
        return Irregular(text.encode())


def _read_boolean(value: Any) -> int:
    if type(value) is not bool:
        raise SchemaError(f"{show(value)} is not a bit(1)")
    return int(value)


def _bits(t: ColumnType) -> Read:
    length = t.length or 0

    def read(text: str) -> int:
        data = base64_text.read(text)
        number = int.from_bytes(data, "little")
        if len(data) != (length + 7) // 8 or number.bit_length() > length:
            raise SchemaError(f"{text[:40]!r} is not {t.with_article}")
        return number

    return read


def _text(t: ColumnType, then: Read) -> Read:
    def read(value: Any) -> Any:
        if type(value) is not str:
            raise SchemaError(f"{show(value)} is not {t.with_article}")
        return then(value)

    return read


def _read_string(text: str) -> Any:
    if text.isascii():
        return text
    text = text.replace(REPLACED, "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return Irregular(text.encode("utf-8", "surrogateescape"))
    return text


@lru_cache(maxsize=4096)
def writer(t: ColumnType) -> Write:
    """Returns a function that converts ready values to JSON text; not for NULL.

    Raises:
        UnsupportedError: by that function, for a value that the protocol cannot represent.
    """
    name = t.name
    if name == "bigint" and t.unsigned:
        return lambda value: str(value - 2**64 if value >= 2**63 else value)
    if name in INTEGERS or name == "year":
        return str
    if name == "boolean":
        return lambda value: "1" if value else "0"
    if name == "float":
        return lambda value: _finite(W_RAW.float, value, 32)
    if name in ("double", "decimal"):
        return lambda value: _finite(W_RAW.float, float(value), 64)
    if name == "bit":
        return _write_boolean if t.length == 1 else lambda value: _base64(value.to_bytes(_bytes(t), "little"))
    if name == "date":
        return lambda value: str(adjusted(value * DAY_US) // DAY_US)
    if name == "datetime":
        return lambda value: str(adjusted(value) // unit_of(t))
    if name == "timestamp":
        return lambda value: f'"{instant(value, t.length or 0)}"'
    if name == "time":
        return write_time
    if name == "vector":
        return lambda value: W_RAW.string("[" + ",".join(_finite(fixed, item, 32) for item in value) + "]")
    return _base64 if name in BINARIES else W_RAW.string


def _write_boolean(value: int) -> str:
    return "true" if value else "false"


def _bytes(t: ColumnType) -> int:
    return ((t.length or 64) + 7) // 8


def _base64(data: bytes) -> str:
    return f'"{base64_text.write(data)}"'


def _finite(write: Callable[[float, int], str], value: float, bits: int) -> str:
    if not math.isfinite(value):
        raise UnsupportedError(f"ticdc-debezium cannot carry {value}")
    return write(value, bits)


def write_irregular(data: bytes, t: ColumnType, *, nullable: bool) -> str:
    """Returns the JSON text of a value that the column's type cannot hold.

    Raises:
        UnsupportedError: the protocol cannot represent it.
    """
    text = data.decode("utf-8", "surrogateescape")
    if t.name in TEXTS or t.name in ("json", "enum", "set"):
        return W_RAW.string(text)
    if t.name in ("date", "datetime", "timestamp") and _NO_DATE.fullmatch(text):
        return f'"{EPOCH_TEXT}"' if t.name == "timestamp" else _no_date(text, t, nullable)
    if t.name == "decimal" and re.fullmatch(r"-0(?:\.0*)?", text, re.ASCII):
        return "-0"
    raise UnsupportedError(f"ticdc-debezium cannot carry {text!r:.60} in a column of type {t}")


def _no_date(text: str, t: ColumnType, nullable: bool) -> str:
    """Returns the number for an invalid date: a day of the year 0 becomes one of the year 2000, others are null or 0."""
    try:
        if text.startswith("0000-"):
            return writer(t)(model.reader(t)("2000" + text[4:]))
    except ProtocolError:
        pass
    return "null" if nullable else "0"
