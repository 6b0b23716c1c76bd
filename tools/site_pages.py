#!/usr/bin/env python3
"""The pages of the documentation site: `site_pages.py FOLDER` copies the repository's own pages into a folder for MkDocs.

Rule 1. A page keeps its path, so that links between pages stay as they are. There are no pages of the site's own.
Rule 2. A link to a file that is not a page (code, a definition) becomes its text: the site has no copy of the file.
Rule 3. A link to a page that does not exist is an error.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("*.md", "docs/**/*.md", "docs/**/*.json", "src/changefeed/protocols/*/README.md", "bench/README.md")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def pages(root: Path = ROOT) -> Iterator[str]:
    """Yields the paths of all pages, and of the files that they offer for download."""
    for pattern in PAGES:
        for path in sorted(root.glob(pattern)):
            yield path.relative_to(root).as_posix()


def linked(text: str, page: str, known: frozenset[str], root: Path = ROOT) -> str:
    """The text of a page with those of its links that the site can follow.

    Raises:
        ValueError: a link leads to a file that does not exist.
    """

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        path = target.partition("#")[0]
        if "://" in target or target.startswith("mailto:") or not path:
            return match[0]
        goal = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if goal in known:
            return match[0]
        if (root / goal / "README.md").is_file() and f"{goal}/README.md" in known:
            return match[0].replace(path, f"{path.rstrip('/')}/README.md")
        if not (root / goal).exists():
            raise ValueError(f"{page}: the link to {target} leads nowhere")
        return words

    lines, in_code = [], False
    for line in text.splitlines(keepends=True):
        in_code ^= line.startswith("```")
        lines.append(line if in_code else _LINK.sub(link, line))
    return "".join(lines)


def write(folder: Path) -> int:
    """Writes all pages into a folder, which is emptied first; returns how many."""
    shutil.rmtree(folder, ignore_errors=True)
    known = frozenset(pages())
    for page in known:
        copy = folder / page
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / page).read_text(encoding="utf-8")
        copy.write_text(linked(text, page, known) if page.endswith(".md") else text, encoding="utf-8")
    return len(known)


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[1]))} pages in {sys.argv[1]}")
