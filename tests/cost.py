"""The cost of a call, without the cost of other work in the process and on the machine."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def seconds(work: Callable[[], _T], enough: float = 0.1) -> float:
    """CPU seconds of this thread: of the first call that takes less than `enough`, else the least of ten.

    The garbage collector is off meanwhile: in a worker that has run thousands of tests, a collection takes half a second,
    and may fall into any call. Other programs that use caches and memory can double a call's time, so there are pauses
    between the calls.
    """
    least = _once(work)
    for _ in range(9):
        if least < enough:
            break
        time.sleep(0.2)
        least = min(least, _once(work))
    return least


def peak_bytes(work: Callable[[], _T]) -> int:
    """Peak memory of Python's allocators during `work`, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _once(work: Callable[[], _T]) -> float:
    gc.disable()
    try:
        started = time.thread_time()
        work()
        return time.thread_time() - started
    finally:
        gc.enable()
