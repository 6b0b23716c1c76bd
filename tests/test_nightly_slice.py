"""Slices of the nightly tests: each test is in one, and all are chosen by some commits."""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha1
from pathlib import Path

import pytest

from tests.nightly_slice import SLICES, in_slice

ROOT = Path(__file__).parents[1]
TESTS = "\n".join(f"def test_{n}(): assert {n} != 7" for n in range(40))


def test_a_few_commits_see_every_test() -> None:
    commits = [sha1(str(n).encode()).hexdigest() for n in range(8 * SLICES)]
    for test in (f"tests/test_a.py::test_{n}" for n in range(100)):
        seen = [commit for commit in commits if in_slice(test, commit)]
        assert 0 < len(seen) < len(commits) / 2


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_some.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.nightly_slice",
        "-c",
        "/dev/null",
        f"--rootdir={folder}",
        *args,
    ]
    return subprocess.run([*command, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.heavy
@pytest.mark.slow
def test_a_slice_fails_if_one_of_its_tests_does_and_ends_in_time(tmp_path: Path) -> None:
    with_it = next(text for text in map(str, range(1000)) if in_slice("test_some.py::test_7", text))
    without = next(text for text in map(str, range(1000)) if not in_slice("test_some.py::test_7", text))
    assert [run(tmp_path, "--slice", text).returncode for text in (with_it, without)] == [1, 0]
    late = run(tmp_path, "--slice", with_it, "--minutes", "0")
    assert late.returncode == 0
    assert "tests did not start within 0 minutes" in late.stdout
    assert " passed" not in late.stdout
