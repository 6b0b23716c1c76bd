"""Serving the page."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from changefeed.monitor.serving import Address, serve
from tests.monitor import pipelines


class _ReportedError(Exception):
    """Ends the server from inside the report of its address."""


def test_the_address_is_reported_when_requests_are_answered(tmp_path: Path) -> None:
    pipelines.write(tmp_path, "p", 2)
    reported: list[tuple[str, int]] = []

    def started(url: str, count: int) -> None:
        assert asyncio.get_running_loop().is_running()  # before the server runs there is no loop
        reported.append((url, count))
        raise _ReportedError

    with pytest.raises(_ReportedError):
        serve([str(tmp_path)], Address(port=0), started)
    ((url, count),) = reported
    assert url.startswith("http://127.0.0.1:")
    assert not url.endswith(":0/")
    assert count == 1
