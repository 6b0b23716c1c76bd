"""The dead letters of `letters.py` keep the contract of `changefeed.sinks.letters`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.sinks.letter_conformance import Conformance, Frame
from tests.toys.letters import SqliteLetters


@dataclass
class Sqlite:
    """The table in SQLite."""

    folder: Path

    def table(self) -> SqliteLetters:
        return SqliteLetters(self.folder)

    reading = table

    def frame(self, rows: pa.Table) -> Any:
        return Frame(rows)


class TestSqlite(Conformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Sqlite:
        return Sqlite(tmp_path / "letters")
