"""Handles stop signals: the first one stops the run after the current step, the second one ends the process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Holds the stop signal that was received; None if there was none."""

    signal: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        """The exit code that a shell expects from a process ended by the signal; 0 if there was none."""
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Handles SIGINT and SIGTERM until the end of the block. Main thread only; after Spark has set its own handler."""
    stop = Stop()

    def asked(number: int, frame: FrameType | None) -> None:
        stop.signal = signal.Signals(number)
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)

    before = {each: signal.signal(each, asked) for each in _SIGNALS}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Takes SIGINT until the end of the block, where it becomes a KeyboardInterrupt; the second one ends the process.

    Yields a function that returns whether SIGINT came. In other threads than the main one it always returns False: they get
    no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    interrupted = threading.Event()

    def asked(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    before = signal.signal(signal.SIGINT, asked)
    try:
        yield interrupted.is_set
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted.is_set():
        raise KeyboardInterrupt
