"""TiDB's timestamps: unsigned 64 bits, Unix milliseconds << 18 | a counter within the millisecond.

They exceed 2^53, so they must be read as integers, never as doubles.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

LOGICAL_BITS = 18
LIMIT = 2**64
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS = range(2000, 2200)  # outside of these years a commit_ts is not a TSO but another upstream's number


def milliseconds(ts: int) -> int:
    """Returns the time of a TiDB timestamp, in milliseconds since 1970."""
    return ts >> LOGICAL_BITS


def at(unix_ms: int) -> int:
    """Returns the lowest TiDB timestamp of a millisecond."""
    return unix_ms << LOGICAL_BITS


def time_of(ts: int) -> datetime | None:
    """Returns the time of a TiDB timestamp, to the millisecond; None if the number contains no time of our years."""
    try:
        time = _EPOCH + timedelta(milliseconds=milliseconds(ts))
    except OverflowError:
        return None
    return time if time.year in _YEARS else None


def iso(time: datetime) -> str:
    """Formats a time in UTC as events show it: `2026-03-01T12:00:00.000Z`."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
