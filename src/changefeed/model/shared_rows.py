"""Batches of several tables in the same Arrow arrays: columns of all of them at once, without a slice for each table.

    orders    ┐ rows 0 to 3        one stretch: one array of each column
    items     ┘ rows 4 to 40
    users       rows 0 to 9 of other arrays

Decoders return such batches: tables with the same columns are decoded into the same arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import pyarrow as pa

from changefeed.model.batch import TableBatch


def adjacent(tables: Iterable[TableBatch]) -> list[TableBatch]:
    """The tables, those that share Arrow arrays together and as they lie there, so that there are few `stretches`."""
    sharing = dict[int, list[TableBatch]]()
    for table in tables:
        sharing.setdefault(table.shared_by, []).append(table)
    return [table for some in sharing.values() for table in sorted(some, key=lambda one: one.start)]


def stretches(tables: Sequence[TableBatch]) -> Iterator[tuple[list[TableBatch], pa.RecordBatch]]:
    """Yields the tables that lie one behind the other in the same Arrow arrays, and their rows."""
    some = list[TableBatch]()
    for table in tables:
        if some and not table.follows(some[-1]):
            yield some, some[0].rows_until(some[-1])
            some = []
        some.append(table)
    if some:
        yield some, some[0].rows_until(some[-1])


def end_to_end(tables: Sequence[TableBatch], name: str) -> pa.Array:
    """A column of all tables in one array; see `column_of`."""
    return column_of([rows for _, rows in stretches(tables)], name)


def column_of(batches: Sequence[pa.RecordBatch], name: str) -> pa.Array:
    """A column of all batches in one array. There is at least one batch, and the column is at the same place in each."""
    at = batches[0].schema.get_field_index(name)
    return batches[0].column(at) if len(batches) == 1 else pa.concat_arrays([batch.column(at) for batch in batches])


def with_column(tables: Sequence[TableBatch], name: str, column: pa.Array) -> list[TableBatch]:
    """The tables with this column, which has the rows of all of them, in place of that of the same name."""
    changed, done = list[TableBatch](), 0
    for some, rows in stretches(tables):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), column.slice(done, len(rows)))
        done += len(rows)
        changed += TableBatch.of_several(zip((t.shape for t in some), accumulate(map(len, some)), strict=True), rows)
    return changed
