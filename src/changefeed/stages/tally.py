"""Counts the rows that a Spark job reads, where they are read.

Spark may compute a DataFrame more than once: a MERGE reads its source twice, a task that failed runs again. Each task counts
for its own partition, and the last count of a partition replaces the one before: so every row counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.accumulators import AccumulatorParam

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Counts = dict[int, int]


class _ByPartition(AccumulatorParam[_Counts]):
    def zero(self, value: _Counts) -> _Counts:
        return {}

    def addInPlace(self, value1: _Counts, value2: _Counts) -> _Counts:  # Spark's name
        return value1 | value2


class Tally:
    """A count of rows, which a stage's workers add to and the driver reads when the job is done."""

    def __init__(self, spark: SparkSession) -> None:
        self._counts = spark.sparkContext.accumulator({}, _ByPartition())

    def add(self, rows: int) -> None:
        """Notes, in a worker, how many rows its task has read in all."""
        from pyspark import TaskContext

        context = TaskContext.get()
        self._counts.add({context.partitionId() if context else 0: rows})

    def set(self, rows: int) -> None:
        """Takes a count, on the driver, that was not made by workers that have this tally."""
        self._counts.value = {0: rows}

    @property
    def rows(self) -> int:
        """The rows of all partitions, on the driver."""
        return sum(self._counts.value.values())
