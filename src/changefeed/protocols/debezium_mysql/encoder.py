"""Encodes changes to records, byte for byte as the connector writes them.

    row ── its shape's wire text ──▶ rows.RowWriter ──▶ key, value, headers ──▶ after a delete: a tombstone
     └─ of another protocol: foreign_shapes.wire, origin and clock filled in; a key that changes: delete, tombstone, insert
    schema change, transaction mark, heartbeat ──▶ ddl, marks

Rule 1. Rows that were read from this protocol are written as they were read; options apply to other rows.
Rule 2. A tombstone has the offset after that of its delete, and the same headers; without envelope, the op is added again. If
        a tombstone is an event of its own, it is written instead.
Rule 3. The encoder reads no clock: if the origin has no clock reading, the time of the change is used.
Rule 4. The protocol has no resolved events, so they are not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from changefeed.columnar.events import Lines, Row, in_order, naming
from changefeed.columnar.records import Headers
from changefeed.connect import parts
from changefeed.errors import ProtocolError, UnsupportedError
from changefeed.model.batch import Decoded, RecordBuilder, TableBatch
from changefeed.model.event import Control, Heartbeat, SchemaChange, TransactionMark
from changefeed.model.position import Place
from changefeed.model.table import TableShape
from changefeed.protocols.base import Stores
from changefeed.protocols.debezium_mysql import ddl, foreign, headers, marks, notices, templates, whole_columns
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.rows import RowWriter, is_ours, row_writer
from changefeed.protocols.debezium_mysql.tombstones import is_tombstone

RecordRow = dict[str, Any]
_WRITERS = 1024  # of shapes, that are kept
_CONNECTORS = (None, "mysql", "mariadb")  # None if the source block does not have it


class Encoder:
    """Encodes as a connector with the version and modes in the options does. Caches the writers of shapes."""

    def __init__(self, options: Options, stores: Stores) -> None:
        self._options = options
        self._parts = parts.PartWriter("debezium-mysql", stores.get_schema, stores.register_schema)
        self._writer = lru_cache(_WRITERS)(self._make_writer)

    def encode(self, changed: Decoded) -> pa.RecordBatch:
        """Encodes `changed` into records; see `protocols.base.Encoder`."""
        return self.encode_events(in_order(changed))

    def encode_events(self, events: Iterable[Row | Control | Lines]) -> pa.RecordBatch:
        """Encodes events, which are in order, into records; see `protocols.by_columns`."""
        written = RecordBuilder()
        for event in events:
            if isinstance(event, Lines):
                written.add_batch(event.batch.drop_columns(["ordinal"]))
                continue
            try:
                with naming(event):
                    for number, record in enumerate(self._event(event)):
                        if number == 0 and is_tombstone(record["value"]):  # of a delete before it: see rule 2
                            written.drop_last(record)
                        written.add(record)
            except UnicodeEncodeError as error:
                message = f"debezium-mysql cannot carry text that is not UTF-8 (at {event.place})"
                raise UnsupportedError(message) from error
            except ProtocolError as error:
                raise UnsupportedError(f"debezium-mysql: {error} (at {event.place})") from error
        return written.build()

    def template(self, shape: TableShape) -> str | None:
        """Returns the template by which the kernel writes rows of a shape; see `protocols.by_columns`."""
        return templates.text(shape, self._writer(shape), self._options)

    def heads(self, table: TableBatch) -> dict[str, pa.Array]:
        """Returns the columns that the templates use."""
        return whole_columns.of(table, self._options)

    def lines(self, shape: TableShape, rows: pa.RecordBatch, keys: pa.Array | None, values: pa.Array) -> pa.RecordBatch:
        """Returns the records of rows, including tombstones, with their ordinals."""
        return whole_columns.records(shape, rows, keys, values, self._options)

    def passes_over(self, event: Control) -> bool:
        """Whether nothing is written for an event; see `protocols.by_columns`."""
        is_ours = "schemas" in event.origin
        return isinstance(event, TransactionMark) and not is_ours and not self._options.provide_transaction_metadata

    def _event(self, event: Any) -> Iterator[RecordRow]:
        match event:
            case Row():
                ours = is_ours(event.shape.wire)
                for row in (event,) if ours else foreign.rows(event, self._options):
                    yield from self._row(row)
            case SchemaChange():
                yield from self._schema_change(event)
            case TransactionMark():
                if not self.passes_over(event):
                    place = foreign.place_of(event, self._options)
                    yield self._control(place, marks.write_transaction(foreign.transaction(event, self._options)))
            case Heartbeat() if "notification" in event.origin:
                yield self._control(event.place, notices.write_notification(foreign.notification(event, self._options)))
            case Heartbeat() if "signal" in event.origin:
                yield _record(event.place, *notices.write_signal(event), ())
            case Heartbeat() if "tombstone" in event.origin:
                yield _record(event.place, *marks.write_tombstone(event), headers.write(event.origin))
            case Heartbeat():
                place = foreign.place_of(event, self._options)
                event = foreign.with_schemas(event, self._options)
                yield self._control(place, marks.write_heartbeat(event, foreign.prefix(self._options)))

    def _row(self, row: Row) -> Iterator[RecordRow]:
        writer, topic = self._writer(row.shape), row.place.topic
        key, sent_headers = writer.key_of(row), headers.write(row.origin)
        sent_key = None if writer.key is None else self._parts.write(key, writer.key_block, f"{topic}-key")
        if writer.tombstone:
            value = row.origin.get("tombstone")
            yield _record(row.place, sent_key, None if value is None else value.encode(), sent_headers)
            return
        sent_value = self._parts.write(writer.value(row), writer.block, f"{topic}-value")
        yield _record(row.place, sent_key, sent_value, sent_headers)
        if row.op == "delete" and self._options.tombstones_on_delete:
            behind = replace(row.place, offset=row.place.offset + 1)
            yield _record(
                behind, sent_key, None, headers.of_tombstone(sent_headers) if writer.unwrapped else sent_headers
            )

    def _control(self, place: Place, record: marks.RecordTrees, sent_headers: Headers = ()) -> RecordRow:
        key = None
        if record.key_block is not None:
            key = self._parts.write(record.key, record.key_block, f"{place.topic}-key")
        return _record(place, key, self._parts.write(record.value, record.block, f"{place.topic}-value"), sent_headers)

    def _make_writer(self, shape: TableShape) -> RowWriter:
        if is_ours(shape.wire):
            return row_writer(shape, shape.wire, self._options)
        return foreign.writer(shape, self._options)

    def _schema_change(self, event: SchemaChange) -> Iterator[RecordRow]:
        origin = event.origin
        if isinstance(origin.get("wire"), str) and is_ours(origin["wire"]):
            yield self._truncate(event)
            return
        if foreign.is_truncate(event):
            if "t" not in self._options.skipped:
                yield self._foreign_truncate(event)
            return
        if "tableChanges" not in origin or origin.get("connector") not in _CONNECTORS:
            if not self._options.include_schema_changes:
                return
            event = foreign.schema_change(event, self._options)
        yield self._control(event.place, ddl.write(event), headers.write(event.origin))

    def _foreign_truncate(self, event: SchemaChange) -> RecordRow:
        event, shape = foreign.truncate(event, self._options)
        writer = self._writer(shape)
        value = writer.envelope("t", None, None, event.instant, None, event.origin)
        record = marks.RecordTrees(None, None, value, writer.block)
        return self._control(event.place, record, headers.write(event.origin))

    def _truncate(self, event: SchemaChange) -> RecordRow:
        origin = event.origin
        shape = TableShape(event.database or "", event.table or "", (), wire=origin["wire"])
        writer = self._writer(shape)
        value = writer.envelope("t", None, None, event.instant, origin.get("transaction"), origin)
        key = writer.sent_key(origin)
        record = marks.RecordTrees(key, None if key is None else writer.key_block, value, writer.block)
        return self._control(event.place, record, headers.write(origin))


def _record(place: Place, key: bytes | None, value: bytes | None, sent_headers: Headers) -> RecordRow:
    return {
        "topic": place.topic,
        "partition": place.partition,
        "offset": place.offset,
        "key": key,
        "value": value,
        "headers": [{"key": name, "value": data} for name, data in sent_headers],
    }
