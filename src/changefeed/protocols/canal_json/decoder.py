"""Decodes records to changes, one message at a time: the reference decoder, which checks everything and guesses nothing.

    value ─ compression ─ envelope.split ─▶ messages ─ envelope.read ─▶ rows      images ─▶ shapes ─▶ table batches
                                               │                     ├▶ DDL       schema change
                                               │                     └▶ watermark resolved
                                               └─ any failure: a dead letter for the whole record

Rule 1. `data` contains new rows for INSERT, old rows for DELETE, and new rows for UPDATE, where `old` has the old rows in the
        same order. If an UPDATE has no `old`, the old rows are unknown.
Rule 2. Columns that `old` leaves out did not change: they have the value of the new row. The origin's `old` names the columns
        that were sent, so that the same bytes can be written again.
Rule 3. If one message of a record cannot be read, the whole record is one dead letter, and none of its rows is applied.
Rule 4. Record keys are ignored: no producer writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from changefeed.columnar.families import Families
from changefeed.columnar.records import dead_letter, each_record
from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import Control, DeadLetter, Instant, Resolved
from changefeed.model.position import Place
from changefeed.model.table import canonical
from changefeed.mysql.zone import zone
from changefeed.protocols.base import Stores
from changefeed.protocols.canal_json import claim_check, ddl, envelope
from changefeed.protocols.canal_json.envelope import CanalMessage, Extension
from changefeed.protocols.canal_json.images import BEFORE, Images, Values
from changefeed.protocols.canal_json.options import NAME, Options
from changefeed.protocols.canal_json.shapes import Family, describe, family
from changefeed.protocols.canal_json.types import sql_type
from changefeed.wire import compression
from changefeed.wire.json_form import show

_HINT = ' Is "protocol" right for this topic?'


@dataclass(frozen=True, slots=True)
class DecodedRow:
    """A row that has been read, kept until its whole record has been read."""

    family: Family
    images: Images
    op: str
    before: Values | None
    after: Values | None
    commit_ts: int | None
    es: int
    origin: str


class Decoder:
    """Decodes records of TiCDC and Canal. Remembers the shapes of its rows; must not be shared between threads."""

    def __init__(self, options: Options, stores: Stores) -> None:
        compression.check_available(options.large_message_handle_compression)
        self._options = options
        self._stores = stores
        self._zone = zone(options.time_zone)
        self._families: Families[Family] = Families()

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """Decodes the records; see `protocols.base.Decoder`."""
        rows = BatchBuilder()
        control: list[Control] = []
        dead: list[DeadLetter] = []
        for place, key, value, headers in each_record(records):
            try:
                events = list(self._record(place, value))
            except ProtocolError as error:
                hint = _HINT if error.reason in ("bad-json", "unknown-kind") else ""
                letter = dead_letter(NAME, error, place, key, value, headers, hint)
                database, table = self._named(value)
                dead.append(replace(letter, database=database, table=table))
                continue
            for index, event in enumerate(events):
                at = place if len(events) == 1 else replace(place, index=index)
                if isinstance(event, DecodedRow):
                    _add(rows, event, at)
                else:
                    control.append(replace(event, place=at))
        return Decoded(rows.build(), control, dead)

    def forget(self) -> None:
        """Forgets the shapes; see `protocols.base.Decoder`."""
        self._families.forget()

    def _inflated(self, value: bytes | None) -> bytes:
        if value is None:
            raise SchemaError("record has no value")
        options = self._options
        return compression.inflate(value, options.large_message_handle_compression, options.max_inflated_bytes)

    def _record(self, place: Place, value: bytes | None) -> Iterator[DecodedRow | Control]:
        parts, start = envelope.split(self._inflated(value)), 0
        for number, line in enumerate(parts):
            text, end = envelope.parted(line)
            try:
                yield from self._message(envelope.read(text), end, place)
            except ProtocolError as error:
                several = len(parts) > 1
                within = f" in message {number + 1} of {len(parts)}" if several else ""
                byte = start + (error.byte or 0) if several else error.byte
                raise type(error)(f"{error}{within}", reason=error.reason, byte=byte) from error
            start += len(line)

    def _message(self, message: CanalMessage, end: bytes, place: Place) -> Iterator[DecodedRow | Control]:
        kept: dict[str, Any] = {"id": message.id, "ts": message.ts}
        if end:
            kept["end"] = end.decode()
        if message.gtid is not None:
            kept["gtid"] = message.gtid
        if message.type == envelope.WATERMARK and not message.is_ddl:
            yield _resolved(message, kept, place)
        elif message.is_ddl:
            yield ddl.read(message, kept, place)
        elif message.type in envelope.OPS:
            yield from self._rows(*self._whole(message, kept))
        else:
            expected = f"expected {', '.join(envelope.OPS)}, {envelope.WATERMARK} or a DDL"
            raise ProtocolError(f"type {message.type!r:.60} is unknown, {expected}", reason="unknown-kind")

    def _whole(self, message: CanalMessage, kept: dict[str, Any]) -> tuple[CanalMessage, dict[str, Any]]:
        """Returns the message itself, or the one in the claim-check file to which it refers."""
        extension = message.extension or Extension()
        if extension.claim_check is None:
            return message, kept
        data = claim_check.read(extension.claim_check, self._stores.get_body, self._options)
        stored = envelope.read(self._inflated(data))
        claim_check.check_same(message, stored)
        return stored, {**kept, "ccl": extension.claim_check}

    def _rows(self, message: CanalMessage, kept: dict[str, Any]) -> Iterator[DecodedRow]:
        _check_row_message(message)
        extension = message.extension or Extension()
        if len(message.data) > 1:
            kept["rows"] = len(message.data)
        if extension.only_handle_key:
            kept["ohk"] = True
        if extension.row_key is not None:
            kept["rowkey"] = extension.row_key
        if message.sql:
            kept["sql"] = message.sql
        for place, new in enumerate(message.data):
            yield self._row(message, kept, new, None if message.old is None else message.old[place], place)

    def _row(
        self,
        message: CanalMessage,
        kept: Mapping[str, Any],
        new: Mapping[str, str | None],
        old: Mapping[str, str | None] | None,
        place: int,
    ) -> DecodedRow:
        described = describe(
            message.types,
            tuple(new),
            None if old is None else tuple(old),
            message.database,
            message.table,
            message.keys,
        )
        made = self._families.of(described, lambda: family(described, self._zone))
        images, op = Images(), envelope.OPS[message.type]
        origin = dict(kept)
        after = images.read(made.columns, new, f"data[{place}]", "")
        before = None
        if old is not None:
            before = images.completed(images.read(made.columns, old, f"old[{place}]", BEFORE), after)
            if tuple(old) != tuple(new):
                origin["old"] = list(old)
        if place == 0:
            _keep_types(message, made, after, origin)
        if images.replaced:
            origin["replaced"] = images.replaced
        if images.sent:
            origin["sent"] = images.sent
        if op == "delete":
            before, after = after, None  # type: ignore[assignment]  # the only image is the old one
        ts = None if message.extension is None else message.extension.commit_ts
        return DecodedRow(made, images, op, before, after, ts, message.es, canonical(origin))

    def _named(self, value: bytes | None) -> tuple[str | None, str | None]:
        """Returns the table of a record, if its first message can be read; for dead letters."""
        try:
            message = envelope.read(envelope.parted(envelope.split(self._inflated(value))[0])[0])
        except ProtocolError:
            return None, None
        return message.database or None, message.table or None


def _add(rows: BatchBuilder, row: DecodedRow, place: Place) -> None:
    rows.add(
        row.family.shape(row.images.digits),
        place,
        row.op,
        before=row.before,
        after=row.after,
        commit_ts=row.commit_ts,
        commit_time=row.es,
        origin=row.origin,
        irregular=row.images.irregular,
    )


def _check_row_message(message: CanalMessage) -> None:
    if not (message.database and message.table):
        raise SchemaError("row does not name its database and table")
    if not message.data or not message.data[0]:
        raise SchemaError(f"message of type {message.type} has no rows - at `data`")
    if message.old is not None and message.type != "UPDATE":
        raise SchemaError(f"message of type {message.type} has old rows - at `old`")
    if message.old is not None and len(message.old) != len(message.data):
        raise SchemaError(f"message has {len(message.data)} rows and {len(message.old)} old rows - at `old`")
    if message.extension is not None and message.extension.commit_ts is None:
        raise SchemaError("extension of a row has no commitTs - at `_tidb`")


def _keep_types(message: CanalMessage, made: Family, image: Values, origin: dict[str, Any]) -> None:
    """Keeps `sqlType` and `mysqlType` in the origin, if the writer would write other ones for these columns."""
    types = [name for name, _ in made.described.columns]
    if list(message.types or ()) != types:
        same = sorted(message.types or ()) == sorted(types)
        origin["mysqlType"] = list(message.types or ()) if same else message.types
    usual = {name: sql_type(made.columns[name].column.type, image.get(name)) for name in types}
    if message.numbers is None or list(message.numbers.items()) != list(usual.items()):
        origin["sqlType"] = message.numbers


def _resolved(message: CanalMessage, kept: dict[str, Any], place: Place) -> Resolved:
    ts = None if message.extension is None else message.extension.watermark_ts
    if ts is None:
        raise SchemaError("watermark has no watermarkTs - at `_tidb`")
    if message.data or message.old or message.database or message.table:
        raise SchemaError(f"watermark of {show(f'{message.database}.{message.table}')} has rows or a table")
    return Resolved(ts, place, Instant(message.es * 1000, 3), kept)
