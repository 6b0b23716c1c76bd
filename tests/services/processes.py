"""Processes of their own: free ports, the last lines of logs, reported errors, and the end."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from typing import Any


def free_ports(count: int) -> list[int]:
    """Ports that no process listens on; all are held until all are chosen, so that no two are the same."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def tail(log: str, lines: int = 20) -> str:
    """The last lines of a log."""
    return "\n".join(log.splitlines()[-lines:])


def reported_error(stderr: str) -> dict[str, Any]:
    """The error that a command of `changefeed … --json` reported; Spark's JVM, a process of its own, may write behind it."""
    [line] = [line for line in stderr.splitlines() if line.startswith('{"error"')]
    error: dict[str, Any] = json.loads(line)["error"]
    return error


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a process by SIGTERM, and after 20 s by SIGKILL."""
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
