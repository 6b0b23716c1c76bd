"""A run in words and as JSON: the same in `run`, `status`, and on the page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from changefeed.pipeline.monitoring.lag import duration
from changefeed.pipeline.monitoring.view import STOPPED, Failure, RunNow

_NAMED = 5  # tables in a sentence


def clock_text(time: datetime) -> str:
    """A time of the clock for people, in UTC: `2026-03-01 12:00:00Z`."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ")


def run_text(now: RunNow, time: datetime) -> str:
    """A run for people, as its newest heartbeat has it.

    Args:
        now: the heartbeat.
        time: the time.
    """
    who = f"epoch {now.epoch} on {now.host} (pid {now.pid}), since {clock_text(now.started)}"
    if now.ended:
        why = f": {now.error.reason}" if now.error is not None and now.stage != STOPPED else ""
        return f"none; the last was {who}, {now.stage} at {clock_text(now.stage_since)}{why}"
    if not now.is_alive(time):
        return f"none; the last was {who}. It did not end by itself, and its last heartbeat was at {clock_text(now.at)}: killed"
    words = [f"{now.stage} for {duration(time - now.stage_since)}", *speed_words(now)]
    if now.retries:
        error = (
            f", the last at {clock_text(now.error.since)} after: {now.error.reason}" if now.error is not None else ""
        )
        words.append(f"{now.retries} retries{error}" if now.retries != 1 else f"1 retry{error}")
    return f"{who}: {', '.join(words)}"


def failure_text(down: Failure) -> str:
    """Why the source does not answer, and since when."""
    return f"the source has not answered since {clock_text(down.since)} ({down.reason})"


def pending_text(rows: Mapping[str, int]) -> str:
    """The pending rows of tables for people: `1,204 of shop.orders, 7 of shop.items`."""
    named = [f"{count:,} of {name}" for name, count in rows.items()]
    return ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED:,} more tables" if len(named) > _NAMED else "")


def speed_words(now: RunNow) -> list[str]:
    """The speed of a run for people: rows a second of the last step and on average, and the time left."""
    words = []
    mean = now.mean_rows_per_second
    if now.rows_per_second is not None and mean is not None:
        words.append(f"{_rate(now.rows_per_second)} rows/s now, {_rate(mean)} on average")
    elif mean is not None:
        words.append(f"{_rate(mean)} rows/s on average")
    if now.seconds_left:
        words.append(f"about {duration(timedelta(seconds=now.seconds_left))} left")
    return words


def _rate(rows_per_second: float) -> str:
    return f"{rows_per_second:,.0f}" if rows_per_second >= 10 else f"{rows_per_second:.1f}"


def run_dict(now: RunNow, time: datetime) -> dict[str, Any]:
    """Returns `run` in the JSON of `status`: the heartbeat, and whether the run is alive."""
    fields: dict[str, Any] = {
        name: value
        for name, value in msgspec.to_builtins(now, str_keys=True).items()
        if value is not None and name not in ("format", "step_phases")
    }
    mean = now.mean_rows_per_second
    speed = {} if mean is None else {"mean_rows_per_second": round(mean, 1)}
    return {**fields, **speed, "alive": now.is_alive(time)}
