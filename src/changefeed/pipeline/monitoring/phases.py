"""The time of a run, divided among the parts of its steps.

read            between steps: the start of the run, the source's answers, and Spark's start of a batch; for event sinks, the
                changes themselves
idle            the wait for more to read, or for a retry, the source's answers that it has no more, and the time in which the
                source is down
decode, stage   records to chunks in the pending store: one job
plan            chunks to the writes of a step
write           data files of all tables
commit          commits of tables, and writes that are not prepared together; side by side, they count once
ledger          entries of the ledger
clean up        folders of the pending store
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

PHASES = ("read", "idle", "decode, stage", "plan", "write", "commit", "ledger", "clean up")
_ENDS = {"stage.before": "read", "stage.after": "decode, stage", "begun.before": "plan", "begun.after": "ledger",
         "stream.read": "read", "done.after": "ledger", "cleanup.before": "read", "cleanup.after": "clean up",
         "wait.before": "read", "wait.after": "idle"}  # fmt: skip


@dataclass(slots=True)
class Phases:
    """An observer that adds up the seconds of each phase.

    Attributes:
        clock: returns the time in seconds.
        seconds: phase -> seconds.
    """

    clock: Callable[[], float] = time.monotonic
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    _last: float = field(init=False)
    _begun: bool = False
    _idle: bool = False
    _waited: bool = False  # and nothing was read since
    _asked: float | None = None  # since when the source has been asked
    _down: float | None = None  # since when the source is down
    _lost: float = 0.0  # seconds of this phase in which it was down before
    _open: int = 0
    _commits: float = 0.0
    _since: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._last = self.clock()

    def __call__(self, name: str, facts: Mapping[str, Any]) -> None:
        """Takes the time at a place of `telemetry`."""
        now = self.clock()
        with self._lock:
            self._idle = name == "wait.before"
            if name in ("read.before", "read.after"):
                self._answers(now)
                self._asked = now if name == "read.before" else None
            if phase := _ENDS.get(name):
                self._end("idle" if self._idle and self._waited else phase, now)
                self._begun = name == "begun.after"
                self._waited = name.startswith("wait.")
            elif name == "done.before":  # a step without writes is planned, and begins none
                self._end("write" if self._begun else "plan", now)
                self._begun = False
            elif self._begun and name.endswith(".before"):
                self._since = self._since if self._open else now
                self._open += 1
            elif self._begun and name.endswith(".after"):
                self._open -= 1
                self._commits += 0 if self._open else now - self._since

    def source_answers(self, answers: bool) -> None:
        """Notes whether the source answers. If it does not, it is down since the question to it, or from now on."""
        now = self.clock()
        with self._lock:
            if answers:
                self._answers(now)
            elif self._down is None:
                self._down = now if self._asked is None else max(self._asked, self._last)

    def so_far(self) -> dict[str, float]:
        """The seconds of each phase that has ended; the one that is under way counts as `read`, or as `idle`."""
        now = self.clock()
        with self._lock:
            lost = self._lost_until(now)
            spent = {"idle": lost, "read": 0.0}
            spent["idle" if self._idle else "read"] += now - self._last - lost
            return {name: round(seconds + spent.get(name, 0.0), 6) for name, seconds in self.seconds.items()}

    def finish(self) -> dict[str, float]:
        """The seconds of each phase; what is left of the run counts as `read`."""
        with self._lock:
            self._end("read", self.clock())
            return {name: round(seconds, 6) for name, seconds in self.seconds.items()}

    def _answers(self, now: float) -> None:
        self._lost, self._down = self._lost_until(now), None

    def _lost_until(self, now: float) -> float:
        return self._lost + (now - self._down if self._down is not None else 0.0)

    def _end(self, phase: str, now: float) -> None:
        lost = self._lost_until(now)
        self.seconds[phase] += now - self._last - lost - self._commits
        self.seconds["idle"] += lost
        self.seconds["commit"] += self._commits
        self._last, self._commits, self._lost, self._down = now, 0.0, 0.0, None
