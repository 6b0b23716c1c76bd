"""MkDocs' hooks for the documentation site: navigation, version, link to the repository, and where names may break.

MkDocs calls the functions by their names (`hooks` in mkdocs.yml).
"""

from __future__ import annotations

import html
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import site_pages  # noqa: E402  MkDocs loads this file by its path

_INLINE = re.compile(r"<code>([^<]{25,})</code>")  # shorter ones fit in any line
_PRE = re.compile(r"(<pre\b.*?</pre>)", re.DOTALL)
_BREAK = re.compile(r"(&\w+;)|([./=,:_])(?=[\w{$*(])")  # an entity stays whole
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_TITLE = re.compile(r"<th[^>]*>(.*?)</th>", re.DOTALL)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<td\b")


def on_config(config: Any) -> Any:
    """Sets what other files of the repository have: the navigation, the version and the address of the repository."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config["nav"] = site_pages.navigation((ROOT / site_pages.CONTENTS).read_text(encoding="utf-8"))
    config["copyright"] = f"changefeed {project['version']}, {project['license']}"
    config["extra"]["version_text"] = project["version"]
    config["repo_url"] = project.get("urls", {}).get("Repository") or config["repo_url"]
    return config


def on_page_markdown(markdown: str, config: Any, **_: Any) -> str:
    """Fills in the version."""
    return markdown.replace("{{ version }}", config["extra"]["version_text"])


def on_post_page(output: str, **_: Any) -> str:
    """Lets long names break behind dots and the like, not inside of a word, and gives table cells the titles of their columns."""
    parts = _PRE.split(output)
    text = "".join(part if part.startswith("<pre") else _INLINE.sub(_breakable, part) for part in parts)
    return _TABLE.sub(_titled, text)


def _breakable(match: re.Match[str]) -> str:
    text = _BREAK.sub(lambda place: place[1] or f"{place[2]}<wbr>", match[1])
    return f"<code>{text}</code>"


def _titled(match: re.Match[str]) -> str:
    """A table whose cells name their column, which is shown where rows are blocks."""
    titles = [html.escape(html.unescape(re.sub(r"<[^>]+>", "", title))) for title in _TITLE.findall(match[0])]

    def row(line: re.Match[str]) -> str:
        remaining = iter(titles)
        return _CELL.sub(lambda _: f'<td data-title="{title}"' if (title := next(remaining, "")) else "<td", line[0])

    return _ROW.sub(row, match[0])
