"""Converts temporal values: numbers and ISO text of every `time.precision.mode` ⇄ ready values (see `model.values`).

    column            adaptive_time_microseconds   connect   microseconds     nanoseconds      isostring
    DATE              days                         days      days             days             2018-06-20Z
    TIME              µs                           ms        µs               ns               10:20:30.123Z
    DATETIME(0–3)     ms                           ms        µs               ns               2018-06-20T01:02:03.9Z
    DATETIME(4–6)     µs                           ms        µs               ns               2018-06-20T01:02:03.9Z
    TIMESTAMP         2018-06-20T01:02:03.123456Z, in every mode

Rule 1. A number does not show its fraction digits: ms is datetime(3) and time(3), µs and ns are datetime(6) and time(6).
        Fewer digits in a definition remove only zeros.
Rule 2. Text shows its digits: a streamed TIMESTAMP has those of its column, a snapshot leaves out trailing zeros.
Rule 3. Text with an offset (Debezium's TimezoneConverter) is that moment: 07:08:09+05:30 is 01:38:09Z. A time of day is the time
        at that moment in UTC, a date is the day as it is written.
Rule 4. A value that the calendar or the type does not have is `Irregular`, verbatim as sent.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model import values
from changefeed.model.values import Irregular, Moment
from changefeed.wire.strict_json import Number

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_FIRST_DAY, _DAY_100 = 1 - _EPOCH_DAY, dt.date(100, 1, 1).toordinal() - _EPOCH_DAY  # year 0 is not a date of Python
COUNTS = {  # the name of a field's schema -> days, or µs, that so many of its numbers stand for
    "io.debezium.time.Date": (1, 1),
    "org.apache.kafka.connect.data.Date": (1, 1),
    "io.debezium.time.Timestamp": (1000, 1),
    "org.apache.kafka.connect.data.Timestamp": (1000, 1),
    "io.debezium.time.MicroTimestamp": (1, 1),
    "io.debezium.time.NanoTimestamp": (1, 1000),
}
UNITS_US = {"ms": 1_000, "us": 1}
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
_DAY_US = 86_400_000_000
FIRST_US, LAST_US = FIRST_DAY * _DAY_US, (LAST_DAY + 1) * _DAY_US - 1
LONGEST_US = 838 * 3_600_000_000 + 59 * 60_000_000 + 59_999_999
_OFFSET = r"(?P<offset>Z|[+-]\d\d:\d\d(?::\d\d)?)"
_CLOCK = r"(?P<clock>\d\d:\d\d)(?P<second>:\d\d)?(?:\.(?P<fraction>\d{1,9}))?"
_ISO = re.compile(rf"(?P<date>[+-]?\d{{4,9}}-\d\d-\d\d)T{_CLOCK}{_OFFSET}", re.ASCII)
_ISO_DATE = re.compile(rf"(?P<date>[+-]?\d{{4,9}}-\d\d-\d\d){_OFFSET}", re.ASCII)
_ISO_TIME = re.compile(rf"{_CLOCK}{_OFFSET}", re.ASCII)


def read_days(number: int) -> int | Irregular:
    """Reads a DATE from days since 1970-01-01."""
    return number if FIRST_DAY <= number <= LAST_DAY else Irregular(str(number).encode())


def datetime_reader(unit: str) -> Callable[[int], int | Irregular]:
    """Returns a function that converts numbers of `ms`, `us` or `ns` to µs."""

    def read(number: int) -> int | Irregular:
        us, rest = divmod(number, 1000) if unit == "ns" else (number * UNITS_US[unit], 0)
        return us if not rest and FIRST_US <= us <= LAST_US else Irregular(str(number).encode())

    return read


def datetime_writer(unit: str) -> Callable[[int], Number]:
    """Returns a function that converts µs to numbers of the unit; digits below the unit are cut off.

    Raises:
        UnsupportedError: by that function, for a time that does not fit into 64 bits of nanoseconds.
    """

    def write_ns(us: int) -> Number:
        if not -(2**63) <= us * 1000 < 2**63:
            raise UnsupportedError(f"debezium-mysql cannot carry {values.write_datetime(us, 6)} in nanoseconds")
        return Number(us * 1000)

    return write_ns if unit == "ns" else lambda us: Number(us // UNITS_US[unit])


def with_century(value: int, day: int) -> int:
    """Adds the century to a year of two digits: 0 to 69 become 2000 to 2069, 70 to 99 become 1970 to 1999.

    Args:
        value: a date or a date with time, as a number since 1970-01-01.
        day: the length of a day in its units.
    """
    days, rest = divmod(value, day)
    if not _FIRST_DAY <= days < _DAY_100:
        return value
    date = dt.date.fromordinal(days + _EPOCH_DAY)
    moved = date.replace(year=date.year + (2000 if date.year < 70 else 1900))
    return (moved.toordinal() - _EPOCH_DAY) * day + rest


def time_reader(unit: str) -> Callable[[int], str | Irregular]:
    """Returns a function that converts numbers to the canonical text of a TIME, with three digits (`ms`) or six."""

    def read(number: int) -> str | Irregular:
        us, rest = divmod(number, 1000) if unit == "ns" else (number * UNITS_US[unit], 0)
        if rest or abs(us) > LONGEST_US:
            return Irregular(str(number).encode())
        second, fraction = divmod(abs(us), 1_000_000)
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        return f"{'-' if us < 0 else ''}{clock}.{fraction:06}"[: -3 if unit == "ms" else None]

    return read


def time_writer(unit: str) -> Callable[[str], Number]:
    """Returns a function that converts the canonical text of a TIME to numbers of the unit.

    Raises:
        UnsupportedError: by that function, for a time that does not fit into 32 bits of milliseconds.
    """

    def write(text: str) -> Number:
        us = time_us(text)
        if unit == "ms" and abs(us) >= 2**31 * 1000:  # the connector writes null
            raise UnsupportedError(f"debezium-mysql cannot carry a TIME of {text} in milliseconds")
        return Number(us * 1000 if unit == "ns" else us // UNITS_US[unit])

    return write


def time_us(text: str) -> int:
    """Converts the text of a TIME to microseconds.

    Raises:
        UnsupportedError: the time is a negative zero, which no number can represent.
    """
    sign = -1 if text.startswith("-") else 1
    clock, _, fraction = text.lstrip("-").partition(".")
    hours, minutes, seconds = map(int, clock.split(":"))
    us = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int(fraction.ljust(6, "0") or 0)
    if sign < 0 and us == 0:
        raise UnsupportedError(f"debezium-mysql cannot carry a TIME of {text}")
    return sign * us


def read_moment(text: str) -> Moment | Irregular:
    """Reads a date and time in ISO format with an offset from UTC."""
    match = _ISO.fullmatch(text)
    if match is None:
        raise SchemaError(f"{text!r:.60} is not a date and time")
    try:
        us, digits = values.read_datetime(f"{match['date']} {_clock(match)}")
        us -= _offset_us(match)
    except (values.IrregularError, SchemaError):
        return Irregular(text.encode())
    return Moment(us, digits) if FIRST_US <= us <= LAST_US else Irregular(text.encode())


def _clock(match: re.Match[str]) -> str:
    """Returns `HH:MM:SS[.f]`; digits behind microseconds are left out if they are zeros."""
    fraction = match["fraction"] or ""
    fraction = fraction[:6] + fraction[6:].rstrip("0")
    return match["clock"] + (match["second"] or ":00") + (f".{fraction}" if fraction else "")


def _offset_us(match: re.Match[str]) -> int:
    """Returns the offset from UTC.

    Raises:
        SchemaError: no zone has such an offset.
    """
    if match["offset"] == "Z":
        return 0
    hour, minute, second = map(int, (match["offset"][1:] + ":00").split(":")[:3])
    if hour > 18 or minute > 59 or second > 59:
        raise SchemaError(f"{match[0]!r:.60} has no valid offset")
    us = ((hour * 60 + minute) * 60 + second) * 1_000_000
    return us if match["offset"][0] == "+" else -us


def write_moment(us: int, digits: int, *, strip: bool = False) -> str:
    """Formats a date and time; `strip` leaves out trailing zeros of the fraction."""
    text = values.write_datetime(us, digits, separator="T")
    if strip and digits:
        text = text.rstrip("0").rstrip(".")
    return text + "Z"


def read_iso_date(text: str) -> int | Irregular:
    """Reads a DATE in ISO format."""
    match = _ISO_DATE.fullmatch(text)
    if match is None:
        raise SchemaError(f"{text!r:.60} is not a date")
    try:
        return values.read_date(match["date"])
    except (values.IrregularError, SchemaError):
        return Irregular(text.encode())


def read_iso_time(text: str) -> str:
    """Reads a TIME in ISO format.

    Raises:
        SchemaError: the text is not a time.
    """
    match = _ISO_TIME.fullmatch(text)
    if match is None or match["offset"] == "Z":
        return values.read_time(text.removesuffix("Z"))
    clock = _clock(match)
    us = time_us(values.read_time(clock))
    if us >= _DAY_US:
        raise SchemaError(f"{text!r:.60} is not a time of day")
    us = (us - _offset_us(match)) % _DAY_US
    fraction = clock.partition(".")[2]
    return values.write_datetime(us, len(fraction))[11:]


def as_number(value: Any) -> bool:
    """Whether a tree is the text of an integer of at most 64 bits."""
    return (
        type(value) is Number
        and len(value) <= 20
        and (value.isdigit() or (value[0] == "-" and value[1:].isdigit() and value != "-0"))
        and -(2**63) <= int(value) < 2**63
    )
