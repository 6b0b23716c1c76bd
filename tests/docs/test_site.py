"""The documentation site: the repository's pages, with links that the site can follow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import changefeed
from tools import site_hooks, site_pages
from tools.screenshots import LARGEST

KNOWN = frozenset({"README.md", "docs/README.md", "docs/guides/a.md"})


def link(text: str, root: Path) -> str:
    for file in (*KNOWN, "src/a.py"):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    return site_pages.linked(text, "docs/guides/a.md", KNOWN, root)


@pytest.mark.parametrize(
    "text, on_the_site",
    [
        ("[Home](../../README.md#top)", "[Home](../../overview.md#top)"),
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


def test_pages_that_move_are_linked_to_at_their_new_place(tmp_path: Path) -> None:
    front = site_pages.linked("![x](../images/x.svg){ .wide }", "docs/site/index.md", frozenset({"docs/images/x.svg"}))
    assert front == "![x](docs/images/x.svg){ .wide }"


@pytest.mark.parametrize("address", [None, "https://git.example.org/changefeed"])
def test_the_header_links_to_the_repository_whose_address_is_set(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mkdocs.config import load_config

    monkeypatch.delenv("CHANGEFEED_REPOSITORY", raising=False)
    if address is not None:
        monkeypatch.setenv("CHANGEFEED_REPOSITORY", address)
    monkeypatch.chdir(site_pages.ROOT)
    with (site_pages.ROOT / "mkdocs.yml").open("rb") as file:
        assert load_config(file, hooks=[])["repo_url"] == address


def test_every_guide_and_reference_page_is_in_the_navigation(tmp_path: Path) -> None:
    site_pages.write(tmp_path)
    nav = site_pages.navigation((site_pages.ROOT / site_pages.CONTENTS).read_text(encoding="utf-8"))
    listed = set(_paths(nav))
    assert {page for page in listed if not (tmp_path / page).is_file()} == set()
    wanted = {p for p in site_pages.pages() if p.endswith(".md") and p.startswith(("docs/guides/", "docs/reference/"))}
    assert wanted - listed == set()


def test_the_navigation_is_the_list_of_all_pages() -> None:
    contents = (
        "# Documentation\n\n[no](a.md)\n\n## Start\n\n| page | for |\n|---|---|\n| [One](guides/a.md) | a [b](b.md) |\n"
    )
    contents += "\n## Development\n\n### Decisions\n\n1. [Two](decisions/b.md)\n"
    assert site_pages.navigation(contents) == [
        {"Home": "index.md"},
        {"Start": [{"One": "docs/guides/a.md"}]},
        {"Development": [{"Decisions": [{"Two": "docs/decisions/b.md"}]}]},
    ]


def test_public_names_are_written_out_on_the_site() -> None:
    page = (site_pages.ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
    directives = re.findall(r"(?m)^::: changefeed\.(\w+)$", site_pages.with_docstrings(page))
    assert sorted(directives) == sorted({*changefeed.__all__} - {"__version__"})


def test_the_site_has_the_version_and_the_address_of_the_repository(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/README.md").touch()
    project = '[project]\nversion = "1.2.3"\nlicense = "MIT"\n'
    (tmp_path / "pyproject.toml").write_text(f'{project}[project.urls]\nRepository = "https://example.org/c"\n')
    monkeypatch.setattr(site_hooks, "ROOT", tmp_path)
    config = site_hooks.on_config({"extra": {}, "repo_url": None})
    assert (config["copyright"], config["repo_url"]) == ("changefeed 1.2.3, MIT", "https://example.org/c")
    assert site_hooks.on_page_markdown("Version {{ version }}", config) == "Version 1.2.3"


@pytest.mark.parametrize(
    "html, shown",
    [
        ("<code>a.b</code>", "<code>a.b</code>"),
        ("<code>provide.transaction.metadata</code>", "<code>provide.<wbr>transaction.<wbr>metadata</code>"),
        ("<code>a_long_name&lt;of_something&gt;_x</code>", "<code>a_<wbr>long_<wbr>name&lt;of_<wbr>something&gt;_<wbr>x</code>"),
        ("<pre><code>provide.transaction.metadata</code></pre>", "<pre><code>provide.transaction.metadata</code></pre>"),
        (
            "<table><tr><th>a</th><th>b &amp; <em>c</em></th></tr><tr>\n<td>1</td><td class='x'>2</td></tr></table>",
            "<table><tr><th>a</th><th>b &amp; <em>c</em></th></tr><tr>\n<td data-title=\"a\">1</td>"
            "<td data-title=\"b &amp; c\" class='x'>2</td></tr></table>",
        ),
    ],
)  # fmt: skip
def test_names_break_between_words_and_cells_name_their_columns(html: str, shown: str) -> None:
    assert site_hooks.on_post_page(html) == shown


def test_pictures_are_small_and_there_is_a_light_and_a_dark_one_of_each() -> None:
    pictures = sorted((site_pages.ROOT / "docs/images").glob("*.webp"))
    assert len(pictures) >= 4
    assert [one.name for one in pictures if one.stat().st_size > LARGEST] == []
    schemes = [{"light", "dark"} & {one.stem.rpartition("-")[2]} for one in pictures]
    assert (
        sum("light" in scheme for scheme in schemes) == sum("dark" in scheme for scheme in schemes) == len(pictures) / 2
    )
    shown = (site_pages.ROOT / "docs/guides/monitoring.md").read_text(encoding="utf-8")
    assert [one.name for one in pictures if f"../images/{one.name}#gh-" not in shown] == []


def _paths(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [path for part in (nav.values() if isinstance(nav, dict) else nav) for path in _paths(part)]
