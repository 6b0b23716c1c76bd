"""Runs of event pipelines that end at a place of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


class StopError(Exception):
    """Ends a run in a test."""


def stop_at(place: str, number: int) -> Callable[[str], None]:
    """A function that ends the run when it passes a place for the time of this number."""
    passes = Counter[str]()

    def look(name: str) -> None:
        passes[name] += 1
        if name == place and passes[name] == number:
            raise StopError(name)

    return look
