"""Chunks: how decoded changes travel through Spark, whatever their tables' columns are.

One chunk is one row of plain columns to plan by and a payload to apply:

    kind            payload
    rows            Arrow IPC stream of those columns of one table batch that are applied, without columns that have no content;
                    its shape, topic and partition are in the schema's metadata
    schema          JSON, one schema change      ┐
    resolved        JSON, one mark               │ as `model.event` has them
    dead            JSON, one dead letter        ┘
    places          ┐ Arrow IPC stream: how rows are recognized when they are sent again, see `frames.sent`; `places` if rows
    sent            ┘ have a place in a binlog
    transactions    Arrow IPC stream: which row belongs to which transaction, see `frames.transactions`
    waiting         Arrow IPC stream of records whose remainder has not come yet
    dated           JSON, the records that bound the commit_ts of this partition's later rows: see `stages.missing_ts`; and how
                    its records end, for later tombstones: see `stages.lone_tombstones`
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

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.partitions import Part, by_partition, by_partitions
from changefeed.frames.payloads import dead_to_dict, read_shape, schema_to_dict, write_shape
from changefeed.frames.sent import LINES, keyless_lines, sent_lines
from changefeed.frames.transactions import TRANSACTIONS, snapshot_positions, transaction_lines
from changefeed.model.batch import Decoded, TableBatch, no_irregular, table_schema
from changefeed.model.event import Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.model.shared_rows import column_of_tables
from changefeed.model.table import TableShape, canonical
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
# Of a table batch, beside the topic and partition that all rows of a chunk share.
_APPLIED = ("op", "commit_ts", "commit_time", "offset", "index", "before", "after", "irregular")
_TYPES = {field.name: field.type for field in table_schema(TableShape("", "", ()))}
_UNPACKED = [name for name in _TYPES if name in ("topic", "partition", *_APPLIED)]
# A topic, a partition, and rows of a table in it.
_Run = tuple[str, int, TableBatch]


def pack(
    decoded: Decoded,
    records: pa.RecordBatch,
    fresh: pa.RecordBatch | None = None,
    *,
    transactions: bool = False,
    keyed: bool = False,
) -> pa.RecordBatch:
    """Packs decoded records into chunks: their changes, and the offsets that were read.

    Args:
        fresh: those of the records that count as read now; None for all.
        transactions: whether cuts are made from transactions.
        keyed: see `frames.sent.sent_lines`.
    """
    partitions = by_partition(records)
    chunks = [chunk for part in (partitions if fresh is None else by_partition(fresh)) for chunk in _read(*part)]
    cuts = sorted({e.commit_ts for e in decoded.control if isinstance(e, SchemaChange) and e.commit_ts is not None})
    tables = [table for table in decoded.tables if len(table)]
    chunks.extend(_rows(_runs(tables, partitions, cuts)))
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
        for topic, partition, lines in transaction_lines(decoded):
            at = _at(topic, partition, 0, 0)
            chunks.append({"kind": "transactions", "rows": lines.num_rows, "payload": lines} | at)
    for topic, partition, lines in sent_lines(decoded, places=transactions, keyed=keyed):
        ends = _ends(lines.column("offset"))
        named = {"kind": "places" if transactions else "sent", "rows": lines.num_rows, "payload": lines}
        chunks.append(named | _at(topic, partition, *ends))
    return _batch(chunks)


def unpack(payload: bytes) -> TableBatch:
    """The table batch in the payload of a `rows` chunk; its rows have the columns that are applied."""
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        metadata, rows = reader.schema.metadata, reader.read_next_batch()
    shape, count = read_shape(metadata[b"shape"].decode()), len(rows)
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    columns["topic"] = pa.repeat(metadata[b"topic"].decode(), count)
    columns["partition"] = pa.repeat(pa.scalar(int(metadata[b"partition"]), pa.int32()), count)
    arrays = [columns[name] if name in columns else _without_content(name, shape, count) for name in _UNPACKED]
    return TableBatch(shape, pa.RecordBatch.from_arrays(arrays, names=_UNPACKED))


def _without_content(name: str, shape: TableShape, count: int) -> pa.Array:
    """A column that `pack` leaves out."""
    if name == "irregular":
        return no_irregular(count)
    kind = shape.before_type if name == "before" else shape.after_type if name == "after" else _TYPES[name]
    return pa.nulls(count, kind)


def _read(topic: str, partition: int, records: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    at = {"rows": records.num_rows} | _at(topic, partition, *_ends(records.column("offset")))
    yield {"kind": "read"} | at
    if records.column("value").null_count == records.num_rows:
        yield {"kind": "tombstones"} | at


def _runs(tables: list[TableBatch], partitions: list[Part], cuts: list[int]) -> list[_Run]:
    """Divides the rows of tables into those that become chunks: of one partition, and on one side of each of the cuts."""
    if not tables:
        return []
    if len(partitions) == 1:
        runs = [(*partitions[0][:2], table) for table in tables]
    else:
        runs = [part for parts in by_partitions(tables) for part in parts]
    if cuts:
        ends = _extremes([table for *_, table in runs], "commit_ts")
        runs = [
            (topic, partition, side)
            for (topic, partition, table), (low, high) in zip(runs, ends, strict=True)
            for side in _sides(table, low, high, cuts)
        ]
    return [
        (topic, partition, run)
        for topic, partition, table in runs
        for run in ([table] if any(column.key for column in table.shape.columns) else _ascending(table))
    ]


def _rows(runs: list[_Run]) -> Iterator[dict[str, Any]]:
    tables = [table for *_, table in runs]
    extremes = zip(_extremes(tables, "commit_ts"), _extremes(tables, "offset"), strict=True)
    for (topic, partition, table), ((low, high), offsets) in zip(runs, extremes, strict=True):
        shape, text = table.shape, write_shape(table.shape)
        yield {
            "kind": "rows",
            "database": shape.database,
            "table": shape.table,
            "shape_id": shape.id,
            "shape": text,
            "rows": len(table),
            "min_commit_ts": low,
            "max_commit_ts": high,
            "payload": _applied(table.rows, {"shape": text, "topic": topic, "partition": str(partition)}),
        } | _at(topic, partition, *offsets)


def _sides(table: TableBatch, low: int | None, high: int | None, cuts: list[int]) -> Iterator[TableBatch]:
    """The rows up to the first of the cuts, those up to the second, …, and the rest; none of them empty.

    Args:
        low, high: the smallest and the largest commit_ts of the rows, if any has one.
        cuts: in ascending order.
    """
    between = [] if low is None or high is None else cuts[bisect_left(cuts, low) : bisect_left(cuts, high)]
    for cut in between:
        below = pc.fill_null(pc.less_equal(table.rows.column("commit_ts"), pa.scalar(cut, pa.uint64())), False)
        if pc.any(below).as_py():
            yield TableBatch(table.shape, table.rows.filter(below))
            table = TableBatch(table.shape, table.rows.filter(pc.invert(below)))
    yield table


def _ascending(table: TableBatch) -> Iterator[TableBatch]:
    """Splits the rows where commit_ts goes back: there the producer begins to send again."""
    ts = table.rows.column("commit_ts")
    back = pc.fill_null(pc.less(ts[1:], ts[:-1]), False) if len(ts) > 1 else pa.array([], pa.bool_())
    ends = [*(i + 1 for i in pc.indices_nonzero(back).to_pylist()), len(ts)]
    for start, end in zip([0, *ends], ends, strict=False):
        yield table.slice(start, end - start)


def unpack_records(payload: bytes) -> pa.RecordBatch:
    """The lines in the payload of a `transactions`, `places`, `sent` or `waiting` chunk."""
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        return reader.read_next_batch()


def snapshot_lines(payload: bytes) -> bytes:
    """One line for each position at which a `transactions` chunk has rows of a snapshot; payload to payload."""
    return stream([snapshot_positions(unpack_records(payload))], TRANSACTIONS)


def lines_without_key(payload: bytes) -> bytes:
    """The lines of a `places` or `sent` chunk that are of rows without a key; payload to payload."""
    return stream([keyless_lines(unpack_records(payload))], LINES)


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
            if records
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


def _extremes(tables: list[TableBatch], name: str) -> list[tuple[Any, Any]]:
    """`_ends` of an integer column of each of the tables, computed for all together; none is empty."""
    if not tables:
        return []
    values = column_of_tables(tables, name)
    limits = np.iinfo(values.type.to_pandas_dtype())
    starts = list(accumulate(map(len, tables[:-1]), initial=0))
    low = np.minimum.reduceat(values.fill_null(int(limits.max)).to_numpy(), starts).tolist()
    high = np.maximum.reduceat(values.fill_null(int(limits.min)).to_numpy(), starts).tolist()
    some = np.logical_or.reduceat(values.is_valid().to_numpy(zero_copy_only=False), starts).tolist()
    return [(least, most) if any_ else (None, None) for least, most, any_ in zip(low, high, some, strict=True)]


def _at(topic: str, partition: int, first: int, last: int) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "first_offset": first, "last_offset": last}


def _applied(rows: pa.RecordBatch, document: dict[str, str]) -> pa.RecordBatch:
    rows = rows.select([name for name in _APPLIED if _says_something(name, rows.column(name))])
    return rows.replace_schema_metadata(document)


def _says_something(name: str, column: pa.Array) -> bool:
    if name == "irregular":
        return len(column.keys) > 0
    return name == "commit_time" or column.null_count < len(column)  # whose type is its unit


def _batch(chunks: list[dict[str, Any]]) -> pa.RecordBatch:
    """The chunks as columns."""
    payloads = [chunk.pop("payload", None) for chunk in chunks]
    plain = pa.RecordBatch.from_pylist(chunks, schema=CHUNKS)
    sink, ends = pa.BufferOutputStream(), [0]
    for payload in payloads:
        if isinstance(payload, pa.RecordBatch):
            with pa.ipc.new_stream(sink, payload.schema) as writer:
                writer.write_batch(payload)
        elif payload is not None:
            sink.write(payload)
        ends.append(sink.tell())
    there = pa.array([payload is not None for payload in payloads], pa.bool_())
    places = pa.array(ends, pa.int32())
    column = pa.Array.from_buffers(pa.binary(), len(chunks), [there.buffers()[1], places.buffers()[1], sink.getvalue()])
    return plain.set_column(CHUNKS.get_field_index("payload"), CHUNKS.field("payload"), column)
