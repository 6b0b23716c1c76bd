"""Runs that take turns: one run moves at a time, from failpoint to failpoint, in the order that the test chooses.

As one run moves at a time, any failpoint that is passed belongs to that run, on whichever thread of Spark's it is passed.
Besides the failpoints, each SQL statement is a point: `sql ALTER TABLE` before it is executed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.killed import Killed

_PATIENCE = 600.0  # seconds that a turn may take; only a bound for runs that wait for each other


@dataclass
class Player:
    """A run that takes turns.

    Attributes:
        name: name of the run in messages.
        passed: the points that the run has passed, in order; it is held at the last one.
        held: the run is held at the last of `passed`.
        error: the error with which the run ended, if any.
        result: the run's result if there was no error.
    """

    name: str
    work: Callable[[], Any]
    passed: list[str] = field(default_factory=list)
    held: bool = False
    error: BaseException | None = None
    result: Any = None
    thread: threading.Thread | None = None
    killed: bool = False
    stop_at: Callable[[str], bool] = field(default=lambda name: False)
    go: threading.Event = field(default_factory=threading.Event)
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def ended(self) -> bool:
        """Whether it has come to its end."""
        return self.thread is not None and self.stopped.is_set() and not self.held


class Turns:
    """The runs of a test, of which one has the turn. `on_pass` is for `telemetry.on_pass`."""

    def __init__(self) -> None:
        self.players: list[Player] = []
        self.schedule: list[str] = []
        self._moving: Player | None = None

    def player(self, name: str, work: Callable[[], Any]) -> Player:
        """A run, which has not begun."""
        self.players.append(Player(name, work))
        return self.players[-1]

    def go(self, player: Player, until: str | None = None, passes: int = 1) -> bool:
        """Lets the run move until it stands at the point `until` (`passes` times from now) or has ended.

        Returns:
            whether it stands there; False when it has ended.
        """
        left = [passes]

        def stop_at(name: str) -> bool:
            left[0] -= until in (name, "any")
            return until in (name, "any") and left[0] == 0

        return self._turn(player, stop_at)

    def kill(self, player: Player) -> None:
        """Ends the run where it stands."""
        player.killed = True
        self._turn(player, lambda name: False)

    def close(self) -> None:
        """Ends all runs."""
        for player in self.players:
            if player.held:
                self.kill(player)

    def on_pass(self, name: str) -> None:
        """Called by the run that has the turn."""
        player = self._moving
        if player is None:
            return
        player.passed.append(name)
        if player.killed:
            raise Killed(name)
        if player.stop_at(name):
            player.held = True
            player.stopped.set()
            player.go.wait(_PATIENCE)
            player.go.clear()
            if player.killed:
                raise Killed(name)

    def _turn(self, player: Player, stop_at: Callable[[str], bool]) -> bool:
        assert not player.ended, f"{player.name} has ended"
        player.stop_at, self._moving = stop_at, player
        player.stopped.clear()
        if player.thread is None:
            player.thread = threading.Thread(target=self._work, args=(player,), name=player.name, daemon=True)
            player.thread.start()
        else:
            player.held = False
            player.go.set()
        assert player.stopped.wait(_PATIENCE), f"{player.name} hangs after {player.passed[-3:]}"
        self._moving = None
        self.schedule.append(f"{player.name}→{player.passed[-1] if player.held else 'end'}")
        return player.held

    def _work(self, player: Player) -> None:
        try:
            player.result = player.work()
        except BaseException as error:  # the test reads it
            player.error = error
        finally:
            player.held = False
            player.stopped.set()
