"""The fenced blocks of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path


def blocks(page: Path, language: str) -> Iterator[str]:
    """The fenced blocks of a page in a language."""
    yield from re.findall(rf"(?ms)^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"))
