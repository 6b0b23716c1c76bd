"""The commands of the README and of how-to pages print what they show. The demo runs those that start Spark: `test_demo.py`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from tests.docs.shown import ROOT, Shown, shown
from tests.example_files import copy_examples

GUIDES = ("quickstart", "tutorial", "ticdc", "debezium", "tencent-dts", "open-to-debezium", "translate")
PAGES = ("README.md", *(f"docs/guides/{name}.md" for name in GUIDES))


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_the_page_shows(page: str, tmp_path: Path) -> None:
    copy_examples(tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    blocks = [block for block in shown(page) if not any("changefeed run" in one.command for one in block)]
    assert blocks
    for one in chain.from_iterable(blocks):
        done = subprocess.run(
            ["bash", "-c", one.command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert done.stderr == ""
        assert one.fits(done.stdout), f"shown:\n{one.output}\nprinted:\n{done.stdout}"


def test_the_readme_shows_the_pipeline_that_is_bundled() -> None:
    pipeline = (ROOT / "examples" / "shop" / "pipeline.yaml").read_text()
    assert f"```yaml\n{pipeline}```" in (ROOT / "README.md").read_text()


def test_code_of_the_readme_fits_a_page_without_scrolling() -> None:
    blocks = re.findall(r"(?ms)^```.*?^```", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert [line for block in blocks for line in block.splitlines() if len(line) > 72] == []


@pytest.mark.parametrize(
    "shown_text, printed, fits",
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n…\nc\n", "a\nb\nb\nc\n", True),
        ("a\n…\nc\n", "a\nc\n", True),
        ("took … s\n", "took 12 s\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n", "", False),
    ],
)
def test_output_that_fits_the_page(shown_text: str, printed: str, fits: bool) -> None:
    assert Shown("page", "command", shown_text).fits(printed) is fits
