"""Counts the rows that a Spark job reads, in its workers.

Spark may compute a DataFrame more than once: a MERGE reads its source twice, and a failed task runs again. Each task
reports the count of its own partition, and a later count of a partition replaces the earlier one: every row counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Counts = dict[int, int]


class _ByPartition:
    """Pyspark's `AccumulatorParam` for counts by partition, without an import of pyspark."""

    def zero(self, value: _Counts) -> _Counts:
        return {}

    def addInPlace(self, value1: _Counts, value2: _Counts) -> _Counts:  # Spark's name
        return value1 | value2


class Tally:
    """A count of rows: a stage's workers add to it, and the driver reads it after the job."""

    def __init__(self, spark: SparkSession) -> None:
        by_partition: Any = _ByPartition()
        self._counts: Any = spark.sparkContext.accumulator({}, by_partition)

    def add(self, rows: int) -> None:
        """Reports, in a worker, the total number of rows that its task has read."""
        from pyspark import TaskContext

        context = TaskContext.get()
        self._counts.add({context.partitionId() if context else 0: rows})

    @property
    def rows(self) -> int:
        """The number of rows in all partitions; only on the driver."""
        counts: _Counts = self._counts.value
        return sum(counts.values())
