"""Failpoints: places where a test kills the process to prove that the next run finishes what this one began.

`CHANGEFEED_FAILPOINT=name` kills at the first pass, `name:3` at the third. Killing is `SIGKILL`: no handler, no flush,
as when the machine goes. `CHANGEFEED_FAILPOINT_FILE` collects the names that were passed, so that a test can prove it
has tried them all. Without either variable a failpoint costs one dictionary look-up.
"""

from __future__ import annotations

import os
import signal

_passed: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Marks a place; kills the process when the environment says so."""
    wanted = os.environ.get("CHANGEFEED_FAILPOINT")
    seen = os.environ.get("CHANGEFEED_FAILPOINT_FILE")
    if wanted is None and seen is None:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if seen is not None:
        with open(seen, "a") as file:
            file.write(name + "\n")
    if wanted is not None:
        place, _, times = wanted.partition(":")
        if place == name and _passed[name] == int(times or 1):
            os.kill(os.getpid(), signal.SIGKILL)
