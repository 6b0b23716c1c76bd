"""Stop signals: the first one ends the work in good order, the second one ends the process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """The signal that asked to stop; None if there was none."""

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
