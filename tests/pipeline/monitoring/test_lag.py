"""The lag of the tables, in time, rows and records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from changefeed.pipeline.monitoring.lag import duration, lag_of, lag_text, size_text
from changefeed.pipeline.state import Counts, State
from changefeed.sources import Backlog
from changefeed.ticdc import tso

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


def test_a_source_with_times_is_behind_by_time_rows_and_records() -> None:
    state = State(
        barrier=tso.at(NOON_MS), latest={"a": {0: tso.at(NOON_MS + 2500)}}, counts=Counts(rows=9, applied=5, repeated=1)
    )
    lag = lag_of(state, Backlog(7, {("a", 0): 5, ("a", 1): 2, ("b", 0): 0}), binlog=False)
    now = NOON + timedelta(seconds=4)
    assert (lag.behind_now(now), lag.behind_read) == (timedelta(seconds=4), timedelta(seconds=2.5))
    assert lag.topics() == {"a": 7, "b": 0}
    assert lag_text(lag, now) == "4.0 s behind, 7 records to read, 3 rows pending"
    assert lag.to_dict(now) == {
        "applied_time": "2026-03-01T12:00:00.000Z",
        "read_time": "2026-03-01T12:00:02.500Z",
        "seconds": 4.0,
        "seconds_behind_read": 2.5,
        "records": 7,
        "pending_rows": 3,
        "records_by_partition": {"a": {"0": 5, "1": 2}, "b": {"0": 0}},
    }


def test_an_old_count_of_records_is_shown_with_its_time() -> None:
    lag = lag_of(State(barrier=12), Backlog(7, counted=NOON), binlog=False)
    assert lag_text(lag, NOON + timedelta(seconds=59)) == "7 records to read"
    assert lag_text(lag, NOON + timedelta(minutes=1)) == "7 records to read at 2026-03-01 12:00:00Z"
    assert lag.to_dict(NOON)["counted_time"] == "2026-03-01T12:00:00.000Z"


def test_a_source_with_places_has_commit_times_beside_them() -> None:
    state = State(barrier=1 << 40 | 7, time=NOON_MS, latest={"a": {0: 1 << 40 | 9}})
    lag = lag_of(state, None, binlog=True)
    assert (lag.applied, lag.records) == (NOON, None)
    assert lag_text(lag, NOON + timedelta(minutes=3, seconds=20)) == "3 min 20 s behind"


def test_a_source_that_counts_bytes_is_behind_by_bytes() -> None:
    lag = lag_of(State(barrier=1 << 40 | 7, time=NOON_MS), Backlog(None, bytes=3_210_000), binlog=True)
    assert lag_text(lag, NOON) == "0.0 s behind, 3.2 MB to read"
    assert (lag.to_dict(NOON)["bytes"], lag.records) == (3_210_000, None)


@pytest.mark.parametrize(
    "size, text",
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"),
     (5 * 10**15, "5.0 PB")],
)  # fmt: skip
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert size_text(size) == text


def test_what_is_not_known_is_absent_and_not_zero() -> None:
    assert lag_of(State(), None, binlog=False).to_dict(NOON) == {"pending_rows": 0}
    assert "seconds" not in lag_of(State(barrier=12), None, binlog=False).to_dict(NOON)


def test_a_clock_that_is_behind_the_upstreams_makes_no_negative_lag() -> None:
    lag = lag_of(State(barrier=tso.at(NOON_MS)), None, binlog=False)
    assert lag.behind_now(NOON - timedelta(seconds=3)) == timedelta()


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0, "0.0 s"), (0.44, "0.4 s"), (12, "12 s"), (60, "1 min"), (200, "3 min 20 s"), (3600, "1 h"), (3601, "1 h"),
        (7500, "2 h 5 min"), (86_400 * 3 + 4 * 3600 + 59, "3 d 4 h"),
    ],
)  # fmt: skip
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert duration(timedelta(seconds=seconds)) == text
