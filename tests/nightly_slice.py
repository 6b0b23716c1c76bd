"""A pytest plugin that runs a slice of the nightly tests: `-p tests.nightly_slice --slice <text> --minutes <n>`.

Rule 1. The text, such as a commit's hash, chooses one of `SLICES` slices: a few commits see all nightly tests, and a commit
always sees the same ones.
Rule 2. No test starts later than `--minutes` after the first: the others are skipped, and counted in the summary.
"""

from __future__ import annotations

import time
from zlib import crc32

import pytest

SLICES = 8
_LATE = "the minutes of this slice are over"
_started = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    parser.addoption("--slice", help="text that chooses the slice of the tests")
    parser.addoption("--minutes", type=float, default=25, help="tests that would start later are skipped")


def in_slice(test: str, text: str) -> bool:
    """Whether a test, by its node id, is in the slice that a text chooses."""
    return crc32(test.encode()) % SLICES == crc32(text.encode()) % SLICES


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the tests of the slice, in an order of their own for each text."""
    text = config.getoption("--slice")
    if text is not None:
        others = [item for item in items if not in_slice(item.nodeid, text)]
        config.hook.pytest_deselected(items=others)
        items[:] = sorted(set(items) - set(others), key=lambda item: crc32(f"{text} {item.nodeid}".encode()))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test that would start too late."""
    if time.monotonic() - _started > item.config.getoption("--minutes") * 60:
        pytest.skip(_LATE)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Shows how many tests were skipped for want of time."""
    late = sum(_LATE in str(report.longrepr) for report in terminalreporter.stats.get("skipped", []))
    terminalreporter.write_line(
        f"slice {config.getoption('--slice')}: {late} tests did not start within {config.getoption('--minutes'):g} minutes"
    )
