"""Encodes changes to records, byte for byte as either producer writes them.

    changes ─ columnar.events ─▶ row ─ rows ─▶ message ─ too large? ─▶ batching ─▶ framing ─▶ records
                              └▶ schema change, resolved event ───────────┘
                                                  where to: ticdc.routing

Events that the protocol cannot represent (heartbeats, transaction marks, dead letters) are not written: see `Capabilities`.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from changefeed.columnar.events import Lines, Row, in_order, naming
from changefeed.errors import ConfigError, UnsupportedError
from changefeed.model.batch import Decoded, TableBatch, record_columns
from changefeed.model.event import Control, Heartbeat, Resolved, SchemaChange, TransactionMark
from changefeed.model.table import TableShape
from changefeed.protocols.base import Stores
from changefeed.protocols.ticdc_open import claim_check, envelope, framing
from changefeed.protocols.ticdc_open.batching import Batches, alone
from changefeed.protocols.ticdc_open.options import Options
from changefeed.protocols.ticdc_open.rows import RowWriter
from changefeed.protocols.ticdc_open.templates import Templates
from changefeed.ticdc import commit_ts
from changefeed.ticdc.claim_check import new_file_name
from changefeed.ticdc.commit_ts import needed_ts
from changefeed.ticdc.ddl_actions import CODES
from changefeed.ticdc.routing import OffsetCounter, Router
from changefeed.wire import compression
from changefeed.wire.strict_json import marked


class Encoder:
    """Encodes as the producer in the options does. Remembers shapes; if it dispatches, also resolved events and offsets."""

    def __init__(self, options: Options, stores: Stores) -> None:
        self._options = options
        self._stores = stores
        self._rows = RowWriter(options)
        self._templates = Templates(options, self._rows)
        self._router = Router(options.topic, options.dispatcher(), options.dispatch_rules())
        self._offsets = OffsetCounter() if options.partition_num is not None else None

    def encode(self, changes: Decoded) -> pa.RecordBatch:
        """Encodes `changes` into records; see `protocols.base.Encoder`."""
        return self.encode_events(in_order(changes))

    def encode_events(self, events: Iterable[Row | Control | Lines]) -> pa.RecordBatch:
        """Encodes events, which are in order, into records; see `protocols.by_columns`."""
        batches = Batches(self._options.max_batch_size, self._options.max_message_bytes)
        for event in events:
            if isinstance(event, Lines):
                self._router.went(event.batch)
                batches.add_rows(event.batch)
                continue
            with naming(event):
                match event:
                    case Row():
                        self._row(event, batches)
                    case SchemaChange():
                        self._schema_change(event, batches)
                    case Resolved():
                        self._resolved(event, batches)
        done = batches.take()
        return record_columns(
            len(done),
            topic=[place.topic for place, _, _ in done],
            partition=[place.partition for place, _, _ in done],
            offset=[place.offset if self._offsets is None else self._offsets.next(place) for place, _, _ in done],
            key=[key for _, key, _ in done],
            value=[value for _, _, value in done],
        )

    def passes_over(self, event: Control) -> bool:
        """Whether nothing is written for an event; see `protocols.by_columns`."""
        return isinstance(event, TransactionMark | Heartbeat)

    def template(self, shape: TableShape) -> str | None:
        """Returns the template by which the kernel writes rows of a shape; see `protocols.by_columns`."""
        self._router.check(shape)
        return self._templates.text(shape)

    def heads(self, table: TableBatch) -> dict[str, pa.Array]:
        """Returns the columns that the templates use."""
        return self._templates.heads(table)

    def lines(self, shape: TableShape, rows: pa.RecordBatch, keys: pa.Array | None, values: pa.Array) -> pa.RecordBatch:
        """Returns rows with their framed messages, as `Batches.add_rows` takes them."""
        record = rows.column("record")
        source = record if self._rows.shape(shape).ours else pa.nulls(len(rows), record.type)
        columns = {"ordinal": rows.column("ordinal"), "source": source, "key": keys, "value": values}
        return pa.RecordBatch.from_pydict(columns | self._router.places(shape, rows, commit_ts.column(rows)))

    def _row(self, row: Row, batches: Batches) -> None:
        key, value = self._message(row)
        source = row.place.record if self._rows.shape(row.shape).ours else None
        batches.add_row(self._router.row(row, needed_ts(row, "ticdc-open")), source, key, value)

    def _message(self, row: Row) -> tuple[bytes, bytes]:
        """Returns the message of a row; if it is too large, the reduced one that the options allow."""
        option = self._options.large_message_handle_option
        if option == "claim-check" and "ccl" in row.origin:
            return self._checked_in(row, self._rows.message(row), row.origin["ccl"])
        message = self._rows.message(row)
        if alone(*message) <= self._options.max_message_bytes:
            return message
        if option == "handle-key-only":
            return self._within(row, self._rows.message(row, handle_only=True))
        if option == "claim-check":
            return self._checked_in(row, message, None)
        return self._within(row, message)

    def _checked_in(self, row: Row, message: tuple[bytes, bytes], location: str | None) -> tuple[bytes, bytes]:
        """Stores the complete message as a claim-check file; returns the message that refers to it."""
        if self._stores.put_body is None:
            raise ConfigError("large-message-handle-option claim-check needs a claim-check store to write to")
        content = claim_check.body(*framing.join([message]))
        if location is None:
            uri = (self._options.claim_check_storage_uri or "").rstrip("/")
            location = f"{uri}/{new_file_name(content)}"
        self._stores.put_body(claim_check.file_name(location), content)
        return self._within(row, self._rows.message(row, handle_only=True, ccl=location))

    def _within(self, row: Row, message: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        limit = self._options.max_message_bytes
        if alone(*message) > limit:
            raise UnsupportedError(
                f"ticdc-open: {row} needs a message of "
                f"{alone(*message)} bytes, max-message-bytes is {limit} (ErrMessageTooLarge): raise it or set "
                "large-message-handle-option"
            )
        return message

    def _schema_change(self, event: SchemaChange, batches: Batches) -> None:
        if event.ddl is None:
            raise UnsupportedError(f"ticdc-open: {event.type} at {event.place} has no statement to send")
        ts = needed_ts(event, "ticdc-open")
        code = event.origin.get("t")
        if not isinstance(code, int):
            code = CODES.get(event.type, 0)
        key = envelope.EventKey(ts, envelope.DDL, event.database or "", event.table or "")
        query = event.ddl
        if self._rows.classic and "replaced" in event.origin:
            query = marked(query, event.origin["replaced"])
        value = envelope.write_ddl(query, code, self._rows.json).encode("utf-8", "surrogateescape")
        value = compression.deflate(value, self._options.large_message_handle_compression)
        for place in self._router.schema_change(event):
            batches.add_alone(place, self._key(key), value)

    def _resolved(self, event: Resolved, batches: Batches) -> None:
        for place, ts in self._router.resolved(event):
            batches.add_alone(place, self._key(envelope.EventKey(ts, envelope.RESOLVED)), b"")

    def _key(self, key: envelope.EventKey) -> bytes:
        return envelope.write_key(key, self._rows.json, classic=self._rows.classic).encode("utf-8", "surrogateescape")
