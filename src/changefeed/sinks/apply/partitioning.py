"""Divides rows by the values that choose their partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from changefeed.sinks.apply.keys import codes


def by_values(rows: pa.RecordBatch, values: Sequence[pa.Array]) -> Iterator[tuple[list[pa.Scalar], pa.RecordBatch]]:
    """Yields the rows of each partition, in order, with its values.

    Args:
        rows: the rows.
        values: for each field of a partition, the values of the rows; at least one field.
    """
    code, count = codes([pa.chunked_array([_comparable(column)]) for column in values])
    if count > 1:
        order = np.argsort(code, kind="stable")
        code, rows = code[order], rows.take(pa.array(order))
        values = [column.take(pa.array(order)) for column in values]
    starts = np.searchsorted(code, np.arange(count + 1))
    for start, end in pairwise(starts.tolist()):
        yield [column[start] for column in values], rows.slice(start, end - start)


def _comparable(column: pa.Array) -> pa.Array:
    """Returns a column whose values can be numbered; Arrow numbers no booleans."""
    return column.cast(pa.int32()) if pa.types.is_boolean(column.type) else column
