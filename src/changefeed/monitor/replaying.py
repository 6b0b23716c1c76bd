"""Replays dead letters as `changefeed dlq replay` does, in a process of its own: its session of Spark ends with it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from changefeed.redaction import redact

_MOST = 20_000  # characters of the output that are shown
_one_at_once = threading.Lock()


def replay(definition: Path, position: str | None) -> tuple[int, str]:
    """Replays dead letters of a pipeline, and waits until that is done; one replay at a time.

    Args:
        definition: the file of the definition.
        position: the dead letter; None for all.

    Returns:
        The exit code, and what the command has printed, without secrets.
    """
    chosen = [] if position is None else [f"--position={position}"]
    command = [sys.executable, "-m", "changefeed.cli", "dlq", "replay", *chosen, "--", str(definition)]
    with _one_at_once:
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return ran.returncode, redact(ran.stdout.decode("utf-8", "replace"))[-_MOST:]
