"""Watches a run from a thread of its own: heartbeat, health of the source, and a function that shows the run every second."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from changefeed.pipeline.monitoring.heartbeat import Heartbeat
from changefeed.pipeline.monitoring.view import ASKING, READING, RETRYING, RunNow, RunView
from changefeed.telemetry import observed, passed

_TICK = 1.0  # seconds
_LAST = 10.0  # seconds for the last heartbeat
_SILENT = 5.0  # seconds without an answer, after which the source is asked whether it can be reached, each time

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Watch:
    """Watches one run.

    Attributes:
        view: the observer of the run.
        unreachable: returns why the source cannot be reached; None if it can.
        heartbeat: writes the heartbeat; None to write none.
        show: called every second, and at the end.
    """

    view: RunView
    unreachable: Callable[[], str | None]
    heartbeat: Heartbeat | None = None
    show: Callable[[RunNow], None] | None = None
    _asked: float = -math.inf  # when the source was asked last

    def source_is_gone(self) -> bool:
        """Whether the source has answered this run before, and cannot be reached now."""
        return self.view.now().source_answered and self.unreachable() is not None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches the run that is made inside, and passes `run.ended` at its end."""
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(over,), name="watch", daemon=True)
        with observed(self.view):
            thread.start()
            try:
                yield
            except BaseException as error:
                passed("run.ended", error=error)
                raise
            else:
                passed("run.ended", error=None)
            finally:
                over.set()
                thread.join(_LAST)  # a storage that is gone must not hold up the end of the run

    def _watch(self, over: threading.Event) -> None:
        last = -math.inf
        while not over.wait(_TICK):
            beats = time.monotonic() - last >= self.view.every
            self._look(beats=beats)
            last = time.monotonic() if beats else last
        self._look(beats=True)

    def _look(self, *, beats: bool) -> None:
        """Looks at the run once. An error ends neither the watch nor the run."""
        try:
            self._ask_source(self.view.now())
            now = self.view.now()
            if beats and self.heartbeat is not None:
                self.heartbeat.write(now)
            if self.show is not None:
                self.show(now)
        except Exception:
            _log.debug("watching the run failed", exc_info=True)

    def _ask_source(self, now: RunNow) -> None:
        """Notes whether the source can be reached, if the run has waited for it for some seconds, or for a retry."""
        waits = now.stage in (ASKING, READING) and (now.at - now.stage_since).total_seconds() >= _SILENT
        if not waits and now.stage != RETRYING:
            return
        if now.source_down is None and time.monotonic() - self._asked < _SILENT:
            return
        self._asked = time.monotonic()
        reason = self.unreachable()
        if reason is None and now.stage == RETRYING:
            return  # whether it answers is seen by the retry
        if reason is None and now.stage == ASKING:
            reason = "no answer yet"
        self.view.source_answers(now.stage_since, reason)
