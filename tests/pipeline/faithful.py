"""Tables in memory whose columns are converted as Spark converts them: the SQL of a rewrite is computed by Spark itself.

`sinks.memory` implements a few conversions in Python. This sink has the conversions of Delta's tables (`SparkTypes`) and
passes the rows of a rewrite through the same SQL. A table that is rewritten in the same way again, as when a history is
read in other batches, is not computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.frames.types import sink_type
from changefeed.model.definition import Table
from changefeed.sinks.base import METADATA, Rewrite
from changefeed.sinks.memory import MemorySink, Row, Version
from changefeed.sinks.sql import SparkTypes, quoted, rewrite_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Compute = Callable[[pa.Table, list[str]], list[Row]]


class SparkCompute:
    """Computes the columns of a SELECT over rows by Spark, and remembers the results."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._results: dict[str, list[Row]] = {}

    def __call__(self, rows: pa.Table, columns: list[str]) -> list[Row]:
        """The new rows."""
        key = repr((columns, rows.schema, rows.to_pylist()))
        if key not in self._results:
            frame = self.spark.createDataFrame(rows).selectExpr(*columns)
            self._results[key] = frame.toArrow().to_pylist()
        return [dict(row) for row in self._results[key]]

    def forget(self) -> None:
        """Forgets all results."""
        self._results.clear()


@dataclass(slots=True)
class FaithfulSink(MemorySink):
    """The sink; see the head of this file."""

    types: SparkTypes = field(default_factory=SparkTypes)  # type: ignore[assignment]
    compute: Compute | None = None

    def _after(
        self, write: Any, before: Version, batches: list[pa.RecordBatch]
    ) -> tuple[Any, list[Row]]:
        if not isinstance(write, Rewrite) or not before.rows:
            return MemorySink._after(self, write, before, batches)
        types = self._types_of(write.table)
        columns = rewrite_sql(write, self.metadata_columns)
        if all(_is_name(column) for column in columns):
            names = [_is_name(column) for column in columns]
            return types, [dict(zip(types, (row[str(name)] for name in names), strict=True)) for row in before.rows]
        assert self.compute is not None
        schema = pa.schema([pa.field(name, kind) for name, kind in before.types.items()])
        rows = pa.Table.from_pylist([dict(row) for row in before.rows], schema)
        return types, self.compute(rows, columns)


def _is_name(column: str) -> str | None:
    """The column of the old table, if an expression of a SELECT is just that."""
    source, _, _ = column.rpartition(" AS ")
    inner = source[1:-1]
    if source[:1] == source[-1:] == "`" and "`" not in inner.replace("``", ""):
        return inner.replace("``", "`")
    return None


def types_of(table: Table) -> dict[str, pa.DataType]:
    """The sink's types of a table's columns."""
    return {column.name: sink_type(column.type).arrow for column in table.columns}


__all__ = ["METADATA", "FaithfulSink", "SparkCompute", "quoted", "types_of"]
