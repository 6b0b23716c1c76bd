"""Sorts rows by the fields of an Iceberg sort order.

    floating-point     -NaN < -infinity < … < -0.0 < 0.0 < … < infinity < NaN
    text, binary       by unsigned bytes
    others             by value

Rows that are equal in all fields keep their order.

Tasks import this module: it needs Arrow and NumPy alone.

Source:
    https://iceberg.apache.org/spec/#sorting
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.sinks.iceberg.sort_fields import SortField
from changefeed.sinks.iceberg.transforms import result_type, transformed


def is_sortable(transform: str, kind: pa.DataType) -> bool:
    """Whether changefeed sorts rows by a transform of a column of this type."""
    is_float = pa.types.is_float32(kind) or pa.types.is_float64(kind)
    return result_type(transform, kind) is not None or (transform == "identity" and is_float)


def sorted_rows(rows: pa.Table, fields: Sequence[SortField]) -> pa.Table:
    """Returns the rows in the order of the fields, of which the first is the most significant."""
    columns, directions = list[pa.Array](), list[tuple[str, str]]()
    for field in fields:
        column = transformed(rows.column(field.term.source).combine_chunks(), field.term.transform)
        if column.null_count:
            directions.append((str(len(columns)), "descending" if field.nulls_first else "ascending"))
            columns.append(column.is_null().cast(pa.int8()))
        directions.append((str(len(columns)), "descending" if field.descends else "ascending"))
        columns.append(_ordered(column))
    keys = pa.table(columns, names=[str(place) for place in range(len(columns))])
    return rows.take(pc.sort_indices(keys, sort_keys=directions))


def _ordered(column: pa.Array) -> pa.Array:
    """Returns values that Arrow sorts as Iceberg sorts those of the column."""
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8())
    if not pa.types.is_floating(column.type):
        return column
    bits = column.fill_null(0).to_numpy().view(np.int32 if pa.types.is_float32(column.type) else np.int64)
    largest = np.iinfo(bits.dtype).max
    return pa.array(np.where(bits < 0, bits ^ largest, bits))
