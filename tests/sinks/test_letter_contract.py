"""The tables of dead letters keep the contract of `sinks.letters`: the same cases on Delta and in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from changefeed.sinks.delta.letters import DeltaLetters
from changefeed.sinks.letters import LetterTable
from changefeed.sinks.memory.letters import MemoryLetters
from tests.sinks.letter_conformance import Conformance, Frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Memory:
    """The table in memory."""

    letters: dict[Any, dict[str, Any]] = field(default_factory=dict)

    def table(self) -> LetterTable:
        return MemoryLetters(self.letters)

    reading = table

    def frame(self, rows: pa.Table) -> Any:
        return Frame(rows)


@dataclass
class Delta:
    """The Delta table."""

    spark: SparkSession
    path: str

    def table(self) -> LetterTable:
        return DeltaLetters(self.path, self.spark)

    def reading(self) -> LetterTable:
        return DeltaLetters(self.path)

    def frame(self, rows: pa.Table) -> Any:
        return self.spark.createDataFrame(rows)


class TestMemory(Conformance):
    @pytest.fixture
    def harness(self) -> Memory:
        return Memory()


class TestDelta(Conformance):
    @pytest.fixture
    def harness(self, spark: SparkSession, tmp_path: Path) -> Delta:
        return Delta(spark, str(tmp_path / "letters"))
