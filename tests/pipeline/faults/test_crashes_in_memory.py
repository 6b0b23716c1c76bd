"""A run that ends at any failpoint is finished by the next: random histories, every write, both consistencies, in memory.

The same on Delta, a sample of it, is in `test_crashes.py`; tens of thousands of these are run by `bench/crashes.py`.
`CHANGEFEED_SEED` repeats a seed, which every failure prints.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from random import Random

import pytest

from changefeed import telemetry
from tests.pipeline.kit.random_crashes import POINTS, OnPass, crashed, interleaved

pytestmark = pytest.mark.slow
HISTORIES = int(os.environ.get("CHANGEFEED_HISTORIES", "50"))
SCHEDULES = int(os.environ.get("CHANGEFEED_SCHEDULES", "60"))


@pytest.fixture
def seed() -> int:
    """A random seed, or the one to repeat. In CI it is always the same, so that a failure is due to the change alone."""
    fresh = 1 if os.environ.get("CI") else secrets.randbelow(2**40)
    chosen = int(os.environ.get("CHANGEFEED_SEED") or fresh)
    print("seed", chosen)
    return chosen


@pytest.fixture
def on_pass(monkeypatch: pytest.MonkeyPatch) -> OnPass:
    """Sets the function that failpoints call."""
    return lambda function: monkeypatch.setattr(telemetry, "on_pass", function)


@pytest.mark.heavy
@pytest.mark.parametrize("consistency", ["transaction", "key"])
def test_runs_that_end_anywhere(consistency: str, seed: int, on_pass: OnPass) -> None:
    """Each run ends at a random failpoint, until one comes to its end; rare points take more histories to occur."""
    ended, kinds = Counter[str](), Counter[str]()
    for number in range(HISTORIES * 10):
        if number >= HISTORIES and not set(POINTS) - set(ended):
            break
        points, operations = crashed(Random(f"{seed} {consistency} {number}"), consistency, on_pass)
        ended += points
        kinds += operations
    print(f"{sum(ended.values()):,} crashes: {dict(ended)}; writes: {dict(kinds)}")
    missed = set(POINTS) - set(ended)
    assert not missed, f"never passed with {HISTORIES * 10} histories: {sorted(missed)}"


@pytest.mark.heavy
@pytest.mark.parametrize("consistency", ["transaction", "key"])
def test_two_or_three_runs_at_once(consistency: str, seed: int, on_pass: OnPass) -> None:
    """Runs of one pipeline move from failpoint to failpoint in random order, some are killed; one of them reaches the end."""
    fenced = 0
    for number in range(SCHEDULES):
        fenced += interleaved(Random(f"{seed} {consistency} {number}"), consistency, on_pass)
    print("fenced", fenced, "of", SCHEDULES)
    assert fenced > SCHEDULES // 4


@pytest.mark.parametrize("schedule", ["20261126 transaction schedule 1607", "20261126 key schedule 4816"])
def test_a_copy_has_the_planned_rows_although_an_older_run_has_written_to_its_source(
    schedule: str, on_pass: OnPass
) -> None:
    """An older run is fenced at tables that exist; here it makes some while the newer one begins."""
    assert interleaved(Random(schedule), schedule.split()[1], on_pass)
