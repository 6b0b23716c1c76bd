"""Converts a table batch to a plain table: one row per change, four columns about the change, then the table's columns.

    _op          string      insert, update, delete, read or upsert
    _commit_ts   uint64      the upstream's ordering number; NULL if there is none
    _commit_time timestamp   microseconds in UTC; NULL if unknown
    _position    string      topic:partition:offset, with :index if the record has several events
    …            …           the row after the change, for a delete before it; also NULL if the image lacks the column

The Arrow types are those of `types.py`; the metadata of a field contains the MySQL type.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.model.table import Column, image_type


def flat(rows: pa.RecordBatch, columns: tuple[Column, ...]) -> pa.Table:
    """Returns the plain table of a table batch.

    Args:
        rows: the batch's rows, with the columns listed in `batch.py`.
        columns: the columns of the upstream table.
    """
    after, before = rows.column("after"), rows.column("before")
    has_after = after.is_valid()
    new, old = _cells(after), _cells(before)
    fields, arrays = list(image_type(columns)), []
    for f in fields:
        none = pa.nulls(len(rows), f.type)
        arrays.append(pc.if_else(has_after, new.get(f.name, none), old.get(f.name, none)))
    head = {
        "_op": rows.column("op"),
        "_commit_ts": rows.column("commit_ts"),
        "_commit_time": rows.column("commit_time").cast(pa.timestamp("us", tz="UTC")),
        "_position": _positions(rows),
    }
    schema = pa.schema([*(pa.field(name, array.type) for name, array in head.items()), *fields])
    return pa.Table.from_arrays([*head.values(), *arrays], schema=schema)


def _cells(images: pa.StructArray) -> dict[str, pa.Array]:
    return dict(zip((f.name for f in images.type), images.flatten(), strict=True))


def _positions(rows: pa.RecordBatch) -> pa.Array:
    parts = [rows.column(name).cast(pa.string()) for name in ("topic", "partition", "offset")]
    record = pc.binary_join_element_wise(*parts, ":")
    index = rows.column("index")
    return pc.if_else(index.is_null(), record, pc.binary_join_element_wise(record, index.cast(pa.string()), ":"))
