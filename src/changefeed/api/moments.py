"""Points up to which a pipeline can be run: a commit_ts, a time (all commits up to its millisecond), a place, or a GTID."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from changefeed.errors import ConfigError
from changefeed.mysql import gtid
from changefeed.pipeline.monitoring.cuts import commit_ts_of
from changefeed.ticdc import tso

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_of(value: int | str | datetime) -> int | str:
    """Converts a point in time to a commit_ts; a GTID or GTID set is returned unchanged.

    Args:
        value: a commit_ts, as a number or as digits; a time (UTC unless it has a zone), which becomes the last commit_ts of
            its millisecond; a GTID or GTID set; or a place in the binlog, `mysql-bin.000001:14624`. Text such as `2026-03-01`
            is a date, not a GTID of MariaDB.

    Raises:
        ConfigError: the value is not one of these.
    """
    if isinstance(value, datetime):
        return _last_of(value, value.isoformat())
    if isinstance(value, str) and (place := commit_ts_of(value)) is not None:
        return place
    if isinstance(value, int) or (value.isascii() and value.isdigit()):
        if not 0 < int(value) < 2**63:
            raise ConfigError(f"{value} is not a commit_ts: it does not fit into 63 bits")
        return int(value)
    try:
        time = datetime.fromisoformat(value)
    except ValueError as error:
        if gtid.parse(value) or gtid.is_set(value):
            return value
        raise ConfigError(
            f"{value!r} is neither a commit_ts (digits), nor an ISO time such as 2026-03-01T12:00:00Z, nor a GTID, nor a place "
            "in the binlog such as 000001:14624"
        ) from error
    return _last_of(time, value)


def is_time(value: int | str | datetime) -> bool:
    """Whether a value that `moment_of` converts is a time."""
    is_number = isinstance(value, str) and (value.isdigit() or commit_ts_of(value) is not None)
    return not isinstance(value, int) and not is_number and isinstance(moment_of(value), int)


def _last_of(time: datetime, shown: str) -> int:
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    if time < _EPOCH:
        raise ConfigError(f"{shown} is before 1970")
    return tso.at((time - _EPOCH) // timedelta(milliseconds=1) + 1) - 1


def time_of(commit_ts: int | None) -> str | None:
    """Returns the time of a commit_ts of TiDB in ISO format, in UTC; None if the number contains no time."""
    if commit_ts is None:
        return None
    time = tso.time_of(commit_ts)
    return None if time is None else tso.iso(time)


def iso(time: datetime) -> str:
    """Formats a time in UTC as events show it: `2026-03-01T12:00:00.000Z`."""
    return tso.iso(time)
