"""Streams of events with the kernel: it reads large row events, one at a time, and the reference all else.

    events ─┬─ a row event of some size ─▶ kernel ─▶ Arrow columns ┐
            └─ any other ─▶ `changes.LogDecoder` ──────────────────┴─▶ one table batch for each shape

Rule 1. The result equals that of the reference, errors included: what the kernel does not read completely, the reference reads.
Rule 2. One event at a time, because each has its details: its place, and the numbers of its rows in the transaction.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.codec import decoding
from changefeed.codec.placement import joined
from changefeed.model.batch import Decoded, TableBatch, no_irregular, table_schema
from changefeed.model.table import TableShape
from changefeed.mysql.binlog import TableMap, codes
from changefeed.mysql.binlog.events import TableMapped
from changefeed.mysql.binlog.framing import CHECKSUM_SIZE, HEADER_SIZE, read_header
from changefeed.mysql.binlog.rows import KINDS
from changefeed.sources.mysql.changes import PARTITION, TOPIC, LogDecoder
from changefeed.sources.mysql.columns import irregular_column
from changefeed.sources.mysql.definitions import Definitions
from changefeed.sources.mysql.dump import LogEvent
from changefeed.sources.mysql.kernel_decoder import READ_KINDS, is_available
from changefeed.sources.mysql.kernel_tables import completed, description, is_left
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.tables import Captured
from changefeed.sources.mysql.transactions import (
    Numbers,
    RowDetails,
    Transactions,
    origin_column,
    time_column,
    transaction_column,
)

_ID = slice(HEADER_SIZE, HEADER_SIZE + 6)
_FLAGS, _END_OF_STATEMENT = HEADER_SIZE + 6, 1
_LEAST = 1000  # bytes of an event: smaller ones cost the reference less than a call of the kernel


def event_decoder(
    captured: Captured,
    maps: Iterable[bytes],
    transactions: Transactions,
    definitions: Definitions,
    prepared: Collection[LogPosition],
) -> LogDecoder:
    """Returns the decoder of a stream of events, see `LogDecoder`: with the kernel, if one is installed."""
    made = KernelEventDecoder if is_available() else LogDecoder
    return made(captured, maps, transactions, definitions, prepared=prepared)


@dataclass(frozen=True, slots=True)
class _EventRows:
    """The rows of one event."""

    record: int
    place: int
    op: str
    details: RowDetails
    before: pa.StructArray
    after: pa.StructArray
    irregular: pa.Array | None

    @property
    def count(self) -> int:
        return len(self.after)


class KernelEventDecoder(LogDecoder):
    """Collects the changes of consecutive events with their details."""

    def __init__(
        self,
        captured: Captured,
        maps: Iterable[bytes] = (),
        transactions: Transactions | None = None,
        definitions: Definitions | None = None,
        prepared: Collection[LogPosition] = (),
    ) -> None:
        """See `LogDecoder`."""
        super().__init__(captured, maps, transactions, definitions, prepared)
        self._kernel = decoding.changefeed_kernel.BinlogRows(
            at=0, end=sys.maxsize, ignored=b"", gtids=b"", rows=bytes(KINDS), kinds=READ_KINDS
        )
        self._mapped: TableMap | None = None  # the last one
        self._statement: dict[bytes, tuple[bytes, TableMap]] = {}  # table maps by the table's number in the log
        self._registered: dict[int, bool] = {}  # by `id` of the table map
        self._read_rows: dict[TableShape, list[_EventRows]] = {}

    def add(self, event: LogEvent) -> None:
        """See `LogDecoder`."""
        is_rows = event.code in KINDS
        if not (is_rows and event.placed and len(event.data) >= _LEAST and self._read(event)):
            self._mapped = None
            super().add(event)
            if event.code == codes.TABLE_MAP and self._mapped is not None:
                self._statement[event.data[_ID]] = (event.data, self._mapped)
            elif event.code == codes.FORMAT_DESCRIPTION and self._parser.format is not None:
                self._kernel.set_checksums(self._parser.format.checksum)
        if is_rows and event.data[_FLAGS] & _END_OF_STATEMENT:
            self._statement.clear()

    def _map(self, part: TableMapped) -> None:
        super()._map(part)
        self._mapped = part.table

    def _read(self, event: LogEvent) -> bool:
        """Reads a row event by the kernel; whether it could."""
        table_map, table = self._statement.get(event.data[_ID], (b"", None))
        if table is None or id(table) not in self._tables or not self._is_registered(table_map, table):
            return False
        kernel = self._kernel
        kernel.resume(event.at.number, 0)
        kernel.add_map(table_map)
        kernel.feed(event.data)
        stop, _ = kernel.run(sys.maxsize)
        parts = kernel.finish()
        if stop != "more":
            kernel.resume(event.end.number, 0)
        return bool(stop == "more" and len(parts) == 1 and self._add(table, event, *parts[0][1:]))

    def _is_registered(self, table_map: bytes, table: TableMap) -> bool:
        """Whether the kernel reads rows of a table."""
        if id(table) not in self._registered:
            body = table_map[HEADER_SIZE : -CHECKSUM_SIZE if self._has_checksums else None]
            described = description(table, self._tables[id(table)][1])
            self._registered[id(table)] = (
                described is not None and self._kernel.register(body, captured=True, description=described) is not None
            )
        return self._registered[id(table)]

    def _add(
        self,
        table: TableMap,
        event: LogEvent,
        before: list[int] | None,
        after: list[int] | None,
        rows: pa.RecordBatch,
        times: pa.Array,
        irregular: list[tuple[int, int, bytes]],
    ) -> bool:
        """Adds the rows that the kernel has read of an event; False if the reference has to read them."""
        assert self._transactions is not None
        shape = self._shape(table, None if before is None else tuple(before), None if after is None else tuple(after))
        left = {column.name: column for column in table.columns if is_left(column)}
        old, _ = completed(rows.column("before"), shape.before_type, shape.before_columns, left)
        new, more = completed(rows.column("after"), shape.after_type, shape.after_columns, left)
        op, count, irregular = rows.column("op")[0].as_py(), len(rows), sorted(irregular + more)
        if (old.type, new.type) != (shape.before_type, shape.after_type):
            return False
        moved = _moved(old, new, shape) if op == "update" else np.zeros(count, np.int64)
        if moved is None:
            return False
        details = self._transactions.details(read_header(event.data, event.at.position), moved, event.at, shape)
        self._read_rows.setdefault(shape, []).append(
            _EventRows(
                self._record(event.at.number), event.at.number, op, details, old, new,
                irregular_column(irregular, shape, count) if irregular else None,
            )
        )  # fmt: skip
        self._open_rows += count
        if event.data[_FLAGS] & _END_OF_STATEMENT:
            self._parser.end_statement()
        return True

    @property
    def _has_checksums(self) -> bool:
        return self._parser.format is not None and self._parser.format.checksum

    def decoded(self) -> tuple[Decoded, pa.RecordBatch]:
        """See `LogDecoder`."""
        tables = [self._rules.batch(_built(shape, events)) for shape, events in self._read_rows.items()]
        self._read_rows = {}
        decoded, records = super().decoded()
        return Decoded(joined([*decoded.tables, *tables]), decoded.control), records

    @property
    def count(self) -> int:
        """See `LogDecoder`."""
        return super().count + self.rows_of_kernel

    @property
    def rows_of_kernel(self) -> int:
        """Number of those that the kernel has read."""
        return sum(event.count for events in self._read_rows.values() for event in events)


def _moved(before: pa.StructArray, after: pa.StructArray, shape: TableShape) -> Numbers | None:
    """Does for columns what `transactions.moved` does for rows; None where the values of a key do not show it.

    A key has no NULL, but a value that its column cannot hold is one. NaN, -0 and nested values may be equal in Python alone.
    """
    old, new = (
        [name for name in shape.keys if name in {column.name for column in columns}]
        for columns in (shape.before_columns, shape.after_columns)
    )
    changed = np.zeros(len(after), np.int64)
    for old_name, new_name in zip(old, new, strict=True) if len(old) == len(new) else ():
        t = shape.by_name[old_name].type
        values, others = pc.struct_field(before, [old_name]), pc.struct_field(after, [new_name])
        if pa.types.is_nested(t.arrow) or pa.types.is_floating(t.arrow) or t.name == "decimal":
            return None
        if values.null_count or others.null_count or values.type != others.type:
            return None
        changed |= pc.not_equal(values, others).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return changed


def _built(shape: TableShape, events: Sequence[_EventRows]) -> TableBatch:
    """The rows of some events as a table batch."""
    counts, details = [event.count for event in events], [event.details for event in events]
    count, schema = sum(counts), table_schema(shape, "us")

    def of_rows(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(np.repeat(np.fromiter(values, np.int64), counts)).cast(kind)

    irregular = no_irregular(count)
    if any(event.irregular is not None for event in events):
        irregular = pa.concat_arrays([event.irregular or no_irregular(event.count) for event in events])
    columns = {
        "record": of_rows((event.record for event in events), pa.int32()),
        "topic": pa.repeat(TOPIC, count),
        "partition": pa.repeat(pa.scalar(PARTITION, pa.int32()), count),
        "offset": of_rows((event.place for event in events), pa.int64()),
        "index": pa.array(np.concatenate([np.arange(event.count) for event in events]), pa.int32()),
        "op": pa.array([event.op for event in events]).take(of_rows(range(len(events)), pa.int64())),
        "commit_ts": of_rows((event.place for event in events), pa.uint64()),
        "sequence": pa.nulls(count, pa.uint64()),
        "commit_time": time_column(details),
        "transaction": transaction_column(details),
        "origin": origin_column(details),
        "before": pa.concat_arrays([event.before for event in events]),
        "after": pa.concat_arrays([event.after for event in events]),
        "irregular": irregular,
    }
    return TableBatch(shape, pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema))
