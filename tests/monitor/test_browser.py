"""The page in a browser: served by the command, at several widths, light and dark, by keyboard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.monitor import pipelines
from tests.monitor.pipelines import HOSTILE
from tests.services.chromium import Chromium
from tests.services.processes import stop

pytestmark = pytest.mark.nightly

PAGES = ("", "?before=101", "/tables", f"/table?name={quote('shop.' + HOSTILE)}", f"/row?name={quote('shop.' + HOSTILE)}",
         "/letters", "/letter?position=orders:0:5", "/definition", "/table?name=none")  # fmt: skip
_CONTRAST = """
(() => {
  const light = (text) => {
    const parts = text.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
      .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const back = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = getComputedStyle(one).backgroundColor;
      if (!color.endsWith(", 0)")) return color;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("body *")].filter((one) => [...one.childNodes].some((node) =>
      node.nodeType === 3 && node.data.trim()) && !one.closest("svg")).map((one) => {
    const [a, b] = [light(getComputedStyle(one).color), light(back(one))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), one.outerHTML.slice(0, 80)];
  }).filter(([ratio]) => ratio < 4.5);
})()
"""


@pytest.fixture(scope="module")
def url(lake: Path) -> Iterator[str]:
    """The address of `changefeed monitor`."""
    command = [sys.executable, "-m", "changefeed", "monitor", str(lake), "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        started = json.loads(process.stdout.readline())
        assert started["pipelines"] == 4
        yield started["url"]
    finally:
        stop(process)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture(scope="module")
def own(url: str) -> str:
    """The address of a pipeline."""
    with urllib.request.urlopen(f"{url}overview.json") as answer:
        shown = json.load(answer)["pipelines"]
    return f"{url}pipelines/{next(one['id'] for one in shown if one['name'] == 'orders')}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as opened:
        yield opened


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1600])
def test_no_page_is_wider_than_its_window_and_every_text_can_be_read(
    browser: Chromium, url: str, own: str, width: int, dark: bool, tmp_path: Path
) -> None:
    browser.errors.clear()
    for number, page in enumerate([url, *(own + path for path in PAGES)]):
        browser.open(page, width, dark=dark)
        browser.screenshot(tmp_path / f"{number}.png")
        assert browser.value("document.documentElement.scrollWidth") <= width, page
        assert browser.value(_CONTRAST) == [], page
        assert (tmp_path / f"{number}.png").stat().st_size > 5_000
    assert [text for text in browser.errors if "404" not in text] == []
    kept = os.environ.get("CHANGEFEED_SCREENSHOTS")  # pictures for the documentation
    if kept and not dark:
        for number, name in enumerate(["overview", "pipeline"]):
            (tmp_path / f"{number}.png").rename(Path(kept, f"monitor-{name}-{width}.png"))


def test_a_script_in_a_name_does_not_run(browser: Chromium, own: str) -> None:
    browser.open(f"{own}/table?name={quote('shop.' + HOSTILE)}", 1600)
    assert browser.value("document.querySelector('h1').textContent") == f"shop.{HOSTILE}"
    assert browser.value("document.scripts.length") == 1


def test_the_first_key_skips_to_the_content_and_every_focus_is_seen(browser: Chromium, url: str) -> None:
    browser.open(url, 1600)
    browser.press("Tab")
    assert browser.value("document.activeElement.textContent") == "Skip to the content"
    assert browser.value("document.activeElement.getBoundingClientRect().left") >= 0
    browser.press("Enter")
    assert browser.value("document.activeElement.id") == "main"
    seen = set()
    for _ in range(6):
        browser.press("Tab")
        seen.add(browser.value("document.activeElement.textContent.trim()"))
        assert browser.value("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2
    assert "orders" in seen


def test_the_page_refreshes_itself_and_can_be_paused(browser: Chromium, url: str, own: str, lake: Path) -> None:
    browser.open(url, 1600)
    assert browser.value("document.querySelector('header button').textContent") == "Refresh: on"
    before = browser.value("document.querySelector('.summary time').dateTime")
    wait = "new Promise((done) => setTimeout(done, 6500))"
    browser.value(wait)
    after = browser.value("document.querySelector('.summary time').dateTime")
    assert after > before
    browser.value("document.querySelector('header button').click()")
    browser.value(wait)
    assert browser.value("document.querySelector('.summary time').dateTime") == after
    pipelines.beat(lake / "orders", "orders")
