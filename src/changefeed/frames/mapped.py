"""Rows that a function makes of other rows in Spark's Python workers, and that nobody has asked for yet.

As a DataFrame, they would be sent to the JVM by the worker that makes them, and back to the worker of the next function. Until
then a further function can be added to the first (`then`), and both run in one worker, batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from changefeed.frames.slices import Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Mapped:
    """A DataFrame, and the function that makes other rows of it.

    Attributes:
        rows: what the function reads.
        function: batches of `rows` -> batches of the new rows; it is pickled for the workers.
    """

    rows: DataFrame
    function: Work

    def then(self, function: Work) -> Mapped:
        """The rows that a function makes of these, in the same worker."""
        first = self.function

        def both(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return function(first(batches))

        return Mapped(self.rows, both)

    def frame(self, schema: str) -> DataFrame:
        """The new rows as a DataFrame; `schema` is their DDL."""
        return self.rows.mapInArrow(self.function, schema)


def as_frame(rows: DataFrame | Mapped, schema: str) -> DataFrame:
    """The rows as a DataFrame; `schema` is the DDL of those that a function makes."""
    return rows.frame(schema) if isinstance(rows, Mapped) else rows
