"""A DataFrame with a Python function that was not applied yet.

`DataFrame.mapInArrow` sends the function's result to the JVM, and the next `mapInArrow` sends it to another worker. Functions
that are added with `then` run one after the other in the same worker instead, batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What runs in Spark's Python workers.
Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Mapped:
    """A DataFrame, and a function that workers will apply to it.

    Attributes:
        rows: the input of the function.
        function: converts Arrow batches of `rows` to batches of the result; it is pickled for the workers.
    """

    rows: DataFrame
    function: Work

    def then(self, function: Work) -> Mapped:
        """Adds a function that converts the result further, in the same worker."""
        first = self.function

        def both(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return function(first(batches))

        return Mapped(self.rows, both)

    def frame(self, schema: str) -> DataFrame:
        """Returns the result as a DataFrame; `schema` is its DDL."""
        return self.rows.mapInArrow(self.function, schema)


def as_frame(rows: DataFrame | Mapped, schema: str) -> DataFrame:
    """Returns the rows as a DataFrame; `schema` is the DDL of the result of a `Mapped`."""
    return rows.frame(schema) if isinstance(rows, Mapped) else rows
