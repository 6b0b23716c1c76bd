"""Markdown from values."""

from __future__ import annotations

from collections.abc import Iterable


def table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table; a cell is one line."""
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
