"""Retries after a transient error.

A retry takes the next epoch and continues from the ledger, as a new run would; so it does not matter where the last try ended.
The wait doubles with each retry, up to a minute. A completed step resets the count. A run that follows its source tries again
without end while the source, which has answered it before, cannot be reached.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from changefeed.errors import ChangefeedError
from changefeed.pipeline.monitoring.view import RETRYING
from changefeed.telemetry import passed

_LONGEST = 60.0
_UNITS = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}


@dataclass(frozen=True, slots=True)
class Retry:
    """The next retry: its number, the limit (None: none, while the source is gone), the wait in seconds, and the error before."""

    error: ChangefeedError
    number: int
    limit: int | None
    seconds: float


def seconds(interval: str) -> float:
    """An interval such as `5 minutes`, in seconds."""
    count, unit = interval.split()
    return int(count) * _UNITS[unit.removesuffix("s")]


@dataclass(slots=True)
class Retries:
    """Counts the retries of a run after transient errors, and waits before each.

    Attributes:
        limit: maximum number of retries without a completed step in between.
        backoff: wait before the first retry, in seconds.
        tell: called before each wait.
        source_is_gone: returns whether to try again at the limit, because the source cannot be reached.
        stopping: returns whether to end a wait.
        sleep: waits for a number of seconds.
    """

    limit: int
    backoff: float
    tell: Callable[[Retry], None] | None = None
    stopping: Callable[[], bool] = lambda: False
    sleep: Callable[[float], None] = time.sleep
    source_is_gone: Callable[[], bool] = lambda: False
    _step: int = -1
    _number: int = field(default=0)

    def wait(self, error: ChangefeedError, step: int) -> bool:
        """Waits, and returns whether to try again; `step` is the last completed step."""
        if step > self._step:
            self._step, self._number = step, 0
        if not getattr(error, "transient", False) or not self.limit:
            return False
        is_at_limit = self._number >= self.limit
        if is_at_limit and not self.source_is_gone():
            return False
        seconds = _LONGEST if is_at_limit else min(_LONGEST, self.backoff * 2**self._number)
        self._number += 1
        if self.tell is not None:
            self.tell(Retry(error, self._number, None if is_at_limit else self.limit, seconds))
        passed("retry", error=error)
        passed("wait.before", why=RETRYING)
        while seconds > 0 and not self.stopping():
            self.sleep(min(1.0, seconds))
            seconds -= 1.0
        passed("wait.after")
        return not self.stopping()
