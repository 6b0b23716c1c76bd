"""Converts dates and times to numbers (days, milliseconds or microseconds since 1970); a TIMESTAMP is text.

Producers change values that the format cannot express: years 1 to 69 are 2001 to 2069, 70 to 99 are 1970 to 1999; a
TIMESTAMP before 1970-01-01 00:00:01, or a zero one, is that day's 00:00:00.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model import values as model
from changefeed.model.types import ColumnType

EPOCH_TEXT = "1970-01-01T00:00:00Z"  # what every TIMESTAMP is that is none
_EPOCH = date(1970, 1, 1).toordinal()
FIRST_DAY, LAST_DAY = 1 - _EPOCH, date.max.toordinal() - _EPOCH
DAY_US = 86_400_000_000
_MOST_TIME_US = 839 * 3_600_000_000 - 1
_TIME_TEXT = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?", re.ASCII)


def _within(t: ColumnType, low: int, high: int, unit: int = 1) -> Callable[[int], int]:
    def read(number: int) -> int:
        if not low <= number * unit <= high:
            raise SchemaError(f"{number} is not {t.with_article}")
        return number * unit

    return read


def _time(t: ColumnType) -> Callable[[int], str]:
    check = _within(t, -_MOST_TIME_US, _MOST_TIME_US)

    def read(number: int) -> str:
        seconds, fraction = divmod(abs(check(number)), 1_000_000)
        minutes, second = divmod(seconds, 60)
        clock = f"{minutes // 60:02}:{minutes % 60:02}:{second:02}.{fraction:06}"
        return f"-{clock}" if number < 0 else clock

    return read


# The type's name -> the function of the type that reads the number.
NUMBERED: dict[str, Callable[[ColumnType], Callable[[int], int | str]]] = {
    "date": lambda t: _within(t, FIRST_DAY, LAST_DAY),
    "datetime": lambda t: _within(t, FIRST_DAY * DAY_US, (LAST_DAY + 1) * DAY_US - 1, unit_of(t)),
    "time": _time,
}


def unit_of(t: ColumnType) -> int:
    """Returns the number of microseconds in the unit of a DATETIME."""
    return 1000 if (t.length or 0) <= 3 else 1


def read_instant(text: str) -> int:
    """Parses the text of a TIMESTAMP; returns microseconds since 1970."""
    if len(text) < 20 or text[10] != "T" or text[-1] != "Z":
        raise SchemaError(f"{text!r:.60} is not a timestamp")
    return model.read_datetime(text)[0]


def digits_of(text: str) -> int | None:
    """The number of fraction digits in the text of a TIMESTAMP; None for the text that stands for many."""
    return None if text == EPOCH_TEXT else max(0, len(text) - 21)


def adjusted(us: int) -> int:
    """Changes a year of two digits to one of 1970 to 2069, as the producers do."""
    day = date.fromordinal(us // DAY_US + _EPOCH)
    if day.year >= 100:
        return us
    whole = day.replace(year=day.year + (2000 if day.year < 70 else 1900))
    return us + (whole - day).days * DAY_US


def instant(us: int, digits: int) -> str:
    """Formats a TIMESTAMP."""
    return EPOCH_TEXT if us < 1_000_000 else model.write_instant(us, digits)


def write_time(text: str) -> str:
    """Converts the text of a TIME to a number of microseconds."""
    match = _TIME_TEXT.fullmatch(text)
    if match is None:
        raise UnsupportedError(f"ticdc-debezium cannot carry {text!r:.60} as a time")
    sign, hour, minute, second, fraction = match.groups()
    us = (int(hour) * 3600 + int(minute) * 60 + int(second)) * 1_000_000 + int((fraction or "").ljust(6, "0")[:6])
    return str(-us if sign else us)
