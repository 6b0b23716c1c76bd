"""Time zones, by which TIMESTAMP values become local times: in texts of producers, and in sessions of a server.

A local time that the zone skips (clocks put forward) does not exist. One that occurs twice (clocks put back) is read as
the first; its text is the same either way, so writing it again gives the same text.
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
    """Returns the time zone of a name: `UTC`, `Asia/Shanghai`, `+08:00`.

    Raises:
        ConfigError: the name is unknown.
    """
    match = _OFFSET.fullmatch(name)
    if match is not None and int(match[2]) <= 14:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-offset if match[1] == "-" else offset)
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f'time-zone "{name}" is unknown: expected a name as Asia/Shanghai or an offset as +08:00'
        raise ConfigError(message) from error


def ahead(where: tzinfo) -> int | None:
    """Microseconds by which a zone is ahead of UTC; None if that depends on the date."""
    return where.utcoffset(None) // _US if isinstance(where, timezone) else None


def to_utc(local_us: int, where: tzinfo) -> int | None:
    """Converts a wall clock time, in microseconds as if it were UTC, to UTC; None if the zone has no such time."""
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


def is_repeated(local_us: int, where: tzinfo) -> bool:
    """Whether the zone has a wall clock time, in microseconds as if it were UTC, twice."""
    local = (_EPOCH + timedelta(microseconds=local_us)).replace(tzinfo=where)
    return local.utcoffset() > local.replace(fold=1).utcoffset()  # type: ignore[operator]  # both are known


def to_local(utc_us: int, where: tzinfo) -> int:
    """Converts UTC to the wall clock time, in microseconds as if it were UTC.

    Raises:
        OverflowError: the result is outside the years 1 to 9999.
    """
    if where is UTC:
        return utc_us
    utc = (_EPOCH + timedelta(microseconds=utc_us)).replace(tzinfo=UTC)
    return (utc.astimezone(where).replace(tzinfo=None) - _EPOCH) // _US
