"""The wait of a run that has read everything: until the source is asked again, or the run is to end."""

from __future__ import annotations

import time
from collections.abc import Callable

from changefeed.telemetry import passed

_LOOK = 0.5  # seconds between looks whether the run should stop


def wait_for_records(until: float, is_over: Callable[[], bool]) -> None:
    """Waits until a time of the monotonic clock, in seconds; ends early once `is_over` returns True."""
    passed("wait.before", why="waiting for new records")
    while (seconds := until - time.monotonic()) > 0 and not is_over():
        time.sleep(min(seconds, _LOOK))
    passed("wait.after")
