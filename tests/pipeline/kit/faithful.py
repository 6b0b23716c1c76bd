"""Tables in memory whose columns are converted by Spark: the rows of a rewrite pass through the same DataFrame as Delta's.

Without Spark, they are converted in Arrow, as Delta's native writes do it.

A table that is rewritten in the same way again, as when a history is read in other batches, is not computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.sinks.memory import MemorySink, Row, Version
from changefeed.sinks.sql import expression_sql, quoted, rewritten
from changefeed.sinks.writes import ConvertedFrom, Rewrite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Compute = Callable[[pa.Table, Rewrite, Sequence[str]], list[Row]]


class SparkCompute:
    """Computes the rows of a rewrite by Spark, and remembers the results."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._results: dict[str, list[Row]] = {}

    def __call__(self, rows: pa.Table, write: Rewrite, kept: Sequence[str]) -> list[Row]:
        """The new rows."""
        key = repr((write.table.columns, write.expressions, write.texts, rows.schema, rows.to_pylist()))
        if key not in self._results:
            from pyspark.sql.pandas.types import from_arrow_schema

            # without a schema, a wall clock would become a moment, and a row would not be found by it
            frame = self.spark.createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))
            self._results[key] = rewritten(frame, write, kept).toArrow().to_pylist()
        return [dict(row) for row in self._results[key]]

    def forget(self) -> None:
        """Forgets all results."""
        self._results.clear()


@dataclass(slots=True)
class FaithfulSink(MemorySink):
    """The sink; see the head of this file."""

    compute: Compute | None = None

    def _after(self, write: Any, before: Version, batches: Sequence[pa.RecordBatch]) -> tuple[Any, list[Row]]:
        if self.compute is None or not isinstance(write, Rewrite) or not before.rows or _copies(write):
            return MemorySink._after(self, write, before, batches)
        schema = pa.schema([pa.field(name, kind) for name, kind in before.types.items()])
        rows = pa.Table.from_pylist([dict(row) for row in before.rows], schema)
        return self._types_of(write.table), self.compute(rows, write, self.metadata_columns)


def _copies(write: Rewrite) -> bool:
    """Whether all values stay as they are."""
    columns = zip(write.table.columns, write.expressions, strict=True)
    return write.texts is None and all(
        isinstance(e, ConvertedFrom) and expression_sql(c, e) == quoted(e.column) for c, e in columns
    )
