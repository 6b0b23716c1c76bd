"""Measures several ways in turns, so that slow and fast periods of the machine affect all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

_RUNS = 7


def fastest(ways: Mapping[str, Callable[[], Any]], *, once: str) -> dict[str, float]:
    """Returns the CPU seconds of the fastest run of each way.

    Args:
        ways: name -> function.
        once: the name of a slow way, which runs only once.
    """
    seconds = dict.fromkeys(ways, float("inf"))
    for run in range(_RUNS):
        for what, way in ways.items():
            if run == 0 or what != once:
                seconds[what] = min(seconds[what], timed(way))
    return seconds


def timed(way: Callable[[], Any]) -> float:
    """Returns the CPU seconds of one run, never 0."""
    start = time.process_time()
    way()
    return max(time.process_time() - start, 1e-9)
