"""TIMESTAMP text without a zone: the producer wrote it in its own, the user says which.

A local time that the zone leaves out (clocks put forward) names no moment. One that occurs twice (clocks put back) is
taken as the first: its text is the same either way, so nothing is lost on the way back.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from changefeed.errors import ConfigError

_OFFSET = re.compile(r"([+-])(\d\d):([0-5]\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1)
_US = timedelta(microseconds=1)


def zone(name: str) -> tzinfo:
    """The zone of this name: `UTC`, `Asia/Shanghai`, `+08:00`.

    Raises:
        ConfigError: there is none.
    """
    found = _OFFSET.fullmatch(name)
    if found is not None and int(found[2]) <= 14:
        offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-offset if found[1] == "-" else offset)
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f'time-zone "{name}" is unknown: expected a name as Asia/Shanghai or an offset as +08:00'
        raise ConfigError(message) from error


def ahead(where: tzinfo) -> int | None:
    """Microseconds by which a zone is ahead of UTC; None when that depends on the day."""
    return where.utcoffset(None) // _US if isinstance(where, timezone) else None


def to_utc(local_us: int, where: tzinfo) -> int | None:
    """Microseconds since the epoch of a wall clock read as if it were UTC; None where the zone has no such time."""
    if where is UTC:
        return local_us
    try:
        local = _EPOCH + timedelta(microseconds=local_us)
        utc = local.replace(tzinfo=where).astimezone(UTC)
        if utc.astimezone(where).replace(tzinfo=None) != local:
            return None
        return (utc.replace(tzinfo=None) - _EPOCH) // _US
    except OverflowError:
        return None


def to_local(utc_us: int, where: tzinfo) -> int:
    """The wall clock of a moment, as microseconds read as if it were UTC.

    Raises:
        OverflowError: it lies outside of the years 1 to 9999.
    """
    if where is UTC:
        return utc_us
    utc = (_EPOCH + timedelta(microseconds=utc_us)).replace(tzinfo=UTC)
    return (utc.astimezone(where).replace(tzinfo=None) - _EPOCH) // _US
