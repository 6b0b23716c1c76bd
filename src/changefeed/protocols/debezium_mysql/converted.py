"""Reads the texts of custom converters by the type in the DDL: dates, times and numbers that the connector sends in other forms.

    DATE           2024-05-06; an offset does not move the day
    TIME           17:29:04.123; with an offset the time of day in UTC
    DATETIME       2024-05-06 07:08:09.123, with a T or a blank; with an offset it is that moment
    TIMESTAMP      the same; without an offset it is local to the option `time-zone`
    integers       -42
    FLOAT, DOUBLE  0.5, 1e10
    DECIMAL        12.50, -3; digits alone may be base64, see `fitting`

Rule 1. A text is read like this only if it is not what the options say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from changefeed.errors import SchemaError
from changefeed.model import values
from changefeed.model.types import ColumnType
from changefeed.model.values import Irregular, IrregularError
from changefeed.mysql.zone import to_utc, zone
from changefeed.protocols.debezium_mysql.fitting import FITS, kind_of
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.values import times

_INTEGER = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,400}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_DECIMAL = re.compile(r"(?:[+-]\d{1,65}|-?\d{1,65}\.\d{1,65})", re.ASCII)
_OFFSET = re.compile(r"(?<=\d)(?:Z|[+-]\d\d:?\d\d)$", re.ASCII)


def reader(defined: ColumnType, options: Options) -> Callable[[str], Any] | None:
    """Returns the function that reads a text as a value of the type; None if converters do not send the type as text."""
    kind = kind_of(defined)
    if kind == "integer":
        return _integer(defined)
    read = _READERS.get(kind)
    if read is None:
        return None
    fit = FITS[kind, kind](ColumnType("double") if kind == "real" else defined, defined, options)
    return lambda text: fit(read(text, options))


def _date(text: str, options: Options) -> Any:
    day = times.read_iso_date(text) if _OFFSET.search(text) else values.read_date(text)
    if isinstance(day, Irregular):
        raise IrregularError(f"{text!r:.60} is not a valid date")
    return day


def _time(text: str, options: Options) -> Any:
    return times.read_iso_time(text) if _OFFSET.search(text) else values.read_time(text)


def _datetime(text: str, options: Options) -> Any:
    return _moment(text) if _has_offset(text) else values.read_datetime(text)[0]


def _timestamp(text: str, options: Options) -> Any:
    if _has_offset(text):
        return _moment(text)
    us, _ = values.read_datetime(text)
    if options.time_zone is None:
        raise SchemaError(f'{text!r:.60} has no offset from UTC; set the option "time-zone"')
    instant = to_utc(us, zone(options.time_zone))
    if instant is None:
        raise IrregularError(f"{text!r:.60} does not exist in {options.time_zone}")
    return instant


def _has_offset(text: str) -> bool:
    return len(text) > 16 and _OFFSET.search(text, 16) is not None


def _moment(text: str) -> int:
    written = text.replace(" ", "T", 1)
    if written[-5] in "+-":  # +0530
        written = f"{written[:-2]}:{written[-2:]}"
    moment = times.read_moment(written)
    if isinstance(moment, Irregular):
        raise IrregularError(f"{text!r:.60} is not a valid date and time")
    return moment.us


def _integer(defined: ColumnType) -> Callable[[str], Any]:
    check = values.reader(defined)

    def read(text: str) -> Any:
        if _INTEGER.fullmatch(text) is None:
            raise SchemaError(f"{text!r:.60} is not an integer")
        try:
            return check(int(text))
        except SchemaError as error:
            raise IrregularError(f"{text} does not fit {defined}") from error

    return read


def _real(text: str, options: Options) -> Any:
    if _NUMBER.fullmatch(text) is None or math.isinf(float(text)):
        raise SchemaError(f"{text!r:.60} is not a number")
    return float(text)


def _decimal(text: str, options: Options) -> Any:
    if _DECIMAL.fullmatch(text) is None:
        raise SchemaError(f"{text!r:.60} is not a decimal")
    return text


_READERS: dict[str, Callable[[str, Options], Any]] = {
    "date": _date,
    "time": _time,
    "datetime": _datetime,
    "timestamp": _timestamp,
    "real": _real,
    "decimal": _decimal,
}
