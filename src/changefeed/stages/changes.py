"""changes: chunks of one table -> one typed DataFrame, a row for every key that a change touches.

Columns of the result, so that no upstream name can collide with ours:

    c0, c1, …     the table's columns by their place, in the sink's types
    _has          which of them the change carries; NULL means all of them
    _deleted      the key is gone; c* hold the key columns only
    _irregular    column -> text that its type could not hold
    _ts, _topic, _partition, _offset, _index, _half   what orders changes: see `latest.py`
    _op, _time    for the metadata columns

An update that changes the key is two rows: the old key deleted (half 0), the new key written (half 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import UnsupportedError
from changefeed.frames.chunks import unpack
from changefeed.frames.convert import convert
from changefeed.frames.types import sink_type
from changefeed.model.batch import TableBatch
from changefeed.model.definition import Table
from changefeed.model.table import Column, TableShape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE = [
    ("_has", pa.list_(pa.bool_()), "array<boolean>"),
    ("_deleted", pa.bool_(), "boolean"),
    ("_irregular", pa.map_(pa.string(), pa.string()), "map<string,string>"),
    ("_ts", pa.int64(), "bigint"),
    ("_topic", pa.string(), "string"),
    ("_partition", pa.int32(), "int"),
    ("_offset", pa.int64(), "bigint"),
    ("_index", pa.int32(), "int"),
    ("_half", pa.int32(), "int"),
    ("_op", pa.string(), "string"),
    ("_time", pa.timestamp("us", tz="UTC"), "timestamp"),
]


@dataclass(frozen=True, slots=True)
class Window:
    """Changes with `after` < commit_ts <= `upto`; None is no bound, and then changes without commit_ts belong too."""

    after: int | None = None
    upto: int | None = None

    def mask(self, ts: pa.Array) -> pa.Array | None:
        """Which rows are inside, or None for all of them."""
        inside = None
        if self.after is not None:
            inside = pc.greater(ts, pa.scalar(self.after, pa.uint64()))
        if self.upto is not None:
            below = pc.less_equal(ts, pa.scalar(self.upto, pa.uint64()))
            inside = below if inside is None else pc.and_(inside, below)
        return None if inside is None else pc.fill_null(inside, False)


def changes(chunks: DataFrame, table: Table, window: Window) -> DataFrame:
    """The typed changes of `table` in the window; `chunks` holds its `rows` chunks."""
    return chunks.select("payload").mapInArrow(worker(table, window), schema_ddl(table))


def count(chunks: DataFrame, window: Window) -> int:
    """How many rows of the chunks lie in the window."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            inside = [len(_inside(unpack(p.as_py()), window)) for p in batch.column(0)]
            yield pa.RecordBatch.from_arrays([pa.array(inside, pa.int64())], names=["n"])

    found = chunks.select("payload").mapInArrow(run, "n bigint").groupBy().sum("n").first()
    return int(found[0] or 0) if found is not None else 0


def schema_ddl(table: Table) -> str:
    """The Spark schema of the result."""
    columns = [f"c{i} {sink_type(c.type).sql}" for i, c in enumerate(table.columns)]
    return ", ".join(columns + [f"{name} {sql}" for name, _, sql in _PLACE])


def worker(table: Table, window: Window) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that runs in Spark's Python workers."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column(0):
                rows = _inside(unpack(payload.as_py()), window)
                if len(rows):
                    yield from _typed(rows, table)

    return run


def _inside(table: TableBatch, window: Window) -> TableBatch:
    mask = window.mask(table.rows.column("commit_ts"))
    return table if mask is None else TableBatch(table.shape, table.rows.filter(mask))


def _typed(batch: TableBatch, table: Table) -> Iterator[pa.RecordBatch]:
    shape, rows = batch.shape, batch.rows
    deleted = pc.equal(rows.column("op"), "delete")
    gone = rows.filter(deleted)
    kept = rows if gone.num_rows == 0 else rows.filter(pc.invert(deleted))
    if not table.keys:
        _only_inserts(shape, rows)
    if gone.num_rows:
        yield _keys_alone(gone, _image(gone, "before"), shape.before_columns, table)
    if kept.num_rows:
        yield from _old_keys(kept, shape, table)
        yield _whole(kept, shape, table)


def _only_inserts(shape: TableShape, rows: pa.RecordBatch) -> None:
    changing = rows.filter(pc.is_in(rows.column("op"), value_set=pa.array(["update", "delete"])))
    if changing.num_rows:
        first = changing.slice(0, 1).to_pylist()[0]
        raise UnsupportedError(
            f"{shape.database}.{shape.table} has no handle key, so the {first['op']} at "
            f"{first['topic']}:{first['partition']}:{first['offset']} cannot be applied: it names no row. Give the table a "
            "primary key upstream, or leave it out"
        )


def _image(rows: pa.RecordBatch, name: str) -> dict[str, pa.Array]:
    column = rows.column(name)
    return dict(zip([f.name for f in column.type], column.flatten(), strict=True))


def _old_keys(rows: pa.RecordBatch, shape: TableShape, table: Table) -> Iterator[pa.RecordBatch]:
    """The keys that updates have left behind, as deletes."""
    names = [n for n in table.keys if n in {c.name for c in shape.before_columns}]
    updates = rows.filter(pc.and_(pc.equal(rows.column("op"), "update"), pc.is_valid(rows.column("before"))))
    if not names or not updates.num_rows:
        return
    before, after = _image(updates, "before"), _image(updates, "after")
    moved = None
    for name in names:
        differs = pc.fill_null(pc.not_equal(before[name], after[name]), False)
        moved = differs if moved is None else pc.or_(moved, differs)
    left = updates.filter(moved)
    if left.num_rows:
        old = {**_image(left, "after"), **_image(left, "before")}
        columns = tuple(shape.by_name[n] for n in table.keys if n in old)
        yield _keys_alone(left, old, columns, table)


def _keys_alone(
    rows: pa.RecordBatch, image: dict[str, pa.Array], columns: tuple[Column, ...], table: Table
) -> pa.RecordBatch:
    carried = {c.name: c for c in columns}
    arrays = []
    for column in table.columns:
        if column.name in table.keys:
            if column.name not in carried:
                raise UnsupportedError(
                    f"{table.database}.{table.name}: a delete does not carry its key column {column.name}"
                )
            arrays.append(convert(image[column.name], carried[column.name].type, column.type).array)
        else:
            arrays.append(pa.nulls(rows.num_rows, sink_type(column.type).arrow))
    return _assembled(rows, arrays, table, deleted=True, has=None, irregular=[{}] * rows.num_rows)


def _whole(rows: pa.RecordBatch, shape: TableShape, table: Table) -> pa.RecordBatch:
    image = _image(rows, "after")
    carried = {c.name: c for c in shape.after_columns}
    irregular: list[dict[str, str]] = [
        {k: v.decode(errors="replace") for k, v in row if not k.startswith("before.")} if row else {}
        for row in rows.column("irregular").to_pylist()
    ]
    arrays = []
    for column in table.columns:
        if column.name in carried:
            converted = convert(image[column.name], carried[column.name].type, column.type)
            arrays.append(converted.array)
            for row, text in converted.irregular.items():
                irregular[row][column.name] = text
        else:
            arrays.append(pa.nulls(rows.num_rows, sink_type(column.type).arrow))
    has = [c.name in carried for c in table.columns]
    return _assembled(rows, arrays, table, deleted=False, has=None if all(has) else has, irregular=irregular)


def _assembled(
    rows: pa.RecordBatch,
    arrays: list[pa.Array],
    table: Table,
    *,
    deleted: bool,
    has: list[bool] | None,
    irregular: list[dict[str, str]],
) -> pa.RecordBatch:
    n = rows.num_rows
    place = [
        pa.array([has] * n, pa.list_(pa.bool_())),
        pa.array([deleted] * n, pa.bool_()),
        pa.array([list(r.items()) for r in irregular], pa.map_(pa.string(), pa.string())),
        rows.column("commit_ts").cast(pa.int64()),
        rows.column("topic"),
        rows.column("partition"),
        rows.column("offset"),
        rows.column("index"),
        pa.array([0 if deleted else 1] * n, pa.int32()),
        rows.column("op"),
        rows.column("commit_time").cast(pa.timestamp("us", tz="UTC")),
    ]
    names = [f"c{i}" for i in range(len(table.columns))] + [name for name, _, _ in _PLACE]
    return pa.RecordBatch.from_arrays(arrays + place, names=names)
