"""Table batches that share Arrow arrays: a column of many tables at once, without a slice for each table.

Decoders put the rows of tables with the same columns into the same arrays, one table after the other. Each table is a batch, a
range of rows; tables whose ranges follow each other are a *stretch*, whose rows are one slice of these arrays:

    orders    rows 0 to 3     ┐ a stretch: rows 0 to 40
    items     rows 4 to 40    ┘
    users     rows 0 to 9 of other arrays: a stretch of its own

A call of Arrow costs as much as many rows, so that code which reads a column of all tables calls it once for each stretch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import pyarrow as pa

from changefeed.model.batch import TableBatch


def adjacent(tables: Iterable[TableBatch]) -> list[TableBatch]:
    """Sorts tables so that those in the same Arrow arrays are adjacent, in the order of their rows: then stretches are long."""
    groups = dict[int, list[TableBatch]]()
    for table in tables:
        groups.setdefault(table.shared_by, []).append(table)
    return [table for group in groups.values() for table in sorted(group, key=lambda table: table.start)]


def stretches(tables: Sequence[TableBatch]) -> Iterator[tuple[list[TableBatch], pa.RecordBatch]]:
    """Divides tables into stretches; yields the tables of each one, and the rows of all of them."""
    stretch = list[TableBatch]()
    for table in tables:
        if stretch and not table.follows(stretch[-1]):
            yield stretch, stretch[0].rows_until(stretch[-1])
            stretch = []
        stretch.append(table)
    if stretch:
        yield stretch, stretch[0].rows_until(stretch[-1])


def column_of_tables(tables: Sequence[TableBatch], name: str) -> pa.Array:
    """Returns a column of all tables as one array, in the order of the tables. There is at least one table."""
    return column_of_batches([rows for _, rows in stretches(tables)], name)


def column_of_batches(batches: Sequence[pa.RecordBatch], name: str) -> pa.Array:
    """Returns a column of all batches as one array. There is at least one batch; each has the column at the same place."""
    number = batches[0].schema.get_field_index(name)
    columns = [batch.column(number) for batch in batches]
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def with_column(tables: Sequence[TableBatch], name: str, column: pa.Array) -> list[TableBatch]:
    """Replaces one column of all tables.

    Args:
        tables: the tables, which all have the column.
        name: the column's name.
        column: its new values, of the rows of all tables, one table after the other.
    """
    replaced, start = list[TableBatch](), 0
    for stretch, rows in stretches(tables):
        number = rows.schema.get_field_index(name)
        rows = rows.set_column(number, rows.schema.field(number), column.slice(start, len(rows)))
        start += len(rows)
        ends = accumulate(len(table) for table in stretch)
        replaced += TableBatch.of_several(zip((table.shape for table in stretch), ends, strict=True), rows)
    return replaced
