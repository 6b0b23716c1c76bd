"""Reduces a failing history: fewer and fewer statements, as long as it still fails in the same way (delta debugging).

Each attempt needs the server and the engine. So a reduction gives out its next attempts, which are recorded in a round
together with others, and goes on from their verdicts.
"""

from __future__ import annotations

from tests.live.history import History, Statement
from tests.live.verdicts import Verdict

_ATTEMPTS = 10  # of one reduction in a round
_KEPT = ("CREATE DATABASE",)


class Reduction:
    """The reduction of one history.

    Attributes:
        statements: the fewest that still fail.
        results: what has come of the attempts, in their order.
        rounds: how many rounds of attempts it has had.
        ended: no single statement can be left out.
    """

    def __init__(self, history: History, verdict: Verdict) -> None:
        self.history, self.verdict = history, verdict
        self.statements = [s for s in history.executed if not s.text.startswith(_KEPT)]
        self.best: tuple[History, Verdict] = history, verdict
        self.results: list[tuple[History, Verdict]] = []
        self.rounds, self.ended = 0, False
        self._offered: list[int] = []
        self._size = max(1, len(self.statements) // 2)  # statements that an attempt leaves out
        self._start = 0

    def attempts(self) -> list[list[Statement]]:
        """The next attempts: each without some of the statements."""
        first = [s for s in self.history.executed if s.text.startswith(_KEPT)]
        starts = range(self._start, len(self.statements), self._size)
        chosen = list(starts)[:_ATTEMPTS]
        self._offered = chosen
        return [[*first, *self.statements[:at], *self.statements[at + self._size :]] for at in chosen]

    @property
    def is_waiting(self) -> bool:
        """Whether some attempts have no result yet."""
        return len(self.results) < len(self._offered)

    def take(self) -> None:
        """Goes on from the results of all attempts."""
        if not self._offered:
            return
        results, self.results = self.results, []
        self.rounds += 1
        failing = [
            (at, history, verdict)
            for at, (history, verdict) in zip(self._offered, results, strict=True)
            if self._is_same(verdict)
        ]
        if failing:
            _, history, verdict = min(failing, key=lambda attempt: len(attempt[1].executed))
            self.history, self.best = history, (history, verdict)
            self.statements = [s for s in history.executed if not s.text.startswith(_KEPT)]
            self._size = max(1, min(self._size, len(self.statements) // 2))
            self._start = 0
        elif self._offered and self._offered[-1] + self._size < len(self.statements):
            self._start = self._offered[-1] + self._size
        elif self._size > 1:
            self._size, self._start = max(1, self._size // 2), 0
        else:
            self.ended = True
        if not self.statements:
            self.ended = True

    def _is_same(self, verdict: Verdict) -> bool:
        """Whether an attempt fails as the history did."""
        return verdict.verdict == self.verdict.verdict and verdict.kind == self.verdict.kind
