"""Java errors that arrive through py4j."""

from __future__ import annotations

from typing import Any


def first_line(error: Any) -> str:
    """The first line of the innermost cause's message."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    message = str(cause.getMessage() or cause.getClass().getSimpleName())
    return message.splitlines()[0] if message else str(cause.getClass().getSimpleName())
