"""Being asked to stop: the first signal ends the work in good order, the second ends the process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Which signal asked to stop; None while none did."""

    signal: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that a signal ended; 0 when there was none."""
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Takes SIGINT and SIGTERM until the end of the block; for the main thread, after Spark has set its own handler."""
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
