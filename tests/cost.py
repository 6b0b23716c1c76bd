"""What a call costs, told apart from what else runs in the process and on the machine."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def seconds(work: Callable[[], _T], enough: float = 0.1) -> float:
    """CPU seconds of this thread: of the first call if they are below `enough`, else the least of four.

    The collector is off meanwhile: a worker that has run thousands of tests has a heap that costs half a second to go
    through, and whose call it falls into is chance.
    """
    took = _once(work)
    return took if took < enough else min(took, *(_once(work) for _ in range(3)))


def peak_bytes(work: Callable[[], _T]) -> int:
    """The most memory that Python's allocators held at once for `work`, in bytes."""
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
