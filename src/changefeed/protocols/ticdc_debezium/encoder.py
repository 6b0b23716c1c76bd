"""Changes to records, byte for byte as either producer writes them.

    changes ─ wire.events ─▶ row ─ rows ──────────────▶ key, value ─ compression ─▶ records
                          ├▶ schema change ─ ddl ────────┤
                          └▶ resolved mark ─ watermark ──┘        where to: wire.routing

One event is one record. Resolved marks are sent with enable-tidb-extension only. What has no place in the protocol
(heartbeats, transaction marks, dead letters) is not written: see `Capabilities`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from changefeed.model.batch import Decoded, record_batch
from changefeed.model.event import Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.protocols.base import Stores
from changefeed.protocols.ticdc_debezium import blocks, ddl, source
from changefeed.protocols.ticdc_debezium.options import Options
from changefeed.protocols.ticdc_debezium.rows import RowWriter
from changefeed.wire import compression
from changefeed.wire.events import Row, in_order, needed_ts
from changefeed.wire.routing import Offsets, Router

Message = tuple[bytes | None, bytes]


class Encoder:
    """Encodes in the profile that the options name. Remembers shapes and, when it dispatches, marks and offsets."""

    def __init__(self, options: Options, stores: Stores) -> None:
        compression.check_available(options.large_message_handle_compression)
        self._options = options
        self._rows = RowWriter(options)
        self._router = Router(options.topic, options.dispatcher(), options.dispatch_rules())
        self._offsets = Offsets() if options.partition_num is not None else None

    def encode(self, changes: Decoded) -> pa.RecordBatch:
        """The records that say `changes`; see `protocols.base.Encoder`."""
        return record_batch(
            {
                "topic": place.topic,
                "partition": place.partition,
                "offset": place.offset if self._offsets is None else self._offsets.next(place),
                "key": self._deflated(key),
                "value": self._deflated(value),
            }
            for place, (key, value) in self._messages(changes)
        )

    def _messages(self, changes: Decoded) -> Iterator[tuple[Place, Message]]:
        for event in in_order(changes):
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
        ours = event.origin.get("connector") == source.CONNECTOR
        origin = event.origin if ours else {}
        found = source.of(origin, "", "", ts, self._options.cluster_id)
        payload = f'{{"source":{source.write(found)},"ts_ms":{source.clock(origin, ts)},"transaction":null,"op":"m"}}'
        usual = blocks.watermark(found.cluster_id, self._options)
        return blocks.documents("{}", payload, origin, usual, self._options)

    def _deflated(self, text: bytes | None) -> bytes | None:
        return None if text is None else compression.deflate(text, self._options.large_message_handle_compression)
