"""The same writes as the Delta sink makes them through Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.model.definition import Table
from changefeed.sinks.base import TableSnapshot, WriteRequest, write_alone
from changefeed.sinks.delta.sink import DeltaTables
from changefeed.sinks.writes import METADATA_COLUMNS, Create, Load, Touch, Upsert, WriteId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class _Given:
    """Changes that are a DataFrame already; see `sinks.base.Changes`."""

    changes: DataFrame
    partial: bool = False
    rows: int = 0
    least: int = 0
    read: int = 0

    @property
    def chunked(self) -> None:
        return None

    def frame(self, spark: SparkSession) -> DataFrame:
        return self.changes

    def batches(self) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class SinkWriter:
    """Writes tables by their whole paths, in SQL."""

    def __init__(self, spark: SparkSession, owner: str, columns: Sequence[str] = METADATA_COLUMNS) -> None:
        self.spark, self.owner, self.columns = spark, owner, tuple(columns)

    def create(self, path: str, table: Table, write_id: WriteId, note: str) -> None:
        self._apply(Create, path, table, None, write_id, note)

    def load(self, path: str, table: Table, changes: DataFrame, write_id: WriteId, note: str) -> None:
        self._apply(Load, path, table, _Given(changes), write_id, note)

    def merge(
        self, path: str, table: Table, changes: DataFrame, write_id: WriteId, note: str, *, partial: bool
    ) -> None:
        self._apply(Upsert, path, table, _Given(changes, partial), write_id, note)

    def touch(self, path: str, table: Table, write_id: WriteId, note: str) -> None:
        self._apply(Touch, path, table, None, write_id, note)

    def state(self, path: str) -> TableSnapshot | None:
        sink, name = self._sink(path)
        return sink.snapshot(name)

    def missing_files(self, path: str, version: int) -> list[str]:
        sink, name = self._sink(path)
        return sink.damaged_files(name, version)

    def _apply(self, kind: Any, path: str, table: Table, changes: Any, write_id: WriteId, note: str) -> None:
        sink, name = self._sink(path)
        write = kind(path=name, number=write_id.number, table=table)
        write_alone(sink, WriteRequest(write, changes, write_id, note))

    def _sink(self, path: str) -> tuple[DeltaTables, str]:
        whole = Path(path)
        return DeltaTables(str(whole.parent), self.columns, self.spark, self.owner, native=False), whole.name
