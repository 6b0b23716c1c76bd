"""The choices of a table format about the data files of one table: a value that travels to the tasks which write them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.storage import Folder

RowNumbers = npt.NDArray[np.int64]
KeyFilter = Callable[[Mapping[str, Any]], npt.NDArray[np.bool_] | None]


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
    def kept(self) -> tuple[str, ...]:
        """The columns of data files that a row keeps when it is updated, besides those that a change does not carry."""
        ...

    @property
    def footer(self) -> Mapping[str, str]:
        """Metadata in the footer of every new data file."""
        ...

    def stored(self, schema: pa.Schema) -> pa.Schema:
        """Returns the columns of a table that its data files have; the values of others are in the log."""
        ...

    def new_path(self, number: int, partition: str) -> str:
        """Returns the path of a new file, which no other task gives.

        Args:
            number: counts the files of a task from 0.
            partition: the partition of the file's rows, see `divided`.
        """
        ...

    def file_name(self, path: str) -> str:
        """Returns the name in `folder` of a file, by its path in the log."""
        ...

    def divided(self, rows: pa.RecordBatch) -> Iterable[tuple[str, pa.RecordBatch]]:
        """Divides rows by the partitions whose files they go to.

        Returns:
            For each partition that rows belong to: its values, as a text that only the format reads, and the rows, in order,
            with the columns that files have. One pair for a table without partitions.

        Raises:
            SinkError: the format cannot keep a value of a partition.
        """
        ...

    def ordered(self, rows: pa.Table) -> pa.Table:
        """Returns the rows of a row group in the order in which they are written."""
        ...

    def key_filter(self, names: Sequence[str], keys: Sequence[pa.ChunkedArray]) -> KeyFilter:
        """Returns a function: a file of `Item.files` -> whether its partition can contain each key; None if any key may be there.

        Args:
            names: names of the key's columns.
            keys: their values.
        """
        ...

    def statistics(self, footer: Any, schema: pa.Schema, floats: Mapping[str, Floats], partition: str) -> str:
        """Returns the statistics of a new file for the commit: a text that only the format reads.

        Args:
            footer: the file's Parquet metadata.
            schema: the file's columns.
            floats: column -> statistics of its values, for columns of floating-point numbers.
            partition: the partition of the file's rows, see `divided`.
        """
        ...

    def constants(self, file: Mapping[str, Any]) -> Mapping[str, pa.Scalar]:
        """Returns the values that all rows of a file have, by its entry in the log: column -> value.

        Args:
            file: the file's row in `Item.files`.

        Raises:
            SinkError: the entry cannot be read.
        """
        ...

    def completed(self, rows: pa.RecordBatch, start: int, file: Mapping[str, Any]) -> pa.RecordBatch:
        """Fills values that a file leaves out because its entry in the log implies them.

        Args:
            rows: rows of the file, with all or some columns of the table.
            start: row number of the first.
            file: the file's row in `Item.files`.
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


class WholeFiles:
    """The part of a `Layout` about partitions and order, for tables without; their files have all values of their rows."""

    __slots__ = ()

    @property
    def kept(self) -> tuple[str, ...]:
        """See `Layout`."""
        return ()

    def stored(self, schema: pa.Schema) -> pa.Schema:
        """See `Layout`."""
        return schema

    def file_name(self, path: str) -> str:
        """See `Layout`."""
        return path

    def divided(self, rows: pa.RecordBatch) -> Iterable[tuple[str, pa.RecordBatch]]:
        """See `Layout`."""
        return (("", rows),)

    def ordered(self, rows: pa.Table) -> pa.Table:
        """See `Layout`."""
        return rows

    def key_filter(self, names: Sequence[str], keys: Sequence[pa.ChunkedArray]) -> KeyFilter:
        """See `Layout`."""
        return lambda file: None

    def constants(self, file: Mapping[str, Any]) -> Mapping[str, pa.Scalar]:
        """See `Layout`."""
        return {}

    def completed(self, rows: pa.RecordBatch, start: int, file: Mapping[str, Any]) -> pa.RecordBatch:
        """See `Layout`."""
        return rows
