"""Encodes changes to records, byte for byte as either producer writes them.

    changes ─ columnar.events ─▶ row ─ key changed? ─▶ rows ─▶ key, value ─▶ records
                              └▶ schema change, resolved event ─▶ marks ───────┘        where to: ticdc.routing

Rule 1. A foreign row whose handle key changes is two records: the delete of the old key, then the insert; with
        output-raw-change-event it stays one update. A row that was read from this protocol is written as it was.
Rule 2. Schema changes and resolved events exist with watermarks alone; otherwise they are not written, and neither is
        what the protocol cannot represent (heartbeats, transaction marks, dead letters): see `Capabilities`.
Rule 3. Marks that were read from this protocol stay where they were: the producer sent a copy to each topic. Foreign marks
        go to the topic of the topic rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from changefeed.columnar.events import Row, in_order, naming
from changefeed.errors import UnsupportedError
from changefeed.model.batch import Decoded, record_batch
from changefeed.model.event import Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.protocols.base import Stores
from changefeed.protocols.ticdc_avro import marks
from changefeed.protocols.ticdc_avro.options import NAME, Options
from changefeed.protocols.ticdc_avro.rows import RowWriter
from changefeed.protocols.ticdc_avro.schema_text import CHECKSUM, CORRUPTED, VERSION
from changefeed.ticdc import tso
from changefeed.ticdc.commit_ts import commit_ts
from changefeed.ticdc.ddl_actions import CODES
from changefeed.ticdc.routing import OffsetCounter, Router

_OVERHEAD = 36  # what Kafka adds to a record at most
_CODE_LIMIT = 2**31


class Encoder:
    """Encodes as the producer in the options does. Remembers shapes; if it dispatches, also resolved events and offsets."""

    def __init__(self, options: Options, stores: Stores) -> None:
        self._options = options
        self._rows = RowWriter(options, stores)
        self._router = Router(options.topic, options.dispatcher(), options.dispatch_rules())
        self._foreign = False  # whether a row or a foreign schema change has been seen
        self._offsets = OffsetCounter() if options.partition_num is not None else None

    def encode(self, changes: Decoded) -> pa.RecordBatch:
        """Encodes `changes` into records; see `protocols.base.Encoder`.

        Raises:
            SchemaRegistryError: the schema registry refuses a schema or cannot be reached.
        """
        return record_batch(record for event in in_order(changes) for record in self._named(event))

    def _named(self, event: Any) -> Iterator[dict[str, Any]]:
        with naming(event):
            yield from self._event(event)

    def _event(self, event: Any) -> Iterator[dict[str, Any]]:
        match event:
            case Row():
                for part in self._split(event):
                    yield self._row(part)
            case SchemaChange() if self._options.watermarks:
                value = self._schema_change(event)
                self._foreign |= type(event.origin.get("type")) is not int
                for place in self._places(event):
                    yield self._record(place, None, value)
            case Resolved() if self._options.watermarks:
                for place, ts in self._marked(event):
                    yield self._record(place, None, marks.write_ts(marks.RESOLVED, ts))

    def _record(self, place: Place, key: bytes | None, value: bytes | None) -> dict[str, Any]:
        offset = place.offset if self._offsets is None else self._offsets.next(place)
        return {"topic": place.topic, "partition": place.partition, "offset": offset, "key": key, "value": value}

    def _row(self, row: Row) -> dict[str, Any]:
        ts = commit_ts(row)
        place = self._router.row(row, ts or 0)
        key, value = self._rows.key(row, place.topic), self._rows.value(row, place.topic, ts)
        length, limit = len(key or b"") + len(value or b"") + _OVERHEAD, self._options.max_message_bytes
        if length > limit:
            raise UnsupportedError(
                f"{NAME} cannot carry {row}: it needs a message of {length} bytes, max-message-bytes is {limit} "
                "(ErrMessageTooLarge)"
            )
        if key is None and value is None:
            raise UnsupportedError(f"{NAME} cannot carry {row}: the table has no handle key to delete by")
        return self._record(place, key, value)

    def _split(self, row: Row) -> Iterator[Row]:
        """Returns the row, or a delete and an insert if its handle key changes."""
        writers = self._rows.shape(row.shape, row.after is None)
        self._foreign |= not writers.ours
        if writers.ours or self._options.output_raw_change_event or not _moves(row):
            yield row
            return
        prefix = "before."
        old = {name[len(prefix) :]: data for name, data in row.irregular.items() if name.startswith(prefix)}
        new = {name: data for name, data in row.irregular.items() if not name.startswith(prefix)}
        yield replace(row, op="delete", after=None, irregular=old)
        insert = replace(row, op="insert", before=None, irregular=new)
        if self._options.bug_compat and self._options.profile == "classic" and self._options.checksums:
            insert = replace(insert, origin={**row.origin, CHECKSUM: "0", CORRUPTED: False, VERSION: 0})
        yield insert

    def _schema_change(self, event: SchemaChange) -> bytes:
        ts = commit_ts(event)
        if event.ddl is None or ts is None or not 0 <= ts < tso.LIMIT:
            missing = "statement" if event.ddl is None else "commit_ts and no commit time"
            raise UnsupportedError(f"{NAME}: {event.type} at {event.place} has no {missing}")
        code = event.origin.get("type")
        if type(code) is not int or not 0 <= code < _CODE_LIMIT:
            code = CODES.get(event.type, 0)
        return marks.write_ddl(event, code, ts)

    def _places(self, event: SchemaChange) -> Iterator[Place]:
        if self._stays:
            yield event.place
        else:
            yield from self._router.schema_change(event)

    def _marked(self, event: Resolved) -> Iterator[tuple[Place, int]]:
        if self._stays:
            yield event.place, event.commit_ts
        else:
            yield from self._router.resolved(event)

    @property
    def _stays(self) -> bool:
        return self._offsets is None and not self._foreign


def _moves(row: Row) -> bool:
    """Whether the row's handle key changes."""
    before, after, keys = row.before, row.after, row.shape.keys
    if before is None or after is None or not all(name in before and name in after for name in keys):
        return False
    return any(before[name] != after[name] for name in keys)
