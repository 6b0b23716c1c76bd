"""A run that ends at any failpoint is finished by the next: random histories, every write, both consistencies, in memory.

The flow, the planner, the executor and the guard are the real ones; the ledger, the pending store and the tables are in
memory, so a run costs milliseconds. The same on Delta, a sample of it, is in `test_crashes.py`.

`CHANGEFEED_SEED` repeats a seed, which every failure prints.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from changefeed.errors import FencedError
from changefeed.pipeline import failpoint
from tests.pipeline.random_runs import Pipeline, history, logs_of
from tests.pipeline.turns import Player, Turns

HISTORIES = int(os.environ.get("CHANGEFEED_HISTORIES", "150"))
SCHEDULES = int(os.environ.get("CHANGEFEED_SCHEDULES", "300"))
# Those of dead letters and of the ledger's files are tried elsewhere: `test_replay.py`, `store/conformance.py`.
POINTS = [point for point in failpoint.POINTS if not point.startswith(("letters", "pack", "tidy"))]


class Killed(BaseException):
    """Not an Exception: no handler on the way may take it."""


@pytest.fixture
def seed() -> int:
    """A fresh seed, or the one that is to be repeated; with CI always the same, as a change is judged by itself."""
    fresh = 1 if os.environ.get("CI") else secrets.randbelow(2**40)
    chosen = int(os.environ.get("CHANGEFEED_SEED") or fresh)
    print("seed", chosen)
    return chosen


@pytest.fixture
def on_pass(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], None] | None], None]:
    """Sets what a failpoint calls."""
    return lambda function: monkeypatch.setattr(failpoint, "on_pass", function)


def _pipeline(random: Random, consistency: str) -> Pipeline:
    by_key = consistency == "key"
    upstream = history(random, random.randint(5, 40), partial=random.random() < 0.5, moves=not by_key)
    return Pipeline(upstream, logs_of(upstream, random.randint(1, 3), random), consistency)


@pytest.mark.parametrize("consistency", ["transaction", "key"])
def test_runs_that_end_anywhere(consistency: str, seed: int, on_pass: Callable[..., None]) -> None:
    """Each run ends at a random failpoint, until one comes to its end."""
    ended, kinds = Counter[str](), Counter[str]()
    for number in range(HISTORIES):
        random = Random(f"{seed} {consistency} {number}")
        pipeline = _pipeline(random, consistency)
        for _ in range(random.randint(4, 16)):
            point = random.choice(POINTS) if random.random() < 0.5 else "any"
            left = random.choice([1, 2, 3, 5, 8, 13, 21, 34]) if point == "any" else 1

            def passed(name: str) -> None:
                nonlocal left
                left -= point in ("any", name)  # noqa: B023  called in this turn of the loop alone
                if left <= 0:
                    ended[name] += 1
                    raise Killed(name)

            on_pass(passed)
            with suppress(Killed):
                pipeline.run(random)
                break
        on_pass(None)
        pipeline.run(random)
        pipeline.check()
        kinds.update(version.operation for table in pipeline.storage.tables.tables.values() for version in table)
    print(f"{sum(ended.values()):,} crashes: {dict(ended)}; writes: {dict(kinds)}")
    missed = set(POINTS) - set(ended)
    assert not missed, f"never passed with {HISTORIES} histories: {sorted(missed)}"


@pytest.mark.parametrize("consistency", ["transaction", "key"])
def test_two_or_three_runs_at_once(consistency: str, seed: int, on_pass: Callable[..., None]) -> None:
    """Runs of one pipeline move from failpoint to failpoint in random order, some are killed; one of them goes on."""
    fenced = 0
    for number in range(SCHEDULES):
        random = Random(f"{seed} {consistency} {number}")
        pipeline, turns = _pipeline(random, consistency), Turns()
        on_pass(turns.on_pass)
        players = [_player(turns, pipeline, f"{number}.{n}", random) for n in range(random.randint(2, 3))]
        try:
            _play(turns, players, random)
        finally:
            turns.close()
        on_pass(None)
        for player in players:
            if player.error is not None and not _may_end_with(player.error):
                raise AssertionError(f"{player.name} of {turns.schedule}") from player.error
            fenced += isinstance(player.error, FencedError)
        pipeline.run(random)
        pipeline.check()
    print("fenced", fenced, "of", SCHEDULES)
    assert fenced > SCHEDULES // 4


def _player(turns: Turns, pipeline: Pipeline, name: str, random: Random) -> Player:
    own = Random(random.random())
    return turns.player(name, lambda: pipeline.run(own))


def _play(turns: Turns, players: list[Player], random: Random) -> None:
    while moving := [player for player in players if not player.ended]:
        player = random.choice(moving)
        if player.held and random.random() < 0.05:
            turns.kill(player)
        else:
            turns.go(player, until="any", passes=random.choice([1, 1, 1, 2, 5, 20]))


def _may_end_with(error: BaseException) -> bool:
    return isinstance(error, FencedError) or type(error).__name__ == "Killed"
