"""The choices of a table format about the data files of one table: a value that travels to the tasks which write them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.storage import Folder

RowNumbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class Floats:
    """Counts NULLs and finds the bounds of a column of floating-point numbers: a Parquet footer ignores NaN."""

    nulls: int = 0
    low: float = math.inf
    high: float = -math.inf
    has_nan: bool = False

    def add(self, column: pa.ChunkedArray) -> None:
        """Adds the values of a column."""
        self.nulls += column.null_count
        ends = pc.min_max(column).as_py()
        if ends["min"] is None:
            return
        self.low, self.high = min(self.low, ends["min"]), max(self.high, ends["max"])
        self.has_nan |= pc.any(pc.is_nan(column)).as_py()

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The smallest and the largest value; a lower bound of zero is -0.0. None with NaN, infinity, or no value."""
        if self.has_nan or not (math.isfinite(self.low) and math.isfinite(self.high)):
            return None
        return self.low or -0.0, self.high or 0.0


class Layout(Protocol):
    """The data files of one table in a table format. Picklable, and without the table's log."""

    @property
    def folder(self) -> Folder:
        """The folder of the data files."""
        ...

    @property
    def footer(self) -> Mapping[str, str]:
        """Metadata in the footer of every new data file."""
        ...

    def new_name(self, number: int) -> str:
        """Returns the name of a new file, which no other task gives; `number` counts the files of a task from 0."""
        ...

    def statistics(self, footer: Any, schema: pa.Schema, floats: Mapping[str, Floats]) -> str:
        """Returns the statistics of a new file for the commit: a text that only the format reads.

        Args:
            footer: the file's Parquet metadata.
            schema: the file's columns.
            floats: column -> statistics of its values, for columns of floating-point numbers.
        """
        ...

    def deleted(self, vector: str) -> RowNumbers:
        """Returns the numbers of a file's rows that are deleted, ascending.

        Args:
            vector: `vector` of the file in `Item.files`: where the format keeps its deletion vector.

        Raises:
            SinkError: the vector cannot be read.
        """
        ...
