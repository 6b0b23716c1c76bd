"""The console of a page: the commands of its fenced `console` blocks, and the output that it shows for them.

$ a command, as bash reads it; the current folder is the repository's; goes on in the next line behind a `\\`
a line of output
… stands for anything within a line; alone, for any number of lines
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Shown:
    """A command and the output that a page shows for it."""

    page: str
    command: str
    output: str

    def fits(self, text: str) -> bool:
        """Whether `text` equals the output that the page shows."""
        return re.fullmatch(self._pattern, text, re.DOTALL) is not None

    def within(self, text: str) -> bool:
        """Whether `text` contains the output that the page shows."""
        return re.search(self._pattern, text, re.DOTALL) is not None

    @property
    def _pattern(self) -> str:
        lines = [r"(?:[^\n]*\n)*?" if line == "…" else rf"{_line(line)}\n" for line in self.output.splitlines()]
        return "".join(lines)


def _line(text: str) -> str:
    return r"[^\n]*?".join(re.escape(part) for part in text.split("…"))


def shown(*pages: str) -> Iterator[list[Shown]]:
    """Commands and outputs of the pages, one list per block: the commands of a block belong together."""
    for page in pages:
        for block in _BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
            parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
            yield [Shown(page, *re.split(r"(?<!\\)\n", part, maxsplit=1)) for part in parts]
