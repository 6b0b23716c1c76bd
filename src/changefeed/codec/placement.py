"""Table batches from the rows of the kernel and of the reference, in the order of their records.

    kernel       rows without the columns that follow from their record     ── completed ──▶ ┐
    reference    events of some records, numbered among these records       ── renumbered ─▶ ┴── joined ──▶ a batch per shape

Rule 1. The order of rows is that of their records in the batch that is decoded, and of the events inside a record. `record` is
the number of a record in that batch, `index` the number of an event in its record.
Rule 2. The kernel fills the same Arrow arrays for all tables with the same columns: a *part* of its result. Its column `shape`
has the number of each row's shape, by which the part is divided into tables.
Rule 3. Columns are computed for the rows of all tables together: a batch may contain a thousand tables with a few rows each, and
a call of Arrow costs as much as many rows.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.codec.topics import Numbers, starts_of_runs
from changefeed.model.batch import RECORDS, Decoded, TableBatch, no_irregular, table_schema
from changefeed.model.position import Place
from changefeed.model.shared_rows import adjacent, column_of_batches, column_of_tables, with_column
from changefeed.model.table import TableShape
from changefeed.ticdc import tso

_PLACE = pa.schema([RECORDS.field(name) for name in ("topic", "partition", "offset")])
_COLUMNS = frozenset(table_schema(TableShape("", "", ())).names)
_MILLISECONDS = pa.timestamp("ms", tz="UTC")


# Shapes, as the kernel registers them.


def shapes_by_topic(tables: list[TableBatch]) -> list[tuple[TableShape, str]]:
    """Returns each shape with each topic that has rows of it, in the order of their first rows."""
    first_rows: list[tuple[int, TableShape, str]] = []
    for table in tables:
        rows = zip(table.rows.column("topic").to_pylist(), table.rows.column("record").to_pylist(), strict=True)
        first_record = dict(reversed(list(rows)))
        first_rows += ((record, table.shape, topic) for topic, record in first_record.items())
    return [(shape, topic) for _, shape, topic in sorted(first_rows, key=lambda row: row[0])]


def description(shape: TableShape, topic: str | None) -> str:
    """Returns the shape as JSON. It contains the wire text, also JSON, verbatim, because the kernel may compare its bytes."""
    columns = [{"name": c.name, "type": str(c.type), "key": c.key} for c in shape.columns]
    members = {"database": shape.database, "table": shape.table, "columns": columns}
    described = json.dumps(members if topic is None else members | {"topic": topic})
    return f'{described[:-1]},"wire":{shape.wire or "null"}}}'


# Rows of the kernel.


class Places:
    """Topic, partition and offset of the records of a batch.

    The rows of most batches need no copy of these columns: of a column in which all values are equal, any slice has the right
    values, and rows of all records, one for each, take the columns as they are.
    """

    def __init__(self, records: pa.RecordBatch) -> None:
        self._count = len(records)
        columns = [_of_type(records.column(field.name), field.type) for field in _PLACE]
        self._columns = [(column, _is_constant(column)) for column in columns]

    def columns_of(self, record: pa.Int32Array) -> dict[str, pa.Array]:
        """Returns the columns of rows, by name.

        Args:
            record: the number of each row's record.
        """
        is_every_record = len(record) == self._count and bool((np.diff(record) == 1).all())
        has_slice = len(record) <= self._count
        columns = (
            column.slice(0, len(record)) if is_every_record or (is_constant and has_slice) else column.take(record)
            for column, is_constant in self._columns
        )
        return dict(zip(_PLACE.names, columns, strict=True))


def headers_of(records: pa.RecordBatch) -> pa.Array:
    """Returns the records' headers in the type that the kernel expects."""
    return _of_type(records.column("headers"), RECORDS.field("headers").type)


def _of_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def _is_constant(column: pa.Array) -> bool:
    """Whether all values are equal: then the column equals itself, moved by one row."""
    return bool(column.slice(1).equals(column.slice(0, max(len(column) - 1, 0))))


class RegisteredShape:
    """A shape that is registered with the kernel; it adds the columns that the kernel's rows lack.

    Columns of NULL are kept for the next rows.
    """

    def __init__(self, shape: TableShape) -> None:
        self.shape = shape
        self._schema = functools.cache(functools.partial(table_schema, shape))
        self._nulls: dict[str, pa.Array] = {}

    def completed(self, rows: pa.RecordBatch, computed: dict[str, pa.Array]) -> pa.RecordBatch:
        """Returns the kernel's rows with the computed columns, and NULL in all other columns of a table batch."""
        count = len(rows)
        columns = dict(zip(rows.schema.names, rows.columns, strict=True)) | computed
        if "irregular" not in columns:
            columns["irregular"] = no_irregular(count)
        schema = self._schema(columns["commit_time"].type.unit)
        for name in _COLUMNS - columns.keys():
            columns[name] = self._null(name, schema, count)
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _null(self, name: str, schema: pa.Schema, count: int) -> pa.Array:
        column = self._nulls.get(name)
        if column is None or len(column) < count:
            column = self._nulls[name] = pa.nulls(1 << count.bit_length(), schema.field(name).type)
        return column.slice(0, count)


def completed(
    shapes: Sequence[RegisteredShape], parts: Sequence[tuple[int, pa.RecordBatch]], places: Places
) -> list[TableBatch]:
    """Returns table batches of the kernel's rows, with the columns that follow from the record and from commit_ts.

    They are ordered by their first rows.

    Args:
        shapes: those that are registered with the kernel, by number.
        parts: as the kernel returns them, see `changefeed_kernel.pyi`: the number of a shape with the part's columns, and rows.
        places: those of the records that the kernel has decoded.
    """
    if not parts:
        return []
    rows = [rows for _, rows in parts]
    columns = places.columns_of(column_of_batches(rows, "record"))
    if "commit_time" not in rows[0].schema.names:
        ms = pc.shift_right(column_of_batches(rows, "commit_ts"), pa.scalar(tso.LOGICAL_BITS, pa.uint64()))
        columns["commit_time"] = ms.cast(pa.int64()).cast(_MILLISECONDS)
    tables, first_rows, start = list[TableBatch](), list[Numbers](), 0
    for number, part in parts:
        computed = {name: column.slice(start, len(part)) for name, column in columns.items()}
        start += len(part)
        divided, first = _divided(shapes, part.column("shape"), shapes[number].completed(part, computed))
        tables += divided
        first_rows.append(first)
    return [tables[number] for number in np.argsort(np.concatenate(first_rows), kind="stable").tolist()]


def _divided(
    shapes: Sequence[RegisteredShape], shape_of_row: pa.Int32Array, rows: pa.RecordBatch
) -> tuple[list[TableBatch], Numbers]:
    """Divides the rows of a part into tables, see Rule 2; returns these, and the order of each one's first row.

    The kernel's rows are in order already, unless tables take turns or a table has rows in a wrong order: then all columns are
    sorted at once, by the shapes in the order of their first rows.
    """
    starts, record = starts_of_runs(shape_of_row.to_numpy()), rows.column("record").to_numpy()
    numbers, goes_back = shape_of_row.to_numpy()[starts].tolist(), np.diff(record) < 0
    takes_turns = len(numbers) > len(set(numbers))
    if takes_turns or goes_back.sum() > goes_back[starts[1:] - 1].sum():  # between two tables, records may go back
        encoded = shape_of_row.dictionary_encode()
        order = np.lexsort((record, encoded.indices.to_numpy()))
        rows, starts = rows.take(pa.array(order)), starts_of_runs(encoded.indices.to_numpy()[order])
        numbers = encoded.dictionary.to_pylist()
    ends = [*starts[1:].tolist(), len(rows)]
    tables = TableBatch.of_several(zip([shapes[number].shape for number in numbers], ends, strict=True), rows)
    return tables, _row_order(rows)[starts]


# Events of the reference.


def renumbered(decoded: Decoded, record: pa.Array) -> Decoded:
    """Gives events that were decoded from some records of a batch the numbers that these records have in the batch.

    Args:
        decoded: the events; their records are numbered among the records that were decoded.
        record: the number in the batch of each record that was decoded.
    """
    numbers = record.to_pylist()

    def moved(place: Place) -> Place:
        return replace(place, record=numbers[place.record])

    tables = adjacent(decoded.tables)
    if tables:
        tables = with_column(tables, "record", record.take(column_of_tables(tables, "record")))
    control = [replace(event, place=moved(event.place)) for event in decoded.control]
    return Decoded(tables, control, [replace(letter, place=moved(letter.place)) for letter in decoded.dead])


def events_of(decoded: Decoded, record: pa.Array) -> Decoded:
    """Returns the events of the records with these numbers."""
    numbers, tables = set(record.to_pylist()), list[TableBatch]()
    for table in decoded.tables:
        is_chosen = [number in numbers for number in table.rows.column("record").to_pylist()]
        if all(is_chosen):
            tables.append(table)
        elif any(is_chosen):
            tables.append(TableBatch(table.shape, table.rows.filter(pa.array(is_chosen))))
    control = [event for event in decoded.control if event.place.record in numbers]
    return Decoded(tables, control, [letter for letter in decoded.dead if letter.place.record in numbers])


# Both together.


def joined(tables: Iterable[TableBatch]) -> list[TableBatch]:
    """Returns one batch per shape and time unit, with its rows in order; batches are ordered by their first rows."""
    by_shape = dict[tuple[TableShape, str], list[TableBatch]]()
    units = dict[int, str]()  # of the arrays that tables share: a schema costs as much as many rows
    for table in tables:
        if table.shared_by not in units:
            units[table.shared_by] = table.schema.field("commit_time").type.unit
        by_shape.setdefault((table.shape, units[table.shared_by]), []).append(table)
    return by_first_row([_merged(batches) for batches in by_shape.values()])


def by_first_row(tables: Sequence[TableBatch]) -> list[TableBatch]:
    """Sorts batches by their first rows."""
    orders = dict[int, Numbers]()
    for table in tables:
        if table.shared_by not in orders:
            orders[table.shared_by] = _row_order(table.shared)
    first_rows = (orders[table.shared_by][table.start] for table in tables)
    return [
        tables[number] for number in np.argsort(np.fromiter(first_rows, np.int64, len(tables)), kind="stable").tolist()
    ]


def _row_order(rows: pa.RecordBatch) -> Numbers:
    """Returns a number for each row by which rows are ordered: its record in the upper 32 bits, its index in the lower ones."""
    record: Numbers = rows.column("record").to_numpy().astype(np.int64) << 32
    index = rows.column("index")
    return record if index.null_count == len(index) else record | index.fill_null(0).to_numpy()


def _merged(batches: list[TableBatch]) -> TableBatch:
    """Merges batches of one shape; their rows are sorted only if the records of two batches overlap."""
    if len(batches) == 1:
        return batches[0]
    records = [batch.rows.column("record") for batch in batches]
    spans = sorted((column[0].as_py(), column[-1].as_py(), number) for number, column in enumerate(records))
    rows = pa.concat_batches([batches[number].rows for _, _, number in spans])
    if any(last >= first for (_, last, _), (first, _, _) in pairwise(spans)):
        rows = rows.take(pc.sort_indices(rows, sort_keys=[("record", "ascending"), ("index", "ascending")]))
    return TableBatch(batches[0].shape, rows)
