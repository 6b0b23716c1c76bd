"""Encodes changes to records, byte for byte as either producer writes them.

    changes ─ columnar.events ─▶ rows of one message ─ rows ─▶ message ─ too large? ─▶ records
                              ├▶ schema change ────────────────┤
                              └▶ resolved event ─ watermark ───┘         where to: ticdc.routing

Rule 1. A message has one row, and a record one message. Rows that were read from one message stay together, and so do the
        messages of one record, which are one per line.
Rule 2. Resolved events are sent with enable-tidb-extension only.
Rule 3. When dispatched again, a schema change goes to partition 0 alone, as TiCDC sends it.

Events that the protocol cannot represent (heartbeats, transaction marks, dead letters) are not written: see `Capabilities`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from changefeed.columnar.events import Row, in_order, naming
from changefeed.errors import ConfigError, UnsupportedError
from changefeed.model.batch import Decoded, RecordBuilder
from changefeed.model.event import Control, Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.protocols.base import Stores
from changefeed.protocols.canal_json import claim_check, ddl, text
from changefeed.protocols.canal_json.envelope import LAST_MS, WATERMARK, write
from changefeed.protocols.canal_json.options import NAME, Options
from changefeed.protocols.canal_json.rows import TYPES, RowWriter
from changefeed.ticdc import tso
from changefeed.ticdc.claim_check import new_file_name
from changefeed.ticdc.commit_ts import needed_ts
from changefeed.ticdc.routing import OffsetCounter, Router
from changefeed.wire import compression
from changefeed.wire.strict_json import marked

OVERHEAD = 36  # what Kafka adds to a record at most

Line = tuple[Place, int | None, str, str]  # where to, the record that it came in, text, line end


class Encoder:
    """Encodes in the way that the options name. Remembers shapes; if it dispatches, also resolved events and offsets."""

    def __init__(self, options: Options, stores: Stores) -> None:
        self._options = options
        self._stores = stores
        self._rows = RowWriter(options)
        self._canal = options.profile == "canal"
        self._string = text.canal if self._canal else text.ticdc
        self._router = Router(options.topic, options.dispatcher(), options.dispatch_rules())
        self._offsets = OffsetCounter() if options.partition_num is not None else None

    def encode(self, changes: Decoded) -> pa.RecordBatch:
        """Encodes `changes` into records; see `protocols.base.Encoder`."""
        records = RecordBuilder()
        for place, value in _joined(self._lines(in_order(changes))):
            offset = place.offset if self._offsets is None else self._offsets.next(place)
            value = compression.deflate(value, self._options.large_message_handle_compression)
            records.add(
                {"topic": place.topic, "partition": place.partition, "offset": offset, "key": None, "value": value}
            )
        return records.build()

    def _lines(self, events: list[Row | Control]) -> Iterator[Line]:
        for several in self._messages(events):
            event = several[0]
            with naming(event):
                match event:
                    case Row():
                        yield self._row_line(several)  # type: ignore[arg-type]  # rows alone are several
                    case SchemaChange():
                        yield from self._schema_change(event)
                    case Resolved() if self._options.enable_tidb_extension:
                        yield from self._resolved(event)

    def _messages(self, events: list[Row | Control]) -> Iterator[list[Row | Control]]:
        """Yields rows that were read from one message together in a list, and every other event in a list of its own."""
        at = 0
        while at < len(events):
            event, count = events[at], 1
            if isinstance(event, Row):
                count_sent = self._rows.origin(event).get("rows", 1)
                count = self._together(events, at, count_sent if isinstance(count_sent, int) else 1)
            yield events[at : at + count]
            at += count

    def _together(self, events: list[Row | Control], at: int, most: int) -> int:
        """Returns how many events, from this one on, were read from the same message."""
        first, count = events[at], 1
        while count < most and at + count < len(events):
            other = events[at + count]
            if not (isinstance(other, Row) and isinstance(first, Row) and self._same_message(first, other)):
                break
            count += 1
        return count

    def _same_message(self, first: Row, other: Row) -> bool:
        def message(row: Row) -> tuple[Any, ...]:
            place, shape = row.place, row.shape
            record = place.topic, place.partition, place.offset, place.record
            return *record, TYPES[row.op], shape.database, shape.table, shape.wire, row.origin.get("rows")

        return message(first) == message(other)

    def _row_line(self, rows: Sequence[Row]) -> Line:
        first = rows[0]
        ts = needed_ts(first, NAME)
        es = first.commit_ms if first.commit_ms is not None else tso.milliseconds(ts)
        if not 0 <= es <= LAST_MS:
            raise UnsupportedError(f"{NAME} cannot carry a commit time of {es} ms since 1970")
        origin, place = self._rows.origin(first), self._router.row(first, ts)
        return place, self._source(first), self._message(rows, es, ts), _end(origin)

    def _source(self, row: Row) -> int | None:
        return row.place.record if self._rows.origin(row) else None

    def _message(self, rows: Sequence[Row], es: int, ts: int) -> str:
        """Returns the message of rows; if it is too large, the reduced one that the options allow."""
        option, location = self._options.large_message_handle_option, self._rows.origin(rows[0]).get("ccl")
        message = self._rows.message(rows, es, ts)
        if option == "claim-check" and isinstance(location, str):
            return self._checked_in(rows, es, ts, message, location)
        if self._size(message) <= self._options.max_message_bytes:
            return message
        if option == "handle-key-only":
            return self._within(rows, self._rows.message(rows, es, ts, handle_only=True))
        if option == "claim-check":
            return self._checked_in(rows, es, ts, message, None)
        return self._within(rows, message)

    def _size(self, message: str) -> int:
        value = compression.deflate(text.encoded(message), self._options.large_message_handle_compression)
        return len(value) + OVERHEAD

    def _within(self, rows: Sequence[Row], message: str) -> str:
        limit = self._options.max_message_bytes
        if self._size(message) > limit:
            raise UnsupportedError(
                f"{NAME}: {rows[0]} needs a message of {self._size(message)} bytes, max-message-bytes is {limit} "
                "(ErrMessageTooLarge): raise it or set large-message-handle-option"
            )
        return message

    def _checked_in(self, rows: Sequence[Row], es: int, ts: int, message: str, location: str | None) -> str:
        """Stores the complete message as a claim-check file; returns the message that refers to it."""
        if self._stores.put_body is None:
            raise ConfigError("large-message-handle-option claim-check needs a claim-check store to write to")
        options = self._options
        value = compression.deflate(text.encoded(message), options.large_message_handle_compression)
        content = claim_check.body(value, raw=options.claim_check_raw_value)
        if location is None:
            location = f"{(options.claim_check_storage_uri or '').rstrip('/')}/{new_file_name(content)}"
        self._stores.put_body(claim_check.file_name(location), content)
        return self._within(rows, self._rows.message(rows, es, ts, handle_only=True, ccl=location))

    def _schema_change(self, event: SchemaChange) -> Iterator[Line]:
        ours = {"id", "ts", "type"} <= event.origin.keys() and isinstance(event.origin["ts"], int)
        origin: Mapping[str, Any] = event.origin if ours else {}
        kind = ddl.message_type(event, origin)
        ts = needed_ts(event, NAME)
        es = event.instant.us // 1000 if event.instant is not None else tso.milliseconds(ts)
        query = event.ddl or ""
        if "replaced" in origin:
            query = marked(query, origin["replaced"])
        members = self._control(origin, es) | {
            "database": self._string(event.database or ""),
            "table": self._string(event.table or ""),
            "isDdl": "true",
            "type": self._string(kind),
            "sql": self._string(query),
        }
        if self._options.enable_tidb_extension:
            members["_tidb"] = f'{{"commitTs":{ts}}}'
        message = write(members, canal=self._canal, marshalled=True)
        source = event.place.record if ours else None
        for place in self._router.schema_change(event):
            if self._offsets is None or place.partition == 0:
                yield place, source, message, _end(origin)

    def _resolved(self, event: Resolved) -> Iterator[Line]:
        ours = {"id", "ts"} <= event.origin.keys() and isinstance(event.origin["ts"], int)
        origin: Mapping[str, Any] = event.origin if ours else {}
        for place, ts in self._router.resolved(event):
            own = event.instant is not None and ts == event.commit_ts
            es = event.instant.us // 1000 if event.instant is not None and own else tso.milliseconds(ts)
            members = self._control(origin, es) | {"type": f'"{WATERMARK}"', "_tidb": f'{{"watermarkTs":{ts}}}'}
            message = write(members, canal=self._canal, marshalled=True)
            yield place, event.place.record if ours else None, message, _end(origin)

    def _control(self, origin: Mapping[str, Any], es: int) -> dict[str, str]:
        """Returns the members of a message without rows."""
        if not 0 <= es <= LAST_MS:
            raise UnsupportedError(f"{NAME} cannot carry a commit time of {es} ms since 1970")
        nothing = dict.fromkeys(("pkNames", "sqlType", "mysqlType", "data", "old"), "null")
        return {
            "id": str(origin.get("id", 0)),
            "database": '""',
            "table": '""',
            "isDdl": "false",
            "es": str(es),
            "ts": str(origin.get("ts", es)),
            "sql": '""',
            **nothing,
            **self._rows.gtid(origin, None),
        }


def _end(origin: Mapping[str, Any]) -> str:
    """Returns the line end after a message; empty if the message was alone in its record."""
    end = origin.get("end", "")
    return end if end in ("\n", "\r\n") else ""


def _joined(lines: Iterator[Line]) -> Iterator[tuple[Place, bytes]]:
    """Joins messages to record values: messages that were lines of one record become one value again."""
    place, source, value = None, None, ""
    for at, record, message, end in lines:
        same = place is not None and (at.topic, at.partition, record) == (place.topic, place.partition, source)
        if place is not None and same and record is not None and value.endswith("\n"):
            value += message + end
            continue
        if place is not None:
            yield place, text.encoded(value)
        place, source, value = at, record, message + end
    if place is not None:
        yield place, text.encoded(value)
