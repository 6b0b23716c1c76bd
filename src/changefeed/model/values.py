"""Converts values between the canonical form, which JSON text has, and the ready form, which pyarrow takes for a column.

    MySQL type          canonical                     ready
    integers, bit       int                           int
    float, double       float, "NaN", "Infinity"      float
    decimal(p,s)        "-12.50"                      decimal.Decimal
    decimal             "-12.50"                      str
    date                "2026-01-02"                  int, days since 1970-01-01
    datetime(p)         "2026-01-02 03:04:05.100"     int, µs of the wall clock read as UTC
    timestamp(p)        "2026-01-02T03:04:05.100Z"    int, µs since the epoch
    time                "-838:59:59.000"              str
    text kinds, json    str                           str
    binary kinds        {"base64": …}                 bytes
    enum, set           str, {"index": n}/{"bits": n} str, int
    geometry kinds      {"srid": n, "wkb": base64}    {"srid": n, "wkb": bytes}
    vector              [1.5, 2]                      list of float

There are two kinds of invalid values. Text that does not have the type's form raises `SchemaError`. Text that has the form
but a value that the Arrow type cannot hold (`0000-00-00`, `-0.00`) raises `IrregularError`: the caller keeps the text
verbatim beside the column.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.types import BINARIES, GEOMETRIES, INTEGERS, TEXTS, ColumnType

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_DATETIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(Z?)", re.ASCII)
_TIME = re.compile(r"-?(\d{2,3}):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?", re.ASCII)
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d*)(?:\.(\d+))?", re.ASCII)
_NEGATIVE_ZERO = re.compile(r"-0(?:\.0*)?", re.ASCII)
_EPOCH = date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000


class IrregularError(ProtocolError):
    """A value has the right form, but its type cannot hold it: the column becomes NULL, and the text is kept beside it."""


@dataclass(frozen=True, slots=True)
class Irregular:
    """A value that the column's type cannot hold, verbatim: for decoders that go on to the next column instead of raising."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Moment:
    """A date and time in µs, with the number of fraction digits that were sent: 3 for `12:00:00.120`."""

    us: int
    digits: int


def read_date(text: str) -> int:
    """Parses `YYYY-MM-DD`; returns the days since 1970-01-01."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise SchemaError(f"{text!r} is not a date")
    year, month, day = map(int, match.groups())
    return _days(year, month, day, text)


def _days(year: int, month: int, day: int, text: str) -> int:
    try:
        return date(year, month, day).toordinal() - _EPOCH
    except ValueError as error:
        if month > 12 or day > 31:
            raise SchemaError(f"{text!r} is not a date") from error
        raise IrregularError(f"{text!r} is not a valid date") from error


def write_date(days: int) -> str:
    """Formats days since 1970-01-01 as `YYYY-MM-DD`."""
    return date.fromordinal(days + _EPOCH).isoformat()


def read_datetime(text: str) -> tuple[int, int]:
    """Parses `YYYY-MM-DD HH:MM:SS[.f]`; returns microseconds since 1970-01-01 00:00:00, and the number of fraction digits.

    Raises:
        SchemaError: the text does not have this form.
        IrregularError: the text is not a valid date and time, such as a zero date.
    """
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise SchemaError(f"{text!r} is not a date and time")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    if hour > 23 or minute > 59 or second > 59:
        raise SchemaError(f"{text!r} is not a date and time")
    fraction = match[7] or ""
    seconds = _days(year, month, day, text) * 86_400 + hour * 3600 + minute * 60 + second
    return seconds * 1_000_000 + int(fraction.ljust(6, "0") or 0), len(fraction)


def write_datetime(us: int, digits: int, *, separator: str = " ", zone: str = "") -> str:
    """Formats microseconds since 1970 as `YYYY-MM-DD HH:MM:SS`, with a point and `digits` fraction digits if > 0."""
    days, rest = divmod(us, _DAY_US)
    second, fraction = divmod(rest, 1_000_000)
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    tail = f".{fraction:06}"[: digits + 1] if digits else ""
    return f"{write_date(days)}{separator}{clock}{tail}{zone}"


def write_instant(us: int, digits: int) -> str:
    """Formats microseconds since 1970 as `YYYY-MM-DDTHH:MM:SS[.f]Z`, with `digits` fraction digits."""
    return write_datetime(us, digits, separator="T", zone="Z")


def read_time(text: str) -> str:
    """Checks the text of a TIME, `[-]HH[H]:MM:SS[.f]` with at most 838 hours, and returns it."""
    match = _TIME.fullmatch(text)
    if match is None or int(match[1]) > 838 or (len(match[1]) == 3 and match[1][0] == "0"):
        raise SchemaError(f"{text!r} is not a time")
    return text


def read_decimal(text: str) -> str:
    """Checks the text of a DECIMAL and returns it: no exponent, no needless leading zero, at most 65 digits."""
    match = _DECIMAL.fullmatch(text)
    if match is None or len(text) > 68:
        raise SchemaError(f"{text[:80]!r} is not a decimal")
    if _NEGATIVE_ZERO.fullmatch(text):
        raise IrregularError(f"{text!r} is a negative zero")
    return text


def shortest_float32(value: float) -> float:
    """Returns the double with the shortest decimal text that reads back to the same float32."""
    if value != value or value in (float("inf"), float("-inf")):
        return value
    for digits in (6, 7, 8, 9) if abs(value) >= 2.0**-126 else range(1, 10):  # subnormals have fewer digits
        near = float(f"{value:.{digits}g}")
        try:
            if struct.unpack("f", struct.pack("f", near))[0] == value:
                return near
        except OverflowError:  # rounding carried it past the largest float32
            continue
    return value


def _integer(t: ColumnType) -> tuple[int, int]:
    if t.name == "bit":
        return 0, 2**64 - 1
    if t.name == "year":
        return 0, 2155
    bits = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}[t.name]
    return (0, 2**bits - 1) if t.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


Read = Callable[[Any], Any]
Write = Callable[[Any], Any]


@lru_cache(maxsize=4096)
def reader(t: ColumnType) -> Read:
    """Returns a function that converts canonical values of this type to ready ones.

    That function raises SchemaError for a value that does not have the type's form, IrregularError for one that the
    Arrow type cannot hold. The caller handles NULL.
    """
    name = t.name
    if name in INTEGERS or name in ("bit", "year"):
        low, high = _integer(t)

        def read_integer(value: Any) -> int:
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise SchemaError(f"{value!r} is not {t.with_article}")
            return value

        return read_integer
    if name in ("float", "double"):
        return _read_float32 if name == "float" else _read_float
    if name == "decimal":
        return _expect(str, t, read_decimal) if t.length is None else _expect(str, t, _fixed_decimal(t))
    if name == "date":
        return _expect(str, t, read_date)
    if name in ("datetime", "timestamp"):
        return _expect(str, t, lambda text: read_datetime(text.removesuffix("Z"))[0])
    if name == "time":
        return _expect(str, t, read_time)
    if name in TEXTS or name == "json":
        return _expect(str, t, lambda text: text)
    if name in BINARIES:
        return _expect(dict, t, lambda value: _base64(value.get("base64")))
    if name in ("enum", "set"):
        if t.members is not None:
            return _expect(str, t, lambda text: text)
        member, limit = ("index", 2**16 - 1) if name == "enum" else ("bits", 2**64 - 1)
        return _expect(dict, t, lambda value: _bounded(value.get(member), limit, t))
    if name in GEOMETRIES:
        return _expect(dict, t, lambda value: {"srid": value.get("srid"), "wkb": _base64(value.get("wkb"))})
    if name == "vector":
        return _expect(list, t, lambda value: [_read_float32(item) for item in value])
    if name == "boolean":
        return _expect(bool, t, lambda value: value)
    return _nothing


@lru_cache(maxsize=4096)
def writer(t: ColumnType) -> Write:
    """Returns a function that converts ready values of this type to canonical ones. The caller handles NULL."""
    name = t.name
    if name == "float":
        return lambda value: _write_float(shortest_float32(value))
    if name == "double":
        return _write_float
    if name == "decimal" and t.length is not None:
        return lambda value: format(value, "f")
    if name == "date":
        return write_date
    if name == "datetime":
        return lambda value: write_datetime(value, t.length or 0)
    if name == "timestamp":
        return lambda value: write_instant(value, t.length or 0)
    if name in BINARIES:
        return lambda value: {"base64": base64.b64encode(value).decode()}
    if name == "enum" and t.members is None:
        return lambda value: {"index": value}
    if name == "set" and t.members is None:
        return lambda value: {"bits": value}
    if name in GEOMETRIES:
        return lambda value: {"srid": value["srid"], "wkb": base64.b64encode(value["wkb"]).decode()}
    if name == "vector":
        return lambda value: [_write_float(shortest_float32(item)) for item in value]
    return lambda value: value


def _expect(kind: type, t: ColumnType, then: Read) -> Read:
    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise SchemaError(f"{value!r} is not {t.with_article}")
        return then(value)

    return read


def _fixed_decimal(t: ColumnType) -> Read:
    def read(text: str) -> Decimal:
        read_decimal(text)
        whole, _, fraction = text.lstrip("-").partition(".")
        if len(fraction) > (t.scale or 0) or len(whole.lstrip("0")) > (t.length or 0) - (t.scale or 0):
            raise IrregularError(f"{text!r} does not fit {t}")
        return Decimal(text)

    return read


def _bounded(value: Any, limit: int, t: ColumnType) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
        raise SchemaError(f"{value!r} is not {t.with_article}")
    return value


def _base64(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise SchemaError(f"{value!r:.80} is not base64") from error


def _read_float(value: Any) -> float:
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SchemaError(f"{value!r} is not a number")
    try:
        return float(value)
    except OverflowError as error:  # an integer of more than 308 digits
        raise SchemaError("the number is too large for a double") from error


def _read_float32(value: Any) -> float:
    number = _read_float(value)
    try:
        struct.pack("<f", number)  # the native form makes it infinite
    except OverflowError as error:
        raise IrregularError(f"{value!r} does not fit float") from error
    return number


def _write_float(value: float) -> float | str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _nothing(value: Any) -> Any:
    raise SchemaError(f"{value!r} is not NULL, which a column of type null requires")
