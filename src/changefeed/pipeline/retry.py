"""Trying again after an error that may pass.

A new try takes the next epoch and goes on from the ledger, as a new run would; so it does not matter where the last one ended.
The wait doubles from try to try, up to a minute. A step that is done begins the count again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from changefeed.errors import ChangefeedError

_LONGEST = 60.0
_UNITS = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}


@dataclass(frozen=True, slots=True)
class Retry:
    """The next try: its number, of how many, after how many seconds, and the error before it."""

    error: ChangefeedError
    number: int
    limit: int
    seconds: float


def seconds(interval: str) -> float:
    """`5 minutes` as seconds."""
    count, unit = interval.split()
    return int(count) * _UNITS[unit.removesuffix("s")]


@dataclass(slots=True)
class Retries:
    """The tries of one run.

    Attributes:
        limit: how many without a step between them.
        backoff: seconds before the first.
        tell: called before each wait.
        stopping: ends a wait.
        sleep: waits for some seconds.
    """

    limit: int
    backoff: float
    tell: Callable[[Retry], None] | None = None
    stopping: Callable[[], bool] = lambda: False
    sleep: Callable[[float], None] = time.sleep
    _step: int = -1
    _number: int = field(default=0)

    def wait(self, error: ChangefeedError, step: int) -> bool:
        """Whether to try again, after the wait for it; `step` is the last that was done."""
        if step > self._step:
            self._step, self._number = step, 0
        if not getattr(error, "transient", False) or self._number >= self.limit:
            return False
        left = min(_LONGEST, self.backoff * 2**self._number)
        self._number += 1
        if self.tell is not None:
            self.tell(Retry(error, self._number, self.limit, left))
        while left > 0 and not self.stopping():
            self.sleep(min(1.0, left))
            left -= 1.0
        return not self.stopping()
