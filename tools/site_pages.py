#!/usr/bin/env python3
"""The pages of the documentation site: `site_pages.py FOLDER` copies the repository's own pages into a folder for MkDocs.

Rule 1. A page keeps its path, so that links between pages stay as they are. PLACES has the exceptions: the site begins with
        docs/site/index.md, and the README is a page after it.
Rule 2. A link to a file that is not a page (code, a definition) becomes its text: the site has no copy of the file.
Rule 3. A link to a page that does not exist is an error.
Rule 4. Public Python names, which a reference page lists in a comment `site: NAMES`, are written out from their docstrings.
Rule 5. docs/README.md is the navigation: its headings are sections, the first links of its table rows and list items are pages.
        So a new page is one row there.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CONTENTS = "docs/README.md"
PAGES = ("*.md", "docs/**/*.md", "docs/**/*.json", "src/changefeed/protocols/*/README.md", "bench/README.md",
         "docs/**/*.svg", "docs/**/*.webp", "docs/site/*.css")  # fmt: skip
PLACES: Mapping[str, str] = {"docs/site/index.md": "index.md", "README.md": "overview.md"}
_LINK = re.compile(r"(!?)\[([^\]]+)\]\(([^)\s]+)\)(\{[^}]*\})?")
_NAMES = re.compile(r"\| name \|.*?<!-- site: ([^>]+) -->\n", re.DOTALL)
_ENTRY = re.compile(r"^(#{2,3}) (.+)$|^(?:\| |\d+\. |\* )\[([^\]]+)\]\(([^)#\s]+\.md)\)", re.MULTILINE)


def pages(root: Path = ROOT) -> Iterator[str]:
    """Yields the paths of all pages, and of the files that they show or offer for download."""
    for pattern in PAGES:
        for path in sorted(root.glob(pattern)):
            yield path.relative_to(root).as_posix()


def place(page: str) -> str:
    """Returns the path of a page of the repository on the site."""
    return PLACES.get(page, page)


def linked(text: str, page: str, known: frozenset[str], root: Path = ROOT) -> str:
    """Returns the text of a page with those of its links that the site can follow.

    Raises:
        ValueError: a link leads to a file that does not exist.
    """

    def link(match: re.Match[str]) -> str:
        image, words, target, attributes = match.groups()
        path, hash, heading = target.partition("#")
        if "://" in target or target.startswith("mailto:") or not path:
            return match[0]
        goal = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if goal not in known and f"{goal}/README.md" in known:
            goal += "/README.md"
        if goal in known:
            to = posixpath.relpath(place(goal), posixpath.dirname(place(page)) or ".")
            return f"{image}[{words}]({to}{hash}{heading}){attributes or ''}"
        if not (root / goal).exists():
            raise ValueError(f"{page}: the link to {target} leads nowhere")
        return words

    lines, in_code = [], False
    for line in text.splitlines(keepends=True):
        in_code ^= line.startswith("```")
        lines.append(line if in_code else _LINK.sub(link, line))
    return "".join(lines)


def with_docstrings(text: str) -> str:
    """Returns the text of a page with the directives of mkdocstrings in place of its tables of public names."""
    return _NAMES.sub(lambda match: "".join(f"::: {name}\n\n" for name in match[1].split()), text)


def navigation(contents: str) -> list[dict[str, Any]]:
    """Returns the navigation of MkDocs.

    Args:
        contents: the text of docs/README.md.
    """
    sections: list[dict[str, Any]] = [{"Home": "index.md"}]
    current: list[Any] = []
    for match in _ENTRY.finditer(contents):
        level, heading, title, path = match.groups()
        if path:
            current.append({title: place(posixpath.normpath(posixpath.join(posixpath.dirname(CONTENTS), path)))})
        elif level == "##":
            current = []
            sections.append({heading: current})
        else:
            parent = next(iter(sections[-1].values()))
            current = []
            parent.append({heading: current})
    return sections


def write(folder: Path) -> int:
    """Writes all pages into a folder, which is emptied first; returns how many."""
    shutil.rmtree(folder, ignore_errors=True)
    known = frozenset(pages())
    for page in known:
        copy = folder / place(page)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if page.endswith(".md"):
            text = (ROOT / page).read_text(encoding="utf-8")
            copy.write_text(with_docstrings(linked(text, page, known)), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / page, copy)
    return len(known)


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[1]))} pages in {sys.argv[1]}")
