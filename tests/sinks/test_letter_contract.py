"""The tables of dead letters keep the contract of `sinks.letters`: the same cases on Delta and in memory."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from changefeed.sinks.delta.letters import DeltaLetters
from changefeed.sinks.delta.stored_letters import StoredLetters
from changefeed.sinks.letters import LetterTable
from changefeed.sinks.memory.letters import MemoryLetters
from changefeed.storage.folders import folder_at
from changefeed.storage.objects import ObjectFolder
from tests.services.s3 import S3Server
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


@dataclass
class Stored:
    """The Delta table in a bucket, without Spark."""

    folder: ObjectFolder

    def table(self) -> LetterTable:
        return StoredLetters(self.folder)

    reading = table

    def frame(self, rows: pa.Table) -> Any:
        return Frame(rows)


class TestMemory(Conformance):
    @pytest.fixture
    def harness(self) -> Memory:
        return Memory()


class TestDelta(Conformance):
    @pytest.fixture
    def harness(self, spark: SparkSession, tmp_path: Path) -> Delta:
        return Delta(spark, str(tmp_path / "letters"))


class TestStored(Conformance):
    @pytest.fixture
    def harness(self, s3: S3Server) -> Stored:
        folder = folder_at(f"s3://lake/{uuid.uuid4().hex}", s3.storage())
        assert isinstance(folder, ObjectFolder)
        return Stored(folder)
