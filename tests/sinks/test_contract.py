"""The table sinks keep the contract of `sinks.base`: the same cases on Delta and in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from changefeed.model.types import ColumnType
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.base import TableSink, TypeMap
from changefeed.sinks.delta.sink import DeltaTables
from changefeed.sinks.memory import Lake, MemorySink
from changefeed.sinks.sql import SparkTypes
from tests.examples import by_turns
from tests.sinks.conformance import Conformance
from tests.sinks.contract import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Memory:
    """The sink in memory."""

    lake: Lake

    def sink(self, owner: str = "changefeed:test:1", metadata: Sequence[str] = ()) -> TableSink:
        return MemorySink(self.lake, tuple(metadata), owner)

    def rows(self, path: str, version: int | None = None) -> list[Row]:
        return self.lake.rows(path, -1 if version is None else version)


@dataclass
class Delta:
    """The sink of Delta tables."""

    spark: SparkSession
    root: str
    native: bool
    merges_on_read: bool = False

    def sink(self, owner: str = "changefeed:test:1", metadata: Sequence[str] = ()) -> TableSink:
        return DeltaTables(
            self.root,
            tuple(metadata),
            self.spark,
            owner,
            self.native,
            self.merges_on_read,
            limits=Limits(least_marked=0),
        )

    def rows(self, path: str, version: int | None = None) -> list[Row]:
        table = DeltaTable(f"{self.root}/{path}", version=version)
        read = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())
        return [
            {n: dict(v) if pa.types.is_map(read.schema.field(n).type) else v for n, v in row.items()}
            for row in read.to_pylist()
        ]


def test_conversions_of_sinks_with_sparks_types() -> None:
    types: TypeMap = SparkTypes()
    assert types.conversion(ColumnType("int"), ColumnType("bigint")) == "rewrite"
    assert types.conversion(ColumnType("mediumint"), ColumnType("int")) == "none"
    assert types.conversion(ColumnType("varchar"), ColumnType("int")) is None
    assert types.conversion(ColumnType("date"), ColumnType("varchar"), widening=True) == "rewrite"


class TestMemory(Conformance):
    @pytest.fixture
    def harness(self) -> Memory:
        return Memory(Lake())


# SQL writes a table that merges on read as it writes any other: Delta makes the deletion vectors.
WAYS = ["native", *by_turns(["sql", "native-mor"], 2), pytest.param("sql-mor", marks=pytest.mark.nightly)]


class TestDelta(Conformance):
    @pytest.fixture(params=WAYS)
    def harness(self, request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Delta:
        return Delta(spark, str(tmp_path / "lake"), "native" in request.param, "mor" in request.param)
