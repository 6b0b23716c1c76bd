"""Failpoints: places where a test ends the process, to prove that the next run finishes what this one began.

`CHANGEFEED_FAILPOINT=name` kills at the first pass, `name:3` at the third, with SIGKILL: no handler and no flush, as if the
machine had failed. A test in the same process sets `on_pass` to its own function. Otherwise a failpoint does nothing.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable

POINTS = (
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
"""Every failpoint there is, in the order in which a run passes them."""

on_pass: Callable[[str], None] | None = None
_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Marks a place where a test may end the process."""
    if on_pass is not None:
        on_pass(name)
    wanted = os.environ.get("CHANGEFEED_FAILPOINT")
    if wanted is not None:
        _passed[name] += 1
        place, _, times = wanted.partition(":")
        if place == name and _passed[name] == int(times or 1):
            os.kill(os.getpid(), signal.SIGKILL)
