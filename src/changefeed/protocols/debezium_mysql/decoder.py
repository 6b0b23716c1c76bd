r"""Decodes records to changes, one record at a time: the reference decoder, which checks everything and guesses nothing.

    record ─ parts.read ─▶ key, value ─ members ─▶ row ─ shapes, images ─▶ table batches
                │                           ├────▶ schema change, transaction mark, heartbeat
                │                           └────▶ notification, signal: a heartbeat
                ├─ no value: a tombstone, which is a delete where its own is not there: see `tombstones`
                └─ any failure: a dead letter

Rule 1. A record is recognized by its members, and where rows have no envelope by schema and topic, too: see `kinds`.
Rule 2. A value that would be written in another form than it was sent, such as a double with the digits of an old Java or a
        label with escapes, is kept beside the row: the origin's `sent` has its JSON.
Rule 3. The key is part of the row. If it does not follow from the row (a column that the row lacks, a mask), the origin's
        `key` has its JSON, or its bytes if no converter of Connect data has written it (StringConverter).
Rule 4. A delete without `before` has the columns of the key; the origin's `absent` marks those that were not sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from changefeed.columnar.families import Families
from changefeed.columnar.records import Headers, dead_letter, each_record
from changefeed.connect import framings, java_json, parts
from changefeed.connect.parts import ConnectPart, check_struct
from changefeed.connect.schema import Node
from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.batch import BatchBuilder, Decoded, TableBatch
from changefeed.model.event import Control, DeadLetter, Instant, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import canonical
from changefeed.mysql.type_codes import MOST_COLUMNS
from changefeed.protocols.base import Stores
from changefeed.protocols.debezium_mysql import (
    ddl,
    envelope,
    headers,
    kinds,
    marks,
    notices,
    shapes,
    tombstones,
    unwrapped,
)
from changefeed.protocols.debezium_mysql.images import Images
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.shapes import CompiledColumn, Family
from changefeed.protocols.debezium_mysql.values.reading import show

NAME = "debezium-mysql"
# Reasons of records that may have another framing.
_UNREADABLE = frozenset(
    {"bad-json", "bad-schema", "unknown-schema", "truncated", "bad-varint", "bad-length", "trailing-bytes"}
)
_HINT = ' Is "protocol" right for this topic?'


@dataclass(frozen=True, slots=True)
class Around:
    """The members of a row other than its images; `sent` becomes part of the origin."""

    place: Place
    op: str
    time: Instant | None
    sequence: int | None
    transaction: dict[str, Any] | None
    origin: dict[str, Any]
    sent: dict[str, str]

    def whole_origin(self) -> dict[str, Any]:
        """The origin, including the values that would be written in another form than they were sent."""
        return self.origin | {"sent": self.sent} if self.sent else self.origin


class Decoder:
    """Decodes records of any version and mode. Remembers the shapes of its rows; must not be shared between threads."""

    def __init__(self, options: Options, stores: Stores) -> None:
        self._options = options
        self._parts = parts.PartReader(stores.get_schema)
        self._families: Families[Family] = Families()
        self._deletes: tombstones.Deletes = {}

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """Decodes the records; see `protocols.base.Decoder`."""
        return self.settle(records, self.decode_values(records))

    def decode_values(self, records: pa.RecordBatch) -> Decoded:
        """Decodes the records that are not tombstones; see `protocols.base.TombstoneDecoder`."""
        rows = {3: BatchBuilder("ms"), 6: BatchBuilder("us")}
        events: list[Control] = []
        dead: list[DeadLetter] = []
        for place, key, value, sent_headers in each_record(records):
            if value is None or tombstones.is_tombstone(value):
                continue
            try:
                self._record(place, key, value, sent_headers, rows, events)
            except ProtocolError as error:
                usual = _HINT if error.reason in ("bad-json", "unknown-kind") else ""
                hint = framings.hint(value, sent_headers) if error.reason in _UNREADABLE else ""
                hint = hint or usual
                letter = dead_letter(NAME, error, place, key, value, sent_headers, hint)
                database, table = self._table(value)
                dead.append(replace(letter, schema_id=parts.schema_id(value), database=database, table=table))
        return Decoded(_built(rows), events, dead)

    def settle(self, records: pa.RecordBatch, decoded: Decoded) -> Decoded:
        """Decodes the tombstones, beside the events of the other records; see `protocols.base.TombstoneDecoder`."""
        lone = [t for t in tombstones.find(records, decoded, self._deletes) if self._is_event(t, records)]
        if not lone:
            return decoded
        rows, events, dead = {3: BatchBuilder("ms"), 6: BatchBuilder("us")}, list[Control](), list[DeadLetter]()
        spelled = tombstones.spelled(decoded.tables)
        sent = each_record(records.take(pa.array([tombstone.record for tombstone in lone])))
        for tombstone, (at, key, value, sent_headers) in zip(lone, sent, strict=True):
            place = replace(at, record=tombstone.record)
            try:
                if tombstone.follows or key is None:
                    events.append(marks.read_tombstone(key, value, place, headers.read(sent_headers, {})))
                else:
                    self._tombstone(tombstone, place, key, value, sent_headers, spelled, rows)
            except ProtocolError as error:
                if tombstone.follows is None and not self._options.unwrap:
                    events.append(marks.read_tombstone(key, value, place, headers.read(sent_headers, {})))
                else:
                    dead.append(dead_letter(NAME, error, place, key, value, sent_headers))
        return Decoded(
            sorted([*decoded.tables, *_built(rows)], key=_first_record),
            sorted([*decoded.control, *events], key=lambda event: event.place.record),
            sorted([*decoded.dead, *dead], key=lambda letter: letter.place.record),
        )

    def _is_event(self, tombstone: tombstones.Tombstone, records: pa.RecordBatch) -> bool:
        """Whether a tombstone does not follow from its delete: one without a key names no row."""
        if records.column("value")[tombstone.record].is_valid:
            return True  # another form, which the encoder would not write
        return not tombstone.follows and records.column("key")[tombstone.record].is_valid

    def forget(self) -> None:
        """Forgets the shapes; see `protocols.base.Decoder`."""
        self._families.forget()

    def mark(self) -> dict[tuple[str, int], int]:
        """Returns the positions of the last deletes; see `protocols.base.OrderedDecoder`."""
        return dict(self._deletes)

    def rewind(self, mark: dict[tuple[str, int], int]) -> None:
        """Restores a state of `mark`."""
        self._deletes = dict(mark)

    def _table(self, value: bytes) -> tuple[str | None, str | None]:
        """Returns the table of a value, if it can be read; for dead letters."""
        try:
            source = self._parts.read(value, "value").payload["source"]
            return envelope.text(source, "db", "source"), envelope.text(source, "table", "source")
        except (ProtocolError, LookupError, TypeError, AttributeError):
            return None, None

    def _record(
        self,
        place: Place,
        key: bytes | None,
        value: bytes,
        sent_headers: Headers,
        rows: dict[int, BatchBuilder],
        events: list[Control],
    ) -> None:
        part = self._parts.read(value, "value")
        if not isinstance(part.payload, dict):
            raise SchemaError("value is not an object")
        if notices.is_signal(part) and kinds.kind(None, part, place.topic, self._options) == "signal":
            events.append(notices.read_signal(key, value, place))  # whose key may be any text
            return
        named = None if key is None else self._parts.read_key(key)
        match kinds.kind(named, part, place.topic, self._options):
            case "row":
                self._row(place, named, part, sent_headers, rows, events)
            case "unwrapped":
                row = unwrapped.read(named, part, place.topic, sent_headers, self._options)
                self._unwrapped(place, named, part, row, sent_headers, rows)
            case "schema change":
                source = part.payload["source"] if isinstance(part.payload["source"], dict) else {}
                events.append(ddl.read(named, part, place, headers.read(sent_headers, source)))
            case "transaction":
                events.append(marks.read_transaction(named, part, place))
            case "heartbeat":
                events.append(marks.read_heartbeat(named, part, place))
            case "notification":
                events.append(notices.read_notification(named, part, place))
            case _:
                raise ProtocolError(kinds.not_an_event(part.payload), reason="unknown-kind")

    def _row(
        self,
        place: Place,
        key: ConnectPart | None,
        value: ConnectPart,
        sent_headers: Headers,
        rows: dict[int, BatchBuilder],
        events: list[Control],
    ) -> None:
        tree = value.payload
        source = envelope.read_source(tree["source"])
        _check_members(value)
        op = envelope.OPS.get(tree["op"]) if type(tree["op"]) is str else None
        if op is None:
            raise ProtocolError(f"op {show(tree['op'])} is unknown, expected c, u, d, r or t", reason="unknown-kind")
        if source.table is None:
            raise SchemaError("row has no table - at `source.table`")
        around = Around(
            place,
            op,
            source.time,
            source.sequence,
            envelope.read_transaction(tree.get("transaction")),
            {**source.origin, "envelope": envelope.read_clock(tree), **headers.read(sent_headers, source.origin)},
            source.sent | _unknown(tree),
        )
        if op == "truncate":
            events.append(self._truncate(key, value, source, around))
        else:
            self._add(around, *self._images(op, key, value, source, around.origin), rows)

    def _tombstone(
        self,
        tombstone: tombstones.Tombstone,
        place: Place,
        key: bytes,
        value: bytes | None,
        sent_headers: Headers,
        spelled: Mapping[tuple[str, str, str], tuple[str, str]],
        rows: dict[int, BatchBuilder],
    ) -> None:
        """Adds the delete that a tombstone stands for. A topic's name may spell its table in another way than `spelled`."""
        part = self._parts.read_key(key)
        row = unwrapped.read(part, None, place.topic, sent_headers, self._options)
        database, table = spelled.get((place.topic, row.database, row.table), (row.database, row.table))
        unknown = None if self._options.unwrap else 0  # where rows have a place, before everything
        sequence = next((n for n in (row.sequence, tombstone.sequence) if n is not None), unknown)
        origin = row.origin if value is None else {**row.origin, "tombstone": value.decode()}
        row = replace(row, database=database, table=table, sequence=sequence, origin=origin)
        self._unwrapped(place, part, None, row, sent_headers, rows)

    def _unwrapped(
        self,
        place: Place,
        key: ConnectPart | None,
        value: ConnectPart | None,
        row: unwrapped.Unwrapped,
        sent_headers: Headers,
        rows: dict[int, BatchBuilder],
    ) -> None:
        columns = tuple(row.row)
        wire = unwrapped.wire_text(key, value)
        keys = None if key is None else key.names
        family = self._family(row.database, row.table, row.schema, columns, keys, wire)
        origin = {**row.origin, **headers.read(sent_headers, {})}
        if key is not None and not _is_own(key, row.row):
            origin["key"] = marks.key_text(key)
        images = Images(self._options.unavailable_value_placeholder)
        if row.schema is None:
            images.infer(columns, [row.row])
        if row.op == "delete":
            images.before = images.read(family.fields, row.row, "before", "")
        else:
            images.after = images.read(family.fields, row.row, "after", "")
        self._add(Around(place, row.op, row.time, row.sequence, None, origin, {}), images, family, rows)

    def _add(self, around: Around, images: Images, family: Family, rows: dict[int, BatchBuilder]) -> None:
        """Adds a row to the batch of its shape."""
        time = around.time
        shape = images.shape(family)
        around.sent.update(images.differing(family, shape, self._options.decimal_format == "NUMERIC"))
        rows[6 if time is None else time.digits].add(
            shape,
            around.place,
            around.op,
            before=images.before,
            after=images.after,
            sequence=around.sequence,
            commit_time=None if time is None else time.us if time.digits == 6 else time.us // 1000,
            transaction=around.transaction,
            origin=canonical(around.whole_origin()),
            irregular=images.irregular,
        )

    def _images(
        self, op: str, key: ConnectPart | None, value: ConnectPart, source: envelope.SourceBlock, origin: dict[str, Any]
    ) -> tuple[Images, Family]:
        before, after = _trees(op, value.payload)
        if op == "delete" and before is None and key is not None and key.names is not None:
            origin["absent"] = "before"
            before = key.payload
        present = [tree for tree in (before, after) if tree is not None]
        if not present:
            raise SchemaError(f"{op} has no image")
        if len(present[-1]) > MOST_COLUMNS:
            raise SchemaError(f"row has {len(present[-1])} columns, expected at most {MOST_COLUMNS}")
        family = self._compiled(key, value, source, tuple(present[-1]))
        if key is not None and ("absent" in origin or not _is_own(key, present[-1])):
            origin["key"] = marks.key_text(key)
        images = Images(self._options.unavailable_value_placeholder)
        if value.schema is None:
            if any(tree.keys() != present[-1].keys() for tree in present):
                raise SchemaError("before and after have different columns")
            images.infer(present[-1], present)
        fields = family.fields
        if "absent" in origin:
            fields = tuple(f for f in fields if f.column.name in (before or {}))
        if before is not None:
            prefix = "before." if after is not None else ""
            images.before = images.read(fields, before, "before", prefix)
        if after is not None:
            images.after = images.read(family.fields, after, "after", "")
        return images, family

    def _compiled(
        self, key: ConnectPart | None, value: ConnectPart, source: envelope.SourceBlock, names: tuple[str, ...]
    ) -> Family:
        row = _row_schema(value)
        keys = None if key is None else key.names
        return self._family(
            source.database, source.table or "", row, () if row else names, keys, shapes.wire_text(key, value)
        )

    def _family(
        self,
        database: str,
        table: str,
        row: Node | None,
        names: tuple[str, ...],
        keys: tuple[str, ...] | None,
        wire: str,
    ) -> Family:
        """Creates the family of rows with this wire text, of which `row` is a part."""
        described = (database, table, names, None if keys is None else frozenset(keys), wire)
        return self._families.of(described, lambda: _family(database, table, row, names, keys, wire))

    def _truncate(
        self, key: ConnectPart | None, value: ConnectPart, source: envelope.SourceBlock, around: Around
    ) -> SchemaChange:
        if value.payload.get("before") is not None or value.payload.get("after") is not None:
            raise SchemaError("truncate has an image")
        family = self._compiled(key, value, source, ())
        origin = around.whole_origin() | {"wire": family.wire}
        if key is not None:
            origin["key"] = marks.key_text(key)
        if around.transaction is not None:
            origin["transaction"] = around.transaction
        return ddl.truncate(source, around.place, origin)


def _built(rows: Mapping[int, BatchBuilder]) -> list[TableBatch]:
    """Builds the table batches, in the order of their first rows."""
    return sorted((table for builder in rows.values() for table in builder.build()), key=_first_record)


def _first_record(table: TableBatch) -> int:
    return int(table.shared.column("record")[table.start].as_py())


def _family(
    database: str,
    table: str,
    row: Node | None,
    names: tuple[str, ...],
    keys: tuple[str, ...] | None,
    wire: str,
) -> Family:
    fields: tuple[CompiledColumn, ...]
    fields = shapes.without_schema(names, keys) if row is None else shapes.with_schema(row, keys)
    return Family(database, table, fields, wire)


def _row_schema(value: ConnectPart) -> Node | None:
    """Returns the struct of the images in the schema; None without schema."""
    return None if value.schema is None else value.schema.row


def _check_members(value: ConnectPart) -> None:
    """Checks that images and source block have the members of their schema."""
    if value.schema is not None:
        for name in ("before", "after", "source"):
            node = value.schema.by_name.get(name)
            if node is not None:
                check_struct(value.payload[name], node, name)


def _trees(op: str, tree: dict[str, Any]) -> tuple[Any, Any]:
    before, after = tree.get("before"), tree.get("after")
    for side, image in (("before", before), ("after", after)):
        if image is not None and not isinstance(image, dict):
            raise SchemaError(f"{side} is not an object")
    wrong = after if op == "delete" else before if op != "update" else None
    if wrong is not None:
        raise SchemaError(f"{op} has {'an after' if op == 'delete' else 'a before'} image")
    if after is None and op != "delete":
        raise SchemaError(f"{op} has no after image")
    return before, after


def _is_own(key: ConnectPart, image: dict[str, Any]) -> bool:
    """Whether a key follows from its row."""
    if key.names is None:
        return False
    tree = key.payload
    return all(name in image and java_json.write(image[name]) == java_json.write(tree[name]) for name in tree)


def _unknown(tree: dict[str, Any]) -> dict[str, str]:
    names = [name for name in tree if name not in envelope.ENVELOPE]
    return {f"envelope.{name}": java_json.write(tree[name]) for name in names}
