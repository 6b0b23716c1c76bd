"""The Python of a page: its fenced `pycon` blocks, with their output."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```pycon\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples(page: str, *, before: str | None = None) -> doctest.DocTest:
    """All blocks of a page as one test, or those above the heading `before`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if before is not None:
        text, heading, _ = text.partition(f"\n{before}\n")
        assert heading, f"{page} has the heading {before}"
    blocks = "\n".join(_BLOCK.findall(text))
    return doctest.DocTestParser().get_doctest(blocks, {}, page, page, 0)


def failures(test: doctest.DocTest) -> str:
    """The differences from the page; empty if there are none."""
    printed: list[str] = []
    doctest.DocTestRunner(optionflags=_FLAGS).run(test, out=printed.append)
    return "".join(printed)


def main(page: str) -> None:
    """Prints the differences from the page, in a process of its own."""
    print(failures(examples(page)), end="")


if __name__ == "__main__":
    import sys

    main(sys.argv[1])
