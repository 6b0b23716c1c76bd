"""Places that a run passes on its way, for its observers: progress, heartbeat, metrics, benchmarks, and tests that kill it.

A run calls `passed` with the name of a place and the facts that it has there. Observers are called in the run's thread, in the
order in which they were added; those of `observed` see only what their own run passes. An observer must be quick, and must not
raise: it is not there for the run.

`FAILPOINTS` are the places at which a test ends the process, to prove that the next run finishes what this one began.
`CHANGEFEED_FAILPOINT=name` kills at the first pass, `name:3` at the third, with SIGKILL: no handler and no flush, as if the
machine had failed. A test in the same process sets `on_pass` to its own function, which may raise, and sees every run.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Observer = Callable[[str, Mapping[str, Any]], None]
"""Called with the name of a place, and the facts."""

FAILPOINTS = (
    "epoch.before", "epoch.after",
    "stage.before", "stage.after",
    "letters.before", "letters.after",
    "begun.before", "begun.after",
    "fence.before", "fence.after",
    "create.before", "create.after",
    "load.before", "load.after",
    "upsert.before", "upsert.after",
    "append.before", "append.after",
    "addcolumns.before", "addcolumns.after",
    "rewrite.before", "rewrite.after",
    "copy.before", "copy.after",
    "done.before", "done.after",
    "cleanup.before", "cleanup.after",
    "pack.before", "pack.after",
    "tidy.before", "tidy.between", "tidy.after",
)  # fmt: skip
"""Every place at which something is on disk or in a table that was not before, in the order in which a run passes them."""

on_pass: Callable[[str], None] | None = None
_observers: ContextVar[tuple[Observer, ...]] = ContextVar("observers", default=())
_killing: Counter[str] = Counter()  # place -> number of passes, if a place is to be fatal


def passed(name: str, **facts: Any) -> None:
    """Calls the observers of this run: it has come to a place."""
    for observer in _observers.get():
        observer(name, facts)
    if on_pass is not None:
        on_pass(name)
    fatal = os.environ.get("CHANGEFEED_FAILPOINT")
    if fatal is not None:
        _killing[name] += 1
        place, _, times = fatal.partition(":")
        if place == name and _killing[name] == int(times or 1):
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Calls an observer for what is passed inside: in this thread, and in those that run a copy of its context."""
    before = _observers.set((*_observers.get(), observer))
    try:
        yield
    finally:
        _observers.reset(before)
