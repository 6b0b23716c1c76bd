"""Encodes changes to records: the original bytes for events that were read from this protocol, new ones for others.

    changes ─ columnar.events ─▶ row ─ rows, images ─▶ entry ─ batching ─▶ group ─ grouping ─▶ records
                              └▶ control event ────────▲            where to: routing

Rule 1. An event whose origin has `sourceType` was read from this protocol and keeps its header. Other events get seqIds that
        count from 1, or continue after `last_number`, and the file, position and gtid of their origin, if it has them;
        the gtid of a row may also be its transaction's id. Their sourceType is the option's, until a schema change names its
        server as Debezium does (`connector`).
Rule 2. An event that goes to every partition has one seqId: its copies are recognized by it.
Rule 3. Among changes of other protocols, checkpoints are written to every partition, every checkpoint_interval seconds of
        commit time and at the end: everything before a checkpoint has been written.

Resolved events and dead letters do not exist in the protocol and are not written: see `Capabilities`.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pyarrow as pa

from changefeed.columnar.events import Row, in_order, naming
from changefeed.errors import UnsupportedError
from changefeed.model.batch import Decoded, record_batch
from changefeed.model.event import Heartbeat, Instant, SchemaChange, TransactionMark
from changefeed.model.position import Place
from changefeed.mysql import gtid
from changefeed.protocols.base import Stores
from changefeed.protocols.tencent_dts import messages as m
from changefeed.protocols.tencent_dts.batching import Groups
from changefeed.protocols.tencent_dts.envelope import Origin, write_header
from changefeed.protocols.tencent_dts.framing import SHARD
from changefeed.protocols.tencent_dts.grouping import Cutter, in_place
from changefeed.protocols.tencent_dts.options import Options
from changefeed.protocols.tencent_dts.routing import Router
from changefeed.protocols.tencent_dts.rows import RowWriter

_Event = Row | SchemaChange | TransactionMark | Heartbeat
# What an origin or a wire text of another form than the decoder's leads to.
_DAMAGED = (AttributeError, LookupError, TypeError, ValueError, struct.error)
_TAKEN = {"serverId": int, "fileName": str, "position": int, "gtid": str}


class Encoder:
    """Encodes changes. Remembers shapes, numbers, and the last checkpoint."""

    def __init__(self, options: Options, stores: Stores) -> None:
        self._options = options
        self._rows = RowWriter(options)
        self._cutter = Cutter(options.max_data_bytes)
        self._router = Router(options)
        self._groups = Groups(options.max_data_bytes, options.merge_entries)
        self.last_number = 0
        self._server = options.source_number
        self._checkpoint: int | None = None  # commit time of the last one
        self._uncovered: tuple[int, Origin] | None = None  # the last foreign event after it

    def encode(self, changes: Decoded) -> pa.RecordBatch:
        """Encodes `changes` into records; see `protocols.base.Encoder`."""
        for event in in_order(changes):
            if isinstance(event, _Event):
                try:
                    with naming(event):
                        self._event(event)
                except _DAMAGED as error:
                    raise UnsupportedError(
                        f"tencent-dts: the event at {event.place} cannot be sent: {error}"
                    ) from error
        return self._take()

    def finish(self) -> pa.RecordBatch:
        """Returns the checkpoint at the end, if changes of other protocols were written since the last one."""
        self._write_checkpoints()
        return self._take()

    def _take(self) -> pa.RecordBatch:
        records: list[dict[str, Any]] = []
        for group in self._groups.take():
            try:
                records += self._cutter.records(group.place, group.data(), group.stream, group.envelopes)
            except _DAMAGED as error:
                raise UnsupportedError(
                    f"tencent-dts: the envelopes of {group.place} cannot be sent: {error}"
                ) from error
        return record_batch(in_place(records))

    def _event(self, event: _Event) -> None:
        ours = _is_ours(event.origin)
        seconds = _seconds(event)
        if not ours:
            self._checkpoint_before(seconds)
        origin = event.origin if ours else self._origin(event.origin)
        if isinstance(event, Row) and not ours:
            origin["gtid"] = gtid.of_row(event.origin, event.transaction)
        match event:
            case Row():
                self._row(event, origin, ours, seconds)
            case SchemaChange():
                self._control(event, m.DDL, origin, ours, seconds, _ddl(event))
            case TransactionMark():
                kind = m.BEGIN if event.status == "begin" else m.COMMIT
                self._control(event, kind, origin, ours, seconds, _mark(event, ours))
            case Heartbeat() if isinstance(event.origin.get("checkpoint"), dict):
                self._control(event, m.CHECKPOINT, origin, ours, seconds, dict(event.origin["checkpoint"]))
            case Heartbeat():
                epoch = origin.get("epoch", 0) if ours else seconds
                self._control(event, m.HEARTBEAT, origin, ours, seconds, {"epoch": epoch})
        if not ours:
            self._uncovered = seconds, origin

    def _row(self, row: Row, origin: Origin, ours: bool, seconds: int) -> None:
        wire = self._rows.row(row if ours else replace(row, origin={}))
        names = {"schemaName": row.shape.database, "tableName": row.shape.table}
        header = write_header(m.DML, origin, {"timestamp": seconds, **names})
        place = self._router.row(row, wire, ours)
        self._groups.add_row(place, self._source(row.place, ours), self._placed(origin, ours), header, wire)

    def _control(
        self,
        event: SchemaChange | TransactionMark | Heartbeat,
        kind: int,
        origin: Origin,
        ours: bool,
        seconds: int,
        body: dict[str, Any],
    ) -> None:
        names = {name: origin.get(name) for name in ("schemaName", "tableName")}
        header = write_header(kind, origin, {"timestamp": seconds, **names})
        for place in self._router.all(event.place, ours):
            source, placed = self._source(event.place, ours), self._placed(origin, ours)
            self._groups.add(place, source, placed, kind, header, dict(body))

    def _source(self, place: Place, ours: bool) -> int | None:
        return place.record if ours and self._options.partitions is None else None

    def _placed(self, origin: Origin, ours: bool) -> Origin:
        """Returns the origin; with the option `shard_id` as its shard, if the record is foreign or dispatched again."""
        as_it_was = self._options.shard_id is None or (ours and self._options.partitions is None)
        return origin if as_it_was else {**origin, SHARD: self._options.shard_id}

    def _origin(self, origin: Origin) -> Origin:
        """Converts the origin of a foreign event to this protocol's members."""
        self.last_number += 1
        taken = {name: origin[name] for name, kind in _TAKEN.items() if type(origin.get(name)) is kind}
        self._server = m.SOURCES.get(str(origin.get("connector")), self._server)
        return {"sourceType": self._server, **taken, "seqId": self.last_number}

    def _checkpoint_before(self, seconds: int) -> None:
        """Writes checkpoints before an event with this commit time, if they are due."""
        if self._checkpoint is None:
            self._checkpoint = seconds
        elif seconds >= self._checkpoint + self._options.checkpoint_interval:
            self._write_checkpoints()
            self._checkpoint = seconds

    def _write_checkpoints(self) -> None:
        """Writes a checkpoint to every partition, if there were changes since the last one."""
        if self._uncovered is None or not self._options.checkpoint_interval:
            return
        (seconds, last), self._uncovered = self._uncovered, None
        body = {"syncedGtid": last.get("gtid"), "fileName": last.get("fileName"), "position": last.get("position")}
        origin = self._origin(last)
        header = write_header(m.CHECKPOINT, origin, {"timestamp": seconds})
        for place in self._router.every_partition():
            self._groups.add(place, None, self._placed(origin, False), m.CHECKPOINT, header, dict(body))


def _is_ours(origin: Origin) -> bool:
    return type(origin.get("sourceType")) is int


def _seconds(event: _Event) -> int:
    """Returns the commit time of an event in seconds; 0 if it is unknown."""
    if isinstance(event, Row):
        return (event.commit_ms or 0) // 1000
    time: Instant | None = event.instant
    return 0 if time is None else time.us // 1_000_000


def _ddl(event: SchemaChange) -> dict[str, Any]:
    if event.ddl is None:
        raise UnsupportedError(f"tencent-dts: {event.type} at {event.place} has no statement to send")
    names = {"schemaName": event.database, **(event.origin.get("ddlEvent") or {})}
    return {**names, "sql": event.ddl, "executionTime": event.origin.get("executionTime")}


def _mark(event: TransactionMark, ours: bool) -> dict[str, Any]:
    if not ours:
        return {"transactionId": event.id}
    return {name: event.origin.get(name) for name in ("transactionId", "threadId")}
