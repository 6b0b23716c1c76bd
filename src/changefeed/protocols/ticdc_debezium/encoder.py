"""Encodes changes to records, byte for byte as either producer writes them.

    changes ─ columnar.events ─▶ row ─ rows ──────────────▶ key, value ─ compression ─▶ records
                              ├▶ schema change ─ ddl ────────┤
                              └▶ resolved event ─ watermark ─┘        where to: ticdc.routing

One event is one record. Resolved events are sent with enable-tidb-extension only. What has no place in the protocol
(heartbeats, transaction marks, dead letters) is not written: see `Capabilities`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat

import pyarrow as pa

from changefeed.columnar.events import Lines, Row, in_order, naming
from changefeed.model.batch import Decoded, RecordBuilder, TableBatch, record_columns
from changefeed.model.event import Control, Heartbeat, Resolved, SchemaChange, TransactionMark
from changefeed.model.position import Place
from changefeed.model.table import TableShape
from changefeed.protocols.base import Stores
from changefeed.protocols.ticdc_debezium import blocks, ddl, envelope
from changefeed.protocols.ticdc_debezium.options import Options
from changefeed.protocols.ticdc_debezium.rows import RowWriter
from changefeed.protocols.ticdc_debezium.templates import Templates
from changefeed.ticdc import commit_ts
from changefeed.ticdc.commit_ts import needed_ts
from changefeed.ticdc.routing import OffsetCounter, Router
from changefeed.wire import compression

Message = tuple[bytes | None, bytes]


class Encoder:
    """Encodes as the producer that the options name. Remembers shapes; if it dispatches, also resolved events and offsets."""

    def __init__(self, options: Options, stores: Stores) -> None:
        self._options = options
        self._rows = RowWriter(options)
        self._templates = Templates(options, self._rows)
        self._router = Router(options.topic, options.dispatcher(), options.dispatch_rules())
        self._offsets = OffsetCounter() if options.partition_num is not None else None

    def encode(self, changes: Decoded) -> pa.RecordBatch:
        """Encodes `changes` into records; see `protocols.base.Encoder`."""
        return self.encode_events(in_order(changes))

    def encode_events(self, events: Iterable[Row | Control | Lines]) -> pa.RecordBatch:
        """Encodes events, which are in order, into records; see `protocols.by_columns`."""
        records = RecordBuilder()
        for event in events:
            if isinstance(event, Lines):
                records.add_batch(self._records(event.batch))
                continue
            with naming(event):
                for place, (key, value) in self._messages(event):
                    offset = place.offset if self._offsets is None else self._offsets.next(place)
                    parts = {"key": self._deflated(key), "value": self._deflated(value)}
                    records.add({"topic": place.topic, "partition": place.partition, "offset": offset, **parts})
        return records.build()

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
        """Returns rows with their keys, values, topics and partitions."""
        columns = {
            "ordinal": rows.column("ordinal"),
            "key": pa.nulls(len(rows), pa.binary()) if keys is None else keys,
            "value": values,
        }
        return pa.RecordBatch.from_pydict(columns | self._router.places(shape, rows, commit_ts.column(rows)))

    def _records(self, lines: pa.RecordBatch) -> pa.RecordBatch:
        self._router.went(lines)
        columns = {name: lines.column(name) for name in ("topic", "partition", "offset", "key", "value")}
        if self._offsets is not None:
            places = map(Place, columns["topic"].to_pylist(), columns["partition"].to_pylist(), repeat(0))
            columns["offset"] = [self._offsets.next(place) for place in places]
        return record_columns(len(lines), **columns)

    def _messages(self, event: Row | Control) -> Iterator[tuple[Place, Message]]:
        match event:
            case Row():
                ts = needed_ts(event, "ticdc-debezium")
                yield self._router.row(event, ts), self._rows.message(event, ts)
            case SchemaChange():
                message = ddl.write(event, self._options.cluster_id, self._options)
                if message is not None:
                    for place in self._router.schema_change(event):
                        yield place, message
            case Resolved() if self._options.enable_tidb_extension:
                for place, ts in self._router.resolved(event):
                    yield place, self._watermark(event, ts)

    def _watermark(self, event: Resolved, ts: int) -> Message:
        ours = event.origin.get("connector") == envelope.CONNECTOR
        origin = event.origin if ours else {}
        source = envelope.of(origin, "", "", ts, self._options.cluster_id)
        payload = (
            f'{{"source":{envelope.write(source)},"ts_ms":{envelope.clock(origin, ts)},"transaction":null,"op":"m"}}'
        )
        usual = blocks.watermark(source.cluster_id, self._options)
        return blocks.documents("{}", payload, origin, usual, self._options)

    def _deflated(self, text: bytes | None) -> bytes | None:
        return None if text is None else compression.deflate(text, self._options.large_message_handle_compression)
