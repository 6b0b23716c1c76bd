"""Seconds of several ways to do the same, in turns: a machine has slow and fast minutes, and each way its share of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

_RUNS = 7


def fastest(ways: Mapping[str, Callable[[], Any]], *, once: str) -> dict[str, float]:
    """CPU seconds of the fastest run of each way.

    Args:
        ways: by their names.
        once: the name of one that takes long, and runs a single time.
    """
    seconds = dict.fromkeys(ways, float("inf"))
    for run in range(_RUNS):
        for what, way in ways.items():
            if run == 0 or what != once:
                seconds[what] = min(seconds[what], timed(way))
    return seconds


def timed(way: Callable[[], Any]) -> float:
    """CPU seconds of one run, never 0."""
    start = time.process_time()
    way()
    return max(time.process_time() - start, 1e-9)
