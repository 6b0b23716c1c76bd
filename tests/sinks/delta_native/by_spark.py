"""The steps of a history, written by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from changefeed.sinks.writes import WriteId
from changefeed.stages.changes import Window, changes
from changefeed.stages.latest import latest
from tests.sinks.delta_native.by_sink import SinkWriter
from tests.sinks.delta_native.histories import History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class BySpark:
    """The same steps through Spark."""

    def __init__(self, spark: SparkSession, history: History) -> None:
        self.spark, self.table, self.partial = spark, history.table, history.partial
        self.writer = SinkWriter(spark, "test")

    def latest(self, chunks: pa.RecordBatch) -> DataFrame:
        frame = self.spark.createDataFrame(pa.Table.from_batches([chunks]))
        return latest(changes(frame, self.table, Window(), "keep"), self.table, partial=self.partial)

    def load(self, path: Path, chunks: pa.RecordBatch, step: int) -> None:
        self.writer.load(str(path), self.table, self.latest(chunks), WriteId(1, step, 1), "{}")

    def merge(self, path: Path, chunks: pa.RecordBatch, step: int) -> None:
        self.writer.merge(str(path), self.table, self.latest(chunks), WriteId(1, step, 1), "{}", partial=self.partial)
