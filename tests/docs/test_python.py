"""The Python of the pages prints what they show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pycon import ROOT, examples, failures
from tests.example_files import copy_examples

GUIDE = "docs/guides/python.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the repository's examples in it."""
    copy_examples(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_readme_s_python(folder: Path) -> None:
    test = examples("README.md")
    assert test.examples
    assert failures(test) == ""


def test_the_guide_s_python_that_needs_no_spark(folder: Path) -> None:
    assert failures(examples(GUIDE, before="## Pipelines")) == ""


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("processes")
def test_the_guide_s_python(folder: Path) -> None:
    """Runs in a process of its own: the guide's pipeline starts Spark, and stops it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.pycon", GUIDE],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.stdout, done.returncode) == ("", 0)


def test_python_that_a_page_shows_is_run() -> None:
    """All Python of the pages about Python is run; other pages have no block that looks like it."""
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        fences = set(re.findall(r"^```(\w+)$", page.read_text(encoding="utf-8"), re.MULTILINE))
        run = page.relative_to(ROOT).as_posix() in ("README.md", GUIDE)
        assert not ({"python", "py"} if run else {"pycon"}) & fences, page.name
