"""The Rust kernel and `changes.LogDecoder` as one decoder: the kernel reads events in bulk, the reference those that are left.

    events ─▶ kernel ─▶ rows of the registered tables                                         ─┐
                │ stops before                                                                 ├─▶ one table batch for each shape
                ├─ a table map that is not registered ─▶ reference ─▶ columns ─▶ registered    │
                └─ another event ─▶ reference ─▶ rows, schema changes, errors ────────────────┘

Rule 1. The result equals that of the reference, errors included.
Rule 2. The kernel reads a row event, and a transaction payload, completely or not at all. It leaves partial updates of JSON to
        the reference, and whatever contradicts the format.
Rule 3. Some columns, and all rows of some tables, are left to the reference: see `kernel_tables.py`.
Rule 4. What both count (records, rows of the open transaction, the last GTID) is handed over before and after each event that
        the reference reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from changefeed.codec import decoding
from changefeed.codec.placement import joined
from changefeed.errors import ProtocolError
from changefeed.model.batch import TRANSACTION, Decoded, TableBatch, table_schema
from changefeed.model.table import TableShape
from changefeed.mysql.binlog import TableMap, codes
from changefeed.mysql.binlog.events import TableMapped
from changefeed.mysql.binlog.framing import CHECKSUM_SIZE, HEADER_SIZE, read_header
from changefeed.mysql.binlog.rows import KINDS
from changefeed.sources.mysql.changes import PARTITION, TOPIC, WITHOUT_MEANING, LogDecoder, carried
from changefeed.sources.mysql.columns import irregular_column
from changefeed.sources.mysql.dump import GTIDS, LogEvent, placed
from changefeed.sources.mysql.kernel_tables import completed, description, is_left
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.tables import Captured

_POSITION = 2**40 - 1  # the bits of a position in its number
READ_KINDS = [(code, kind.op, kind.version, kind.compressed) for code, kind in KINDS.items() if not kind.partial]


def is_available() -> bool:
    """Whether a kernel is installed that reads binary logs."""
    return hasattr(getattr(decoding.changefeed_kernel, "BinlogRows", None), "payload")


class KernelLogDecoder(LogDecoder):
    """Collects the changes of the events from a position on, up to another one.

    Attributes:
        at: the position after the last event that was read.
    """

    def __init__(
        self,
        captured: Captured,
        start: LogPosition,
        end: LogPosition,
        maps: Iterable[bytes] = (),
        prepared: Collection[LogPosition] = (),
        undone: Collection[LogPosition] = (),
    ) -> None:
        """Begins at an event; `maps`, `prepared` and `undone` as of `LogDecoder`. Events at or behind `end` are not read."""
        super().__init__(captured, maps, prepared=prepared, undone=undone)
        self._place = start  # any position in the file that is read
        self._kernel = decoding.changefeed_kernel.BinlogRows(
            at=start.number, end=end.number, ignored=bytes(WITHOUT_MEANING), gtids=bytes(GTIDS), rows=bytes(KINDS),
            kinds=READ_KINDS,
        )  # fmt: skip
        self._registered: list[TableMap] = []  # by the kernel's number
        self._mapped: deque[TableMap] = deque(maxlen=1)  # the last one

    @property
    def at(self) -> LogPosition:
        """See the class."""
        return self._position(self._kernel.at)

    def _position(self, number: int) -> LogPosition:
        """A position in the file that is read."""
        return replace(self._place, position=number & _POSITION)

    def feed(self, events: bytes) -> None:
        """Adds bytes of events that follow each other."""
        self._kernel.feed(events)

    def run(self, most_rows: int) -> str:
        """Reads the events that were added.

        Returns:
            `full` after so many rows, or more; `end` before an event at or behind the end; `more` if all were read.

        Raises:
            SourceError, UnsupportedError: see `LogDecoder.add`.
        """
        while True:
            stop, data = self._kernel.run(max(1, most_rows - super().count))
            if stop == "map":
                self._register(data)
            elif stop == "event":
                self._read(placed(data, self.at))
                if self.count >= most_rows:
                    return "full"
            else:
                return str(stop)

    def _register(self, data: bytes, *, in_payload: bool = False) -> None:
        """Registers a table map."""
        body = data[HEADER_SIZE : -CHECKSUM_SIZE if self._has_checksums and not in_payload else None]
        if not self._maps_captured(data):
            self._kernel.register(body, captured=False)
            return
        event = placed(data, self.at)
        if in_payload:
            for part in self._parser.in_payload(data, read_header(data, event.at.position)):
                self._part(part, event)
        else:
            self.add(event)
        self._parser.end_statement()
        table = self._mapped[-1]
        if id(table) not in self._tables:
            self._kernel.register(body, captured=False)
            return
        described = description(table, self._tables[id(table)][1])
        if self._kernel.register(body, captured=True, description=described) is not None:
            self._registered.append(table)

    def _map(self, part: TableMapped) -> None:
        super()._map(part)
        self._mapped.append(part.table)

    def _read(self, event: LogEvent) -> None:
        """Reads an event by the reference."""
        is_read = event.code == codes.TRANSACTION_PAYLOAD and self._read_payload(event)
        self._take_over()
        maps = self._maps
        if event.code in KINDS:
            for table_map in self._kernel.maps():
                self.add(LogEvent(codes.TABLE_MAP, event.at, event.at, table_map, placed=False))
        if not is_read:
            self.add(event)
        self._parser.end_statement()
        self._place = event.end
        self._kernel.resume(event.end.number, self._open_rows)
        self._kernel.number_records(len(self._records))
        if event.code == codes.FORMAT_DESCRIPTION:
            self._kernel.set_checksums(self._has_checksums)
            for table_map in maps:
                if not self._kernel.add_map(table_map):
                    self._register(table_map)
                    self._kernel.add_map(table_map)

    def _read_payload(self, event: LogEvent) -> bool:
        """Reads a transaction payload by the kernel; whether it could."""
        try:
            events = self._parser.inflate(event.data)
            while (stopped := self._kernel.payload(events, event.at.number))[0] == "map":
                self._register(stopped[1], in_payload=True)
        except ProtocolError:
            return False  # the reference names what is wrong
        return bool(stopped[0] == "more")

    @property
    def _has_checksums(self) -> bool:
        return self._parser.format is not None and self._parser.format.checksum

    def _take_over(self) -> None:
        """Takes over the counts of the kernel: Rule 4."""
        self._records += self._kernel.take_records()
        self._open_rows = self._kernel.open_rows
        gtid = self._kernel.take_gtid()
        if gtid is not None:
            number, data = gtid
            at, end = self._position(number), self._position(number + len(data))
            self._gtid = LogEvent(data[4], at, end, data, placed=True)

    def mark(self, at: LogPosition) -> None:
        """See `LogDecoder.mark`."""
        self._take_over()
        super().mark(at)

    def decoded(self) -> tuple[Decoded, pa.RecordBatch]:
        """See `LogDecoder.decoded`."""
        self._take_over()
        tables = [self._table(*part) for part in self._kernel.finish()]
        decoded, records = super().decoded()
        self._kernel.number_records(0)
        return Decoded(joined([*decoded.tables, *tables]), decoded.control), records

    def _table(self, number: int, before: list[int] | None, after: list[int] | None, *read: Any) -> TableBatch:
        """A table batch of rows that the kernel has read; `before` and `after` are the columns of its images, None: all."""
        rows, times, irregular = read
        table = self._registered[number]
        columns = self._tables[id(table)][1]
        shape = TableShape(
            table.database, table.table, columns, carried(table, columns, before), carried(table, columns, after)
        )
        count, schema = len(rows), table_schema(shape, "s")
        left = {column.name: column for column in table.columns if is_left(column)}
        old, _ = completed(rows.column("before"), shape.before_type, shape.before_columns, left)
        new, irregular_after = completed(rows.column("after"), shape.after_type, shape.after_columns, left)
        known = {
            "topic": pa.repeat(TOPIC, count),
            "partition": pa.repeat(pa.scalar(PARTITION, pa.int32()), count),
            "offset": rows.column("commit_ts").cast(pa.int64()),
            "sequence": pa.nulls(count, pa.uint64()),
            "commit_time": times,
            "transaction": pa.nulls(count, TRANSACTION),
            "before": old,
            "after": new,
            "irregular": irregular_column(sorted(irregular + irregular_after), shape, count),
        }
        arrays = [known[name] if name in known else rows.column(name) for name in schema.names]
        return self._rules.batch(TableBatch(shape, pa.RecordBatch.from_arrays(arrays, schema=schema)))

    @property
    def count(self) -> int:
        """Number of rows that were collected."""
        return super().count + self.rows_of_kernel

    @property
    def rows_of_kernel(self) -> int:
        """Number of those that the kernel has read."""
        return int(self._kernel.count)
