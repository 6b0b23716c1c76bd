"""The built site in a browser: no page is wider than its window, no name breaks inside a word, tables can be read on a phone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.docs.shown import ROOT
from tests.services.chromium import Chromium
from tools import site_pages

pytestmark = pytest.mark.nightly

WIDTHS = (390, 768, 1400)
_ADD_STYLE = "document.head.appendChild(document.createElement('style')).textContent = "
# Characters of a name that are in different lines, though neither is where a name may break.
_BROKEN = r"""
[...document.querySelectorAll("article code")].filter((code) => !code.closest("pre") &&
    code.getClientRects().length > 1).flatMap((code) => {
  const broken = [], range = document.createRange();
  const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    let last = null;
    for (let at = 0; at < node.length; at++) {
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      const box = range.getBoundingClientRect(), pair = node.data.slice(at - 1, at + 1);
      if (last !== null && box.top > last + 3 && /^[A-Za-z0-9]{2}$/.test(pair)) broken.push(code.textContent);
      last = box.top;
    }
  }
  return broken;
})
"""
_CUT_CODE = """
[...document.querySelectorAll("article pre > code")].filter((code) => code.scrollWidth > code.clientWidth + 1)
  .map((code) => code.textContent.split("\\n").reduce((a, b) => a.length > b.length ? a : b))
"""
_NARROW_CELLS = """
[...document.querySelectorAll("article table:not([class]) td")].filter((cell) =>
    cell.textContent.length > 40 && cell.clientWidth < 200).map((cell) => cell.textContent)
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, built into a temporary folder."""
    folder = tmp_path_factory.mktemp("site")
    site_pages.write(folder / "pages")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name, place in (("docs_dir: build/site-pages", "pages"), ("site_dir: build/site", "built")):
        assert name in config
        config = config.replace(name, f"{name.partition(':')[0]}: {folder / place}")
    config = config.replace("hooks: [", f"hooks: [{ROOT}/").replace("paths: [src]", f"paths: [{ROOT / 'src'}]")
    (folder / "mkdocs.yml").write_text(config, encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(folder / "mkdocs.yml")]
    subprocess.run(command, check=True, timeout=300, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder / "built")))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as opened:
        yield opened


def shown_pages() -> Iterator[str]:
    """Yields the paths of all pages of the site."""
    for page in site_pages.pages():
        if page.endswith(".md"):
            yield site_pages.place(page).replace("README.md", "index.html").replace(".md", ".html")


def test_pages_fit_their_window_and_names_stay_whole(browser: Chromium, site: str) -> None:
    problems: list[tuple[object, ...]] = []
    for page in shown_pages():
        browser.open(f"{site}/{page}", WIDTHS[0])
        browser.value(
            f"{_ADD_STYLE}'* {{ transition: none !important }}'"
        )  # the menu would still move after a change of width
        for width in WIDTHS:
            browser.resize(width)
            if (shown := browser.value("document.documentElement.scrollWidth")) > width:
                problems.append((page, width, f"is {shown} wide"))
            questions = {390: {"cells": _NARROW_CELLS}, 1400: {"cut": _CUT_CODE}}.get(width, {}) | {"broken": _BROKEN}
            problems += [(page, width, kind, texts) for kind, of in questions.items() if (texts := browser.value(of))]
    assert problems == []
    assert browser.errors == []


def test_the_measurements_find_what_they_look_for(browser: Chromium, site: str) -> None:
    for style, question in (
        ("article td, article td code { width: 4rem !important; word-break: break-all !important }", _BROKEN),
        ("article td { width: 4rem !important }", _NARROW_CELLS),
        ("article pre > code { white-space: pre !important; max-width: 9rem; overflow: auto }", _CUT_CODE),
    ):
        browser.open(f"{site}/docs/guides/debezium.html", WIDTHS[-1])
        before = browser.value(question)
        browser.value(f"{_ADD_STYLE}'{style}'")
        assert len(browser.value(question)) > len(before), style


def test_the_front_page_has_what_a_visitor_looks_for(browser: Chromium, site: str) -> None:
    browser.open(f"{site}/index.html", 1400)
    assert browser.value("document.querySelector('.hero .version').textContent").startswith("Version ")
    assert browser.value("document.querySelector('.md-logo img').naturalWidth") > 0
    assert (
        browser.value("[...document.images].filter((one) => !one.alt || !one.naturalWidth).map((one) => one.src)") == []
    )
    tabs = browser.value("[...document.querySelectorAll('.md-tabs__link')].map((one) => one.textContent.trim())")
    assert tabs == [next(iter(part)) for part in site_pages.navigation((ROOT / site_pages.CONTENTS).read_text())]


def test_the_site_asks_no_other_host(browser: Chromium, site: str) -> None:
    browser.open(f"{site}/index.html", 1400)
    loaded = browser.value("performance.getEntriesByType('resource').map((one) => one.name)")
    assert [address for address in loaded if not address.startswith(site)] == []
