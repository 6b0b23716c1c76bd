"""The lines that tell which row belongs to which transaction: where cuts are made from transactions.

There is one line for every row, for the end of every transaction, and for every schema change. A row has id and order
where it has a transaction. The end of a transaction has its number of events, and where it lies: mark; and the number of events
of each table, as text, where the producer sends it: tables. A schema change has
0 events, and an id where it is counted like a transaction. Of a snapshot, `snapshot` is the mark of its row or schema
change, and SIGNAL for the row that requests one from Debezium, or reports the progress of an incremental one. `time` is a
row's commit time in milliseconds: that of a schema change may be when the connector read it, another one each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.partitions import Part, by_partition
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import SchemaChange, TransactionMark
from changefeed.model.shared_rows import column_of_tables, stretches
from changefeed.model.table import TableShape
from changefeed.protocols import origin

TRANSACTIONS = pa.schema(
    [
        ("id", pa.string()),
        ("order", pa.int64()),
        ("commit_ts", pa.int64()),
        ("events", pa.int64()),
        ("mark", pa.int64()),
        ("snapshot", pa.string()),
        ("time", pa.int64()),
        ("tables", pa.string()),
    ]
)
SIGNAL = "signal"
_SIGNALS = ["execute-snapshot", "snapshot-window-open", "snapshot-window-close"]
_SIGNAL_COLUMNS = ["id", "type", "data"]
_LINES = pa.schema([("topic", pa.string()), ("partition", pa.int32()), *TRANSACTIONS])
_MILLISECONDS = pa.timestamp("ms", tz="UTC")


def transaction_lines(decoded: Decoded) -> Iterator[Part]:
    """The lines of each partition."""
    tables = [table for table in decoded.tables if len(table)]
    parts = [_lines_of_rows(tables)] if tables else []
    controls = []
    for event in decoded.control:
        document: dict[str, Any] = {"topic": event.place.topic, "partition": event.place.partition}
        if isinstance(event, TransactionMark) and event.status == "end":
            document |= {"id": event.id, "events": event.event_count, "mark": event.place.offset}
            document["tables"] = _counted(event.tables or {})
        elif isinstance(event, SchemaChange):
            document |= {"id": origin.gtid(event), "events": 0, "commit_ts": event.commit_ts}
            document["snapshot"] = origin.snapshot_mark(event)
        else:
            continue
        controls.append(document)
    if controls:
        parts.append(pa.RecordBatch.from_pylist(controls, schema=_LINES))
    if parts:
        for topic, partition, lines in by_partition(pa.concat_batches(parts)):
            yield topic, partition, lines.select(TRANSACTIONS.names)


def _lines_of_rows(tables: list[TableBatch]) -> pa.RecordBatch:
    """The lines of the rows of all tables, computed together: a batch may contain a thousand tables with a few rows each."""
    transaction = column_of_tables(tables, "transaction")
    columns = {
        "topic": column_of_tables(tables, "topic"),
        "partition": column_of_tables(tables, "partition"),
        "id": pc.struct_field(transaction, "id"),
        "order": pc.struct_field(transaction, "order"),
        "commit_ts": column_of_tables(tables, "commit_ts").cast(pa.int64()),
        "snapshot": _snapshot_marks(tables),
        "time": _milliseconds(tables).cast(pa.int64()),
    }
    nothing = {field.name: pa.nulls(len(transaction), field.type) for field in _LINES}
    return pa.RecordBatch.from_pydict(nothing | columns, schema=_LINES)


def _counted(tables: Mapping[str, int]) -> str | None:
    """Tables with their numbers of events, as text for people; None if they are not known."""
    if len(tables) == 1:
        return next(iter(tables))
    return ", ".join(f"{name} ({count})" for name, count in sorted(tables.items())) or None


def _milliseconds(tables: list[TableBatch]) -> pa.Array:
    if len({table.schema.field("commit_time").type for table in tables}) > 1:
        times = [rows.column("commit_time").cast(_MILLISECONDS, safe=False) for _, rows in stretches(tables)]
        return pa.concat_arrays(times)
    return column_of_tables(tables, "commit_time").cast(_MILLISECONDS, safe=False)


def _snapshot_marks(tables: list[TableBatch]) -> pa.Array:
    reads = pc.any(pc.equal(column_of_tables(tables, "op"), "read")).as_py()
    if not reads and not any(_may_signal(table.shape) for table in tables):
        return pa.nulls(sum(map(len, tables)), pa.string())
    return pa.concat_arrays([_snapshot_marks_of(table) for table in tables])


def _may_signal(shape: TableShape) -> bool:
    return len(shape.after_columns) == len(_SIGNAL_COLUMNS) and all(
        column.name.lower() == name for column, name in zip(shape.after_columns, _SIGNAL_COLUMNS, strict=True)
    )


def _snapshot_marks_of(table: TableBatch) -> pa.Array:
    rows, shape = table.rows, table.shape
    nothing = pa.nulls(len(rows), pa.string())
    read = pc.equal(rows.column("op"), "read")
    if pc.any(read).as_py():
        marks = origin.snapshot_marks(rows.column("origin"))
        return pc.if_else(read, pc.coalesce(marks, pa.scalar("true")), nothing)
    if not _may_signal(shape):
        return nothing
    kinds = pc.struct_field(rows.column("after"), [shape.after_columns[1].name])
    if not pa.types.is_string(kinds.type):
        return nothing
    asked = pc.and_(pc.equal(rows.column("op"), "insert"), pc.is_in(kinds, value_set=pa.array(_SIGNALS)))
    return pc.if_else(pc.fill_null(asked, False), pa.scalar(SIGNAL), nothing)


def snapshot_positions(lines: pa.RecordBatch) -> pa.RecordBatch:
    """One line for each position at which the lines have rows of a snapshot."""
    of_rows = pc.and_(pc.is_null(lines.column("events")), pc.is_valid(lines.column("snapshot")))
    positions = pc.unique(lines.filter(of_rows).column("commit_ts"))
    columns = {name: pa.nulls(len(positions), TRANSACTIONS.field(name).type) for name in TRANSACTIONS.names}
    columns |= {"commit_ts": positions, "snapshot": pa.repeat(pa.scalar("true"), len(positions))}
    return pa.RecordBatch.from_pydict(columns, schema=TRANSACTIONS)
