"""Dates and times after a change of type: fewer fraction digits, the date or the time of a DATETIME, and their numbers.

MySQL and TiDB round what does not fit, half a second to the next one; MariaDB leaves it out. What is then after the last
moment of its type (the year 9999; January 19, 2038) is a zero date to the server: NULL.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.retype.printing import printed
from changefeed.model.types import ColumnType
from changefeed.mysql.zone import ahead, to_local, zone

_YEAR_1, _YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000  # in µs from 1970
_TIMESTAMP_BEGIN, _TIMESTAMP_END = 1_000_000, 2**31 * 1_000_000
_PARTS = r"^(?P<sign>-?)(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+)(?:\.(?P<fraction>\d+))?$"
_TIME = re.compile(_PARTS)
_DAY = 86_400_000_000  # in µs
_LONGEST = (838 * 3600 + 59 * 60 + 59) * 1_000_000
_TIME_OF_DAY = 11  # where the time begins in the text of a DATETIME


def datetimes(array: pa.Array, old: ColumnType, new: ColumnType, *, rounds: bool) -> pa.Array:
    """Converts DATETIME or TIMESTAMP to another number of fraction digits."""
    reduced = _reduced(array.cast(pa.int64()), new.length or 0, rounds)
    if old.name == "timestamp":
        is_zero = pc.or_(pc.equal(reduced, 0), pc.greater_equal(reduced, _TIMESTAMP_END))
        reduced = pc.if_else(is_zero, pa.scalar(None, pa.int64()), reduced)
    return reduced.cast(array.type)


def local(array: pa.Array, zone_name: str) -> pa.Array:
    """Converts TIMESTAMP to the DATETIME that it is in a time zone."""
    where = zone(zone_name)
    utc = array.cast(pa.int64())
    if (us := ahead(where)) is not None:
        return pc.add(utc, us).cast(pa.timestamp("us"))
    return pa.array([v if v is None else to_local(v, where) for v in utc.to_pylist()], pa.timestamp("us"))


def instants(array: pa.Array, new: ColumnType, *, ahead_us: int, rounds: bool) -> pa.Array:
    """Converts DATE or DATETIME of a time zone to TIMESTAMP.

    Args:
        array: the local times.
        new: the type.
        ahead_us: microseconds by which the zone is ahead of UTC.
        rounds: whether the server rounds; MariaDB does not, and keeps the fraction of a time that no TIMESTAMP has.
    """
    local = _reduced(array.cast(pa.timestamp("us")).cast(pa.int64()), new.length or 0, rounds)
    utc = pc.subtract(local, ahead_us)
    is_outside = pc.or_(pc.less(utc, _TIMESTAMP_BEGIN), pc.greater_equal(utc, _TIMESTAMP_END))
    if rounds:
        fraction = pa.nulls(len(array), pa.int64())
    else:
        since_year_1 = pc.subtract(utc, _YEAR_1 - 86_400_000_000)  # not negative, with any zone
        fraction = pc.subtract(since_year_1, pc.multiply(pc.divide(since_year_1, 1_000_000), 1_000_000))
        fraction = pc.if_else(pc.equal(fraction, 0), pa.scalar(None, pa.int64()), fraction)
    return pc.if_else(is_outside, fraction, utc).cast(pa.timestamp("us", tz="UTC"))


def _reduced(us: pa.Array, digits: int, rounds: bool) -> pa.Array:
    """Leaves out fraction digits; what is after the year 9999 then is NULL."""
    unit = 10 ** (6 - digits)
    positive = pc.add(us, (unit // 2 if rounds else 0) - _YEAR_1)
    reduced = pc.add(pc.multiply(pc.divide(positive, unit), unit), _YEAR_1)
    return pc.if_else(pc.less(reduced, _YEAR_10000), reduced, pa.scalar(None, pa.int64()))


def dates(array: pa.Array, old: ColumnType, new: ColumnType, *, rounds: bool) -> pa.Array:
    """Converts DATETIME to DATE."""
    seconds = _reduced(array.cast(pa.int64()), 0, rounds) if old.length else array.cast(pa.int64())
    return seconds.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)


def times_of_day(array: pa.Array, old: ColumnType, new: ColumnType, *, rounds: bool) -> pa.Array:
    """Converts DATETIME to TIME."""
    time = pc.utf8_slice_codeunits(printed(array, old), _TIME_OF_DAY, None)
    return times(time, old, new, rounds=rounds)


def midnights(array: pa.Array, new: ColumnType) -> pa.Array:
    """Converts DATE to TIME."""
    midnight = "00:00:00" + ("." + "0" * new.length if new.length else "")
    return pc.if_else(pc.is_null(array), pa.scalar(None, pa.string()), pa.scalar(midnight))


def times(array: pa.Array, old: ColumnType, new: ColumnType, *, rounds: bool) -> pa.Array:
    """Converts texts of TIME to another number of fraction digits."""
    has, wants = old.length or 0, new.length or 0
    if has <= wants:
        zeros = ("" if has else ".") + "0" * (wants - has)
        return pc.binary_join_element_wise(array, zeros, "") if has < wants else array
    return pa.array([v if v is None else _time(v, wants, rounds) for v in array.to_pylist()], pa.string())


def _time(text: str, digits: int, rounds: bool) -> str:
    match = _TIME.fullmatch(text)
    if match is None:
        return text
    sign, hours, minutes, seconds, fraction = match.groups()
    us = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000 + int((fraction or "").ljust(6, "0"))
    unit = 10 ** (6 - digits)
    us = min((us + (unit // 2 if rounds else 0)) // unit * unit, _LONGEST)
    second, rest = divmod(us, 1_000_000)
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    tail = f".{rest:06}"[: digits + 1] if digits else ""
    return f"{sign if us else ''}{clock}{tail}"


def on_day(array: pa.Array, now: int) -> pa.Array:
    """Converts texts of TIME to the DATETIME that they are on a day; they may be hours of days before it, or after it.

    Args:
        array: the texts.
        now: a local time of that day, in microseconds since 1970.
    """
    parts = pc.extract_regex(array, _PARTS)
    hours, minutes, seconds = (
        pc.struct_field(parts, name).cast(pa.int64()) for name in ("hours", "minutes", "seconds")
    )
    fraction = pc.utf8_rpad(pc.struct_field(parts, "fraction"), 6, "0").cast(pa.int64())
    whole = pc.add(pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60), seconds)
    us = pc.add(pc.multiply(whole, 1_000_000), fraction)
    us = pc.if_else(pc.equal(pc.struct_field(parts, "sign"), "-"), pc.negate(us), us)
    return pc.add(us, now // _DAY * _DAY).cast(pa.timestamp("us"))


def numbers(array: pa.Array, old: ColumnType, *, whole: bool) -> pa.Array:
    """Returns the digits of dates and times as texts of numbers: 20260102, 20260102030405.5, -10203.

    Args:
        array: the dates or times.
        old: their type.
        whole: whether to leave out fractions of seconds.
    """
    text = printed(array, old)
    if whole and old.length:
        text = pc.utf8_slice_codeunits(text, 0, -old.length - 1)
    if old.name == "time":
        return pc.replace_substring_regex(text, ":", "")
    return pc.replace_substring_regex(text, "[-: ]", "")
