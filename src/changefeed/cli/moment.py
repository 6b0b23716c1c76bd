"""Points in time on the command line: a commit_ts, a time (all commits up to its millisecond), or a GTID."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from changefeed.mysql import gtid
from changefeed.ticdc import tso

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS = range(2000, 2200)  # outside of these years a commit_ts is not a TSO but another upstream's number


def moment(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    """The commit_ts of an option's value, or the value itself if it is a GTID or a GTID set.

    Digits are the commit_ts itself. An ISO 8601 time, UTC unless it has a zone, is the last commit_ts of its millisecond.
    Three numbers that form a date are a time, although MariaDB's GTIDs look the same.
    """
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        if not 0 < int(value) < 2**63:
            raise click.BadParameter(f"{value} is not a commit_ts: it does not fit into 63 bits", ctx, param)
        return int(value)
    try:
        time = datetime.fromisoformat(value)
    except ValueError as error:
        if gtid.parse(value) or gtid.is_set(value):
            return value
        wanted = "neither a commit_ts (digits), nor an ISO time such as 2026-03-01T12:00:00Z, nor a GTID"
        raise click.BadParameter(f"{value!r} is {wanted}", ctx, param) from error
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    if time < _EPOCH:
        raise click.BadParameter(f"{value} is before 1970", ctx, param)
    return tso.at((time - _EPOCH) // timedelta(milliseconds=1) + 1) - 1


def time_of(commit_ts: int | None) -> str | None:
    """The commit_ts as an ISO time in UTC, or None if it is not a TSO."""
    if commit_ts is None:
        return None
    try:
        time = _EPOCH + timedelta(milliseconds=tso.milliseconds(commit_ts))
    except OverflowError:
        return None
    return iso(time) if time.year in _YEARS else None


def iso(time: datetime) -> str:
    """A time in UTC, in the form that events have."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown(commit_ts: int | None) -> str:
    """A commit_ts for people: the number and its time."""
    time = time_of(commit_ts)
    if commit_ts is None:
        return "no cut yet"
    return f"{commit_ts} ({time})" if time else str(commit_ts)
