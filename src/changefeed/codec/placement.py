"""Joins the rows of the kernel and of the reference into table batches, in order; describes shapes for the kernel.

The kernel returns rows without the columns that follow from their record; these are added here. Events that the reference
decodes from some records of a batch get the row numbers of the whole batch. Both are joined: one batch per shape.
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
from changefeed.model.shared_rows import adjacent, column_of, end_to_end, with_column
from changefeed.model.table import TableShape
from changefeed.ticdc import tso

_PLACE = pa.schema([RECORDS.field(name) for name in ("topic", "partition", "offset")])
_COLUMNS = frozenset(table_schema(TableShape("", "", ())).names)
_MILLISECONDS = pa.timestamp("ms", tz="UTC")


def shapes_by_topic(tables: list[TableBatch]) -> list[tuple[TableShape, str]]:
    """Returns each shape with each topic that has rows of it, in the order of their first rows."""
    seen: list[tuple[int, TableShape, str]] = []
    for table in tables:
        rows = zip(table.rows.column("topic").to_pylist(), table.rows.column("record").to_pylist(), strict=True)
        first = dict(reversed(list(rows)))
        seen += ((record, table.shape, topic) for topic, record in first.items())
    return [(shape, topic) for _, shape, topic in sorted(seen, key=lambda one: one[0])]


class Places:
    """Topic, partition and offset of the records of a batch. If all values of a column are equal, any slice is used."""

    def __init__(self, records: pa.RecordBatch) -> None:
        self._records = len(records)
        columns = [_of_type(records.column(field.name), field.type) for field in _PLACE]
        self._columns = [
            (column, column.slice(1).equals(column.slice(0, max(len(column) - 1, 0)))) for column in columns
        ]

    def of(self, rows: pa.Int32Array) -> dict[str, pa.Array]:
        """Returns the columns for events of these records."""
        few = len(rows) <= self._records
        whole = len(rows) == self._records and bool((np.diff(rows) == 1).all())
        columns = (c.slice(0, len(rows)) if whole or (one and few) else c.take(rows) for c, one in self._columns)
        return dict(zip(_PLACE.names, columns, strict=True))


def headers_of(records: pa.RecordBatch) -> pa.Array:
    """Returns the records' headers in the type that the kernel expects."""
    return _of_type(records.column("headers"), RECORDS.field("headers").type)


def _of_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def description(shape: TableShape, topic: str | None) -> str:
    """Returns the shape as JSON. It contains the wire text, also JSON, verbatim, because the kernel may compare its bytes."""
    columns = [{"name": c.name, "type": str(c.type), "key": c.key} for c in shape.columns]
    members = {"database": shape.database, "table": shape.table, "columns": columns}
    described = json.dumps(members if topic is None else members | {"topic": topic})
    return f'{described[:-1]},"wire":{shape.wire or "null"}}}'


class RegisteredShape:
    """A shape that is registered with the kernel; adds the missing columns to its rows, and caches them."""

    def __init__(self, shape: TableShape) -> None:
        self.shape = shape
        self._schema = functools.cache(functools.partial(table_schema, shape))
        self._nulls: dict[str, pa.Array] = {}

    def completed(self, rows: pa.RecordBatch, more: dict[str, pa.Array]) -> pa.RecordBatch:
        """Returns the kernel's rows with the columns in `more`, and NULL in all other columns."""
        count = len(rows)
        columns = dict(zip(rows.schema.names, rows.columns, strict=True)) | more
        if "irregular" not in columns:
            columns["irregular"] = no_irregular(count)
        schema = self._schema(columns["commit_time"].type.unit)
        for name in _COLUMNS - columns.keys():
            columns[name] = self._null(name, schema, count)
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _null(self, name: str, schema: pa.Schema, count: int) -> pa.Array:
        there = self._nulls.get(name)
        if there is None or len(there) < count:
            there = self._nulls[name] = pa.nulls(1 << count.bit_length(), schema.field(name).type)
        return there.slice(0, count)


def completed(
    shapes: Sequence[RegisteredShape], parts: Sequence[tuple[int, pa.RecordBatch]], places: Places
) -> list[TableBatch]:
    """Returns table batches of the kernel's rows, with the columns that follow from the record and from commit_ts.

    They are ordered by their first rows. These columns are computed for the rows of all tables together: a batch may
    contain a thousand tables with a few rows each.

    Args:
        shapes: those that are registered with the kernel, by number.
        parts: as the kernel returns them, see `changefeed_kernel.pyi`.
    """
    if not parts:
        return []
    rows = [rows for _, rows in parts]
    columns = places.of(column_of(rows, "record"))
    if "commit_time" not in rows[0].schema.names:
        ms = pc.shift_right(column_of(rows, "commit_ts"), pa.scalar(tso.LOGICAL_BITS, pa.uint64()))
        columns["commit_time"] = ms.cast(pa.int64()).cast(_MILLISECONDS)
    tables, firsts, start = list[TableBatch](), list[Numbers](), 0
    for number, part in parts:
        more = {name: column.slice(start, len(part)) for name, column in columns.items()}
        start += len(part)
        divided, first = _by_owner(shapes, part.column("shape"), shapes[number].completed(part, more))
        tables += divided
        firsts.append(first)
    return [tables[at] for at in np.argsort(np.concatenate(firsts), kind="stable").tolist()]


def _by_owner(
    shapes: Sequence[RegisteredShape], owners: pa.Int32Array, rows: pa.RecordBatch
) -> tuple[list[TableBatch], Numbers]:
    """The rows of each shape, in order, and the place of each one's first row.

    All columns are divided at once, because a call of Arrow costs as much as many rows.
    """
    starts, record = starts_of_runs(owners.to_numpy()), rows.column("record").to_numpy()
    tables, is_back = owners.to_numpy()[starts].tolist(), np.diff(record) < 0
    if len(tables) > len(set(tables)) or is_back.sum() > is_back[starts[1:] - 1].sum():
        encoded = owners.dictionary_encode()  # in the order of their first rows
        order = np.lexsort((record, encoded.indices.to_numpy()))
        rows, starts = rows.take(pa.array(order)), starts_of_runs(encoded.indices.to_numpy()[order])
        tables = encoded.dictionary.to_pylist()
    ends = [*starts[1:].tolist(), len(rows)]
    divided = TableBatch.of_several(zip([shapes[table].shape for table in tables], ends, strict=True), rows)
    return divided, _places(rows)[starts]


def placed(answer: Decoded, rows: pa.Array) -> Decoded:
    """Returns the reference's result for some records, with their row numbers in the whole batch."""
    numbers = rows.to_pylist()

    def moved(place: Place) -> Place:
        return replace(place, record=numbers[place.record])

    tables = adjacent(answer.tables)
    if tables:
        tables = with_column(tables, "record", rows.take(end_to_end(tables, "record")))
    control = [replace(event, place=moved(event.place)) for event in answer.control]
    return Decoded(tables, control, [replace(letter, place=moved(letter.place)) for letter in answer.dead])


def of_records(answer: Decoded, rows: pa.Array) -> Decoded:
    """Returns the events of some records of a result."""
    numbers, tables = set(rows.to_pylist()), list[TableBatch]()
    for table in answer.tables:
        mine = [record in numbers for record in table.rows.column("record").to_pylist()]
        if all(mine):
            tables.append(table)
        elif any(mine):
            tables.append(TableBatch(table.shape, table.rows.filter(pa.array(mine))))
    control = [event for event in answer.control if event.place.record in numbers]
    return Decoded(tables, control, [letter for letter in answer.dead if letter.place.record in numbers])


def joined(tables: Iterable[TableBatch]) -> list[TableBatch]:
    """Returns one batch per shape and time unit, with its rows in order; batches are ordered by their first rows."""
    by_shape = dict[tuple[TableShape, str], list[TableBatch]]()
    units = dict[int, str]()
    for table in tables:
        if table.shared_by not in units:
            units[table.shared_by] = table.schema.field("commit_time").type.unit
        by_shape.setdefault((table.shape, units[table.shared_by]), []).append(table)
    return by_first_row([_in_order(batches) for batches in by_shape.values()])


def by_first_row(tables: Sequence[TableBatch]) -> list[TableBatch]:
    """Sorts batches by their first rows."""
    places = dict[int, Numbers]()
    for table in tables:
        if table.shared_by not in places:
            places[table.shared_by] = _places(table.shared)
    first = (places[table.shared_by][table.start] for table in tables)
    return [tables[at] for at in np.argsort(np.fromiter(first, np.int64, len(tables)), kind="stable").tolist()]


def _places(rows: pa.RecordBatch) -> Numbers:
    """Record and index of each row as one number."""
    record: Numbers = rows.column("record").to_numpy().astype(np.int64) << 32
    index = rows.column("index")
    return record if index.null_count == len(index) else record | index.fill_null(0).to_numpy()


def _in_order(batches: list[TableBatch]) -> TableBatch:
    if len(batches) == 1:
        return batches[0]
    ends = sorted(
        (*(batch.rows.column("record")[at].as_py() for at in (0, -1)), number) for number, batch in enumerate(batches)
    )
    rows = pa.concat_batches([batches[number].rows for _, _, number in ends])
    if any(last >= first for (_, last, _), (first, _, _) in pairwise(ends)):
        rows = rows.take(pc.sort_indices(rows, sort_keys=[("record", "ascending"), ("index", "ascending")]))
    return TableBatch(batches[0].shape, rows)
