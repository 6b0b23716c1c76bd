"""Runs of a pipeline in memory that end at failpoints, or move from failpoint to failpoint at the same time.

The flow, the planner, the executor and the guard are the real ones; the ledger, the pending store and the tables are in
memory, so a run costs milliseconds. Called by the tests, and by `bench/crashes.py` for more of the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, Protocol

from changefeed import telemetry
from changefeed.errors import FencedError
from tests.killed import Killed
from tests.pipeline.kit.random_runs import Pipeline, history, logs_of
from tests.pipeline.kit.turns import Player, Turns

# The failpoints of dead letters and of the ledger's files have tests of their own: `test_replay.py`, `store/conformance.py`.
POINTS = [point for point in telemetry.FAILPOINTS if not point.startswith(("letters", "pack", "tidy"))]

OnPass = Callable[[Callable[[str], None] | None], None]  # sets what a failpoint calls


class Interleaved(Protocol):
    """A pipeline whose runs `interleave` mixes."""

    def run(self, random: Random) -> Any:
        """One run, to the end of the log."""

    def check(self) -> None:
        """Compares every published cut, and the end, with the upstream."""


def crashed(random: Random, consistency: str, on_pass: OnPass) -> tuple[Counter[str], Counter[str]]:
    """Applies one random history by runs that each end at a random failpoint, until one run is complete.

    Returns:
        How many runs ended at each failpoint, and how many commits of each kind were made.

    Raises:
        AssertionError: the tables are not those of the history, at its end or at a cut.
    """
    ended = Counter[str]()
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
    return ended, Counter(version.operation for table in pipeline.storage.tables.tables.values() for version in table)


def end_anywhere(pipeline: Pipeline, random: Random, on_pass: OnPass) -> None:
    """Applies a history by three runs that each end after some failpoints, and one that is complete.

    Raises:
        AssertionError: as `crashed`.
    """
    for _ in range(3):
        left = random.randint(5, 40)

        def passed(name: str) -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                raise Killed(name)

        on_pass(passed)
        with suppress(Killed):
            pipeline.run(random)
    on_pass(None)
    pipeline.run(random)
    pipeline.check()


def interleaved(random: Random, consistency: str, on_pass: OnPass) -> int:
    """Applies one random history as `interleave` does."""
    return interleave(_pipeline(random, consistency), random, on_pass)


def interleave(pipeline: Interleaved, random: Random, on_pass: OnPass) -> int:
    """Applies a history by two or three runs that move from failpoint to failpoint in random order; some are killed.

    A run may also end with an error that another try may overcome.

    Returns:
        How many of them were fenced.

    Raises:
        AssertionError: a run ended in another way, or the tables are not those of the history, at its end or at a cut.
    """
    turns = Turns()
    on_pass(turns.on_pass)
    players = [_player(turns, pipeline, f"run {n}", random) for n in range(random.randint(2, 3))]
    try:
        _play(turns, players, random)
    finally:
        turns.close()
    on_pass(None)
    for player in players:
        if player.error is not None and not _may_end_with(player.error):
            raise AssertionError(f"{player.name} of {turns.schedule}") from player.error
    pipeline.run(random)
    pipeline.check()
    return sum(isinstance(player.error, FencedError) for player in players)


def _pipeline(random: Random, consistency: str) -> Pipeline:
    by_key = consistency == "key"
    upstream = history(random, random.randint(5, 40), partial=random.random() < 0.5, moves=not by_key)
    return Pipeline(upstream, logs_of(upstream, random.randint(1, 3), random), consistency)


def _player(turns: Turns, pipeline: Interleaved, name: str, random: Random) -> Player:
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
    return isinstance(error, FencedError | Killed) or getattr(error, "transient", False)
