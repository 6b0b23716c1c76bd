"""The source of `lines.py` keeps the contract of `changefeed.sources`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from changefeed.sources import Source
from changefeed.sources.decoded import DecodedSource
from tests.sources.conformance import Conformance, Row
from tests.toys.lines import LinesFolder, LinesSource
from tests.toys.writing import write


@dataclass
class Lines:
    """A folder."""

    folder: Path

    def arrive(self, records: list[Row]) -> None:
        write(self.folder, records)

    def source(self, limit: int = 100_000) -> Source:
        return DecodedSource(LinesSource(LinesFolder(self.folder), limit), "ticdc-open", {})


class TestLines(Conformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Lines:
        return Lines(tmp_path / "lines")
