"""The sink of `lake.py` keeps the contract of `changefeed.sinks.base`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.sinks.conformance import Conformance
from tests.sinks.contract import Row
from tests.toys.lake import LakeSink


@dataclass
class Lake:
    """A folder."""

    root: Path

    def sink(self, owner: str = "changefeed:test:1", metadata: Sequence[str] = ()) -> LakeSink:
        return LakeSink(self.root, tuple(metadata), owner)

    def rows(self, path: str, version: int | None = None) -> list[Row]:
        sink, newest = self.sink(), self.sink().snapshot(path)
        assert newest is not None
        return sink.rows(path, sink.read(path, newest.revision if version is None else version))


class TestLake(Conformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Lake:
        return Lake(tmp_path / "lake")
