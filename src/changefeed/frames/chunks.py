"""Chunks: how decoded changes travel through Spark, whatever their tables' columns are.

One chunk is one row of plain columns to plan by and a payload to apply:

    kind            payload
    rows            Arrow IPC stream of those columns of one table batch that are applied, without columns that have no content;
                    its shape, topic and partition are in the schema's metadata
    schema          JSON, one schema change      ┐
    resolved        JSON, one mark               │ as `model.event` has them
    dead            JSON, one dead letter        ┘
    transactions    Arrow IPC stream of `TRANSACTIONS`: which row belongs to which transaction
    waiting         Arrow IPC stream of records whose remainder has not come yet
    dated           JSON, the records that bound the commit_ts of this partition's later rows: see `stages.missing_ts`
    read            none: how many records of this partition were read, and from where to where
    tombstones      none: all of these records are tombstones, as a compacted topic may begin with

A rows chunk holds one table in one shape from one partition, and lies on one side of every schema change that was read
with it: what the table is called and which columns it has does not change inside of a chunk. Without a key, its rows are
in the order of commit_ts. `rows` counts rows, or records in a `read` and in a `tombstones` chunk.
If cuts are made from transactions, one chunk of each partition has a line for every row, for the end of every
transaction, and for every schema change. Other marks and heartbeats carry nothing that is applied; they are counted
as read and end here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.payloads import dead_to_dict, read_shape, schema_to_dict, write_shape
from changefeed.model.batch import IRREGULAR, Decoded, TableBatch, table_schema
from changefeed.model.event import Resolved, SchemaChange, TransactionMark
from changefeed.model.position import Place
from changefeed.model.table import canonical
from changefeed.protocols import origin

CHUNKS = pa.schema(
    [
        ("kind", pa.string()),
        ("database", pa.string()),
        ("table", pa.string()),
        ("shape_id", pa.string()),
        ("shape", pa.string()),
        ("rows", pa.int64()),
        ("min_commit_ts", pa.int64()),
        ("max_commit_ts", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("payload", pa.binary()),
    ]
)
# A row (id and order where it has a transaction), the end of a transaction (events, and where it lies: mark), or a schema
# change (events 0, id where it is counted like a transaction). Of a snapshot, `snapshot` is the mark of its row or schema
# change, and SIGNAL for the row that requests one from Debezium, or reports the progress of an incremental one. `time`
# is a row's commit time in milliseconds: that of a schema change may be when the connector read it, another one each time.
TRANSACTIONS = pa.schema(
    [
        ("id", pa.string()),
        ("order", pa.int64()),
        ("commit_ts", pa.int64()),
        ("events", pa.int64()),
        ("mark", pa.int64()),
        ("snapshot", pa.string()),
        ("time", pa.int64()),
    ]
)
SIGNAL = "signal"
_SIGNALS = ["execute-snapshot", "snapshot-window-open", "snapshot-window-close"]
_SIGNAL_COLUMNS = ["id", "type", "data"]
_MEMBERS = pa.schema([("topic", pa.string()), ("partition", pa.int32()), *TRANSACTIONS])
# CHUNKS for Spark, in its own words.
CHUNKS_DDL = (
    "kind string, database string, `table` string, shape_id string, shape string, rows bigint, min_commit_ts bigint, "
    "max_commit_ts bigint, topic string, partition int, first_offset bigint, last_offset bigint, payload binary"
)
RECORDS_DDL = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
# topic -> partition -> `database.table`, or `` for marks and schema changes -> offset and commit_ts of the last record with one
Dated = Mapping[str, Mapping[int, Mapping[str, tuple[int, int]]]]
# Topic, partition, and rows or records of it.
_Part = tuple[str, int, pa.RecordBatch]
# Of a table batch, beside the topic and partition that all rows of a chunk share.
_APPLIED = ("op", "commit_ts", "commit_time", "offset", "index", "before", "after", "irregular")
_END_OF_STREAM = 8  # bytes


def pack(
    decoded: Decoded, records: pa.RecordBatch, fresh: pa.RecordBatch | None = None, *, transactions: bool = False
) -> pa.RecordBatch:
    """Packs decoded records into chunks: their changes, and the offsets that were read.

    Args:
        fresh: those of the records that count as read now; None for all.
        transactions: whether cuts are made from transactions.
    """
    partitions = list(by_partition(records))
    chunks = [chunk for part in (partitions if fresh is None else by_partition(fresh)) for chunk in _read(*part)]
    cuts = sorted({e.commit_ts for e in decoded.control if isinstance(e, SchemaChange) and e.commit_ts is not None})
    for table in decoded.tables:
        only = len(partitions) == 1
        chunks.extend(_rows(table, [(*partitions[0][:2], table.rows)] if only else by_partition(table.rows), cuts))
    for event in decoded.control:
        if isinstance(event, SchemaChange):
            chunks.append(
                _event("schema", event.place, schema_to_dict(event), event.commit_ts, event.database, event.table)
            )
        elif isinstance(event, Resolved):
            chunks.append(_event("resolved", event.place, {"name": origin.cut_name(event)}, event.commit_ts))
    for letter in decoded.dead:
        chunks.append(_event("dead", letter.place, dead_to_dict(letter), None, letter.database, letter.table))
    if transactions:
        chunks.extend(_transactions(decoded))
    return _batch(chunks)


def unpack(payload: bytes) -> TableBatch:
    """The table batch in the payload of a `rows` chunk; its rows have the columns that are applied."""
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        metadata, rows = reader.schema.metadata, reader.read_next_batch()
    shape, count = read_shape(metadata[b"shape"].decode()), len(rows)
    place = {"topic": metadata[b"topic"].decode(), "partition": pa.scalar(int(metadata[b"partition"]), pa.int32())}

    def column(field: pa.Field) -> pa.Array:
        if field.name in place:
            return pa.repeat(place[field.name], count)
        if field.name not in rows.schema.names:
            return pa.array([[]] * count, IRREGULAR) if field.name == "irregular" else pa.nulls(count, field.type)
        return rows.column(field.name)

    known = table_schema(shape, rows.schema.field("commit_time").type.unit)
    fields = [field for field in known if field.name in place or field.name in _APPLIED]
    return TableBatch(shape, pa.RecordBatch.from_arrays([column(f) for f in fields], schema=pa.schema(fields)))


def _read(topic: str, partition: int, records: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    at = {"rows": records.num_rows} | _at(topic, partition, *_ends(records.column("offset")))
    yield {"kind": "read"} | at
    if records.column("value").null_count == records.num_rows:
        yield {"kind": "tombstones"} | at


def _rows(table: TableBatch, parts: Iterable[_Part], cuts: list[int]) -> Iterator[dict[str, Any]]:
    shape = table.shape
    text = write_shape(shape)
    keyed = any(column.key for column in shape.columns)
    sides = ((*at, side) for *at, part in parts for side in _sides(part, cuts))
    for topic, partition, rows in sides if keyed else ((*at, run) for *at, side in sides for run in _ascending(side)):
        low, high = _ends(rows.column("commit_ts"))
        yield {
            "kind": "rows",
            "database": shape.database,
            "table": shape.table,
            "shape_id": shape.id,
            "shape": text,
            "rows": rows.num_rows,
            "min_commit_ts": low,
            "max_commit_ts": high,
            "payload": _applied(rows, {"shape": text, "topic": topic, "partition": str(partition)}),
        } | _at(topic, partition, *_ends(rows.column("offset")))


def _sides(rows: pa.RecordBatch, cuts: list[int]) -> Iterator[pa.RecordBatch]:
    """The rows up to the first of the cuts, those up to the second, …, and the rest; none of them empty."""
    low, high = _ends(rows.column("commit_ts"))
    between = [cut for cut in cuts if low is not None and low <= cut < high]
    for cut in between:
        below = pc.fill_null(pc.less_equal(rows.column("commit_ts"), pa.scalar(cut, pa.uint64())), False)
        if pc.any(below).as_py():
            yield rows.filter(below)
            rows = rows.filter(pc.invert(below))
    yield rows


def _ascending(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Splits the rows where commit_ts goes back: there the producer begins to send again."""
    ts = rows.column("commit_ts")
    back = pc.fill_null(pc.less(ts[1:], ts[:-1]), False) if len(rows) > 1 else pa.array([], pa.bool_())
    ends = [*(i + 1 for i in pc.indices_nonzero(back).to_pylist()), len(rows)]
    for start, end in zip([0, *ends], ends, strict=False):
        yield rows.slice(start, end - start)


def _transactions(decoded: Decoded) -> Iterator[dict[str, Any]]:
    parts = [_members(table) for table in decoded.tables]
    for event in decoded.control:
        document: dict[str, Any] = {"topic": event.place.topic, "partition": event.place.partition}
        if isinstance(event, TransactionMark) and event.status == "end":
            document |= {"id": event.id, "events": event.event_count, "mark": event.place.offset}
        elif isinstance(event, SchemaChange):
            document |= {"id": origin.gtid(event), "events": 0, "commit_ts": event.commit_ts}
            document["snapshot"] = origin.snapshot_mark(event)
        else:
            continue
        parts.append(pa.RecordBatch.from_pylist([document], schema=_MEMBERS))
    if not parts:
        return
    for topic, partition, rows in by_partition(pa.concat_batches(parts)):
        lines = rows.select(TRANSACTIONS.names)
        yield {"kind": "transactions", "rows": rows.num_rows, "payload": lines} | _at(topic, partition, 0, 0)


def _members(table: TableBatch) -> pa.RecordBatch:
    rows = table.rows
    transaction, nothing = rows.column("transaction"), pa.nulls(len(rows), pa.int64())
    columns = {
        "topic": rows.column("topic"),
        "partition": rows.column("partition"),
        "id": pc.struct_field(transaction, "id"),
        "order": pc.struct_field(transaction, "order"),
        "commit_ts": rows.column("commit_ts").cast(pa.int64()),
        "snapshot": _snapshot_marks(table),
        "time": rows.column("commit_time").cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64()),
    }
    return pa.RecordBatch.from_arrays([columns.get(name, nothing) for name in _MEMBERS.names], schema=_MEMBERS)


def _snapshot_marks(table: TableBatch) -> pa.Array:
    rows, shape = table.rows, table.shape
    nothing = pa.nulls(len(rows), pa.string())
    read = pc.equal(rows.column("op"), "read")
    if pc.any(read).as_py():
        marks = origin.snapshot_marks(rows.column("origin"))
        return pc.if_else(read, pc.coalesce(marks, pa.scalar("true")), nothing)
    if [c.name.lower() for c in shape.after_columns] != _SIGNAL_COLUMNS:
        return nothing
    kinds = pc.struct_field(rows.column("after"), shape.after_columns[1].name)
    if not pa.types.is_string(kinds.type):
        return nothing
    asked = pc.and_(pc.equal(rows.column("op"), "insert"), pc.is_in(kinds, value_set=pa.array(_SIGNALS)))
    return pc.if_else(pc.fill_null(asked, False), pa.scalar(SIGNAL), nothing)


def unpack_records(payload: bytes) -> pa.RecordBatch:
    """The lines in the payload of a `transactions` or `waiting` chunk."""
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        return reader.read_next_batch()


def snapshot_lines(payload: bytes) -> bytes:
    """One line for each position at which a `transactions` chunk has rows of a snapshot; payload to payload."""
    lines = unpack_records(payload)
    of_rows = pc.and_(pc.is_null(lines.column("events")), pc.is_valid(lines.column("snapshot")))
    positions = pc.unique(lines.filter(of_rows).column("commit_ts"))
    columns = {name: pa.nulls(len(positions), TRANSACTIONS.field(name).type) for name in TRANSACTIONS.names}
    columns |= {"commit_ts": positions, "snapshot": pa.repeat(pa.scalar("true"), len(positions))}
    return stream([pa.RecordBatch.from_pydict(columns, schema=TRANSACTIONS)], TRANSACTIONS)


def stream(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Returns the batches as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def pack_waiting(records: pa.RecordBatch) -> pa.RecordBatch:
    """The chunks that keep records until their remainder comes."""
    chunks = []
    for topic, partition, rows in by_partition(records):
        low, high = _ends(rows.column("offset"))
        chunks.append(_at(topic, partition, low, high) | {"kind": "waiting", "rows": rows.num_rows, "payload": rows})
    return _batch(chunks)


def pack_dated(dated: Dated) -> pa.RecordBatch:
    """The chunks that keep a partition's last records with a commit_ts until the next batch."""
    return _batch(
        [
            _at(topic, partition, 0, 0)
            | {"kind": "dated", "rows": len(records), "payload": canonical(dict(records)).encode()}
            for topic, partitions in dated.items()
            for partition, records in partitions.items()
        ]
    )


def _event(
    kind: str,
    place: Place,
    document: dict[str, Any],
    ts: int | None,
    database: str | None = None,
    table: str | None = None,
) -> dict[str, Any]:
    at = _at(place.topic, place.partition, place.offset, place.offset)
    named = {"kind": kind, "database": database, "table": table, "rows": 1, "payload": canonical(document).encode()}
    return named | at | {"min_commit_ts": ts, "max_commit_ts": ts}


def _ends(values: pa.Array) -> tuple[Any, Any]:
    """The smallest and the largest value; None where there is none."""
    extremes = pc.min_max(values).as_py()
    return extremes["min"], extremes["max"]


def _at(topic: str, partition: int, first: int, last: int) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "first_offset": first, "last_offset": last}


def by_partition(rows: pa.RecordBatch) -> Iterator[_Part]:
    """The rows of each (topic, partition), in the order of their first row."""
    if rows.num_rows == 0:
        return
    topics = pc.dictionary_encode(rows.column("topic"))
    places = topics.indices.to_numpy().astype(np.int64) << 32 | rows.column("partition").to_numpy()
    starts = _starts(places)
    if len(starts) > len(np.unique(places[starts])):  # rows of partitions take turns
        _, first, number = np.unique(places, return_index=True, return_inverse=True)
        order = np.argsort(first[number], kind="stable")
        rows, places = rows.take(pa.array(order)), places[order]
        starts = _starts(places)
    for start, end in pairwise([*starts.tolist(), len(places)]):
        place = int(places[start])
        yield topics.dictionary[place >> 32].as_py(), place & (2**32 - 1), rows.slice(start, end - start)


def _starts(places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the index of the first of each run of equal numbers."""
    return np.flatnonzero(np.diff(places, prepend=~places[0]))


def _applied(rows: pa.RecordBatch, document: dict[str, str]) -> pa.RecordBatch:
    rows = rows.select([name for name in _APPLIED if _says_something(name, rows.column(name))])
    return rows.replace_schema_metadata(document)


def _says_something(name: str, column: pa.Array) -> bool:
    if name == "irregular":
        return len(column.keys) > 0
    return name == "commit_time" or column.null_count < len(column)  # whose type is its unit


def _batch(chunks: list[dict[str, Any]]) -> pa.RecordBatch:
    """The chunks as columns, each payload written to where it stays: they are nearly all of the bytes."""
    payloads = [chunk.pop("payload", None) for chunk in chunks]
    plain = pa.RecordBatch.from_pylist(chunks, schema=CHUNKS)
    room = pa.allocate_buffer(sum(map(_most, payloads)))
    view, ends = memoryview(room).cast("B"), [0]
    for payload in payloads:
        ends.append(ends[-1] + _write(payload, view[ends[-1] :]))
    there = pa.array([payload is not None for payload in payloads], pa.bool_())
    places = pa.array(ends, pa.int32())
    column = pa.Array.from_buffers(pa.binary(), len(chunks), [there.buffers()[1], places.buffers()[1], room])
    return plain.set_column(CHUNKS.get_field_index("payload"), CHUNKS.field("payload"), column)


def _most(payload: pa.RecordBatch | bytes | None) -> int:
    if not isinstance(payload, pa.RecordBatch):
        return len(payload or b"")
    most: int = len(payload.schema.serialize()) + pa.ipc.get_record_batch_size(payload) + _END_OF_STREAM
    return most


def _write(payload: pa.RecordBatch | bytes | None, room: memoryview) -> int:
    """Writes a payload to where its room begins, rows as a stream; returns how many bytes it took."""
    if not isinstance(payload, pa.RecordBatch):
        plain = payload or b""
        room[: len(plain)] = plain
        return len(plain)
    sink = pa.FixedSizeBufferWriter(pa.py_buffer(room))
    with pa.ipc.new_stream(sink, payload.schema) as writer:
        writer.write_batch(payload)
    size: int = sink.tell()
    return size
