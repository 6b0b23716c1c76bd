"""The documentation site: the repository's pages, with links that the site can follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import site_pages

KNOWN = frozenset({"README.md", "docs/README.md", "docs/guides/a.md"})


def link(text: str, root: Path) -> str:
    for file in (*KNOWN, "src/a.py"):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    return site_pages.linked(text, "docs/guides/a.md", KNOWN, root)


@pytest.mark.parametrize(
    "text, on_the_site",
    [
        ("[Home](../../README.md#top)", "[Home](../../README.md#top)"),
        ("[All](../)", "[All](../README.md)"),
        ("[a function](../../src/a.py)", "a function"),
        (
            "[Here](#there), [far away](https://example.org/a.md)",
            "[Here](#there), [far away](https://example.org/a.md)",
        ),
        ("```\n[no link](../x.md)\n```\n", "```\n[no link](../x.md)\n```\n"),
    ],
)
def test_links_lead_to_pages_of_the_site(text: str, on_the_site: str, tmp_path: Path) -> None:
    assert link(text, tmp_path) == on_the_site


def test_a_link_to_a_page_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"docs/guides/a.md: the link to b.md leads nowhere"):
        link("see [b](b.md)", tmp_path)


def test_every_guide_and_reference_page_is_in_the_navigation(tmp_path: Path) -> None:
    site_pages.write(tmp_path)
    site = yaml.safe_load((site_pages.ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = set(_paths(site["nav"]))
    assert {page for page in listed if not (tmp_path / page).is_file()} == set()
    wanted = {p for p in site_pages.pages() if p.endswith(".md") and p.startswith(("docs/guides/", "docs/reference/"))}
    assert wanted - listed == set()


def _paths(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [path for part in (nav.values() if isinstance(nav, dict) else nav) for path in _paths(part)]
