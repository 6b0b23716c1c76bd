r"""Decodes records to changes, one message at a time: the reference decoder, which checks everything and guesses nothing.

    record ─ framing.split ─▶ messages ─ envelope.read_… ─▶ images ─ shapes ─▶ readers ─▶ table batches
                                 │                              └─ claim check: the same for the stored message
                                 └─ any failure: a dead letter, only for the message if the framing is valid

Rule 1. `d` is a delete; `u` with a non-empty `p` is an update; `u` alone or with an empty `p` is an insert, or an upsert if
        the producer runs with output-old-value=false.
Rule 2. Columns that `p` leaves out are filled in with their values in `u`. The origin's `p` names the columns that were
        sent, so that the same bytes can be written again.
Rule 3. classic writes `\ufffd` for a byte that is not UTF-8, and an unescaped U+FFFD if the text has one. Both are read as
        U+FFFD; the origin's `replaced` has the ordinals of the former, so that the same bytes can be written again.
Rule 4. An old value without its column's name (see `envelope`, rule 3) belongs to the only column that is NULL in `u`,
        missing in `p`, and equal in t and f. If there are several, the old value of each is unknown: absent from before.
Rule 5. A record with more than 100 failing messages is one dead letter, and none of its rows is applied.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from changefeed.columnar.families import Families
from changefeed.columnar.records import dead_letter, each_record
from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import Control, DeadLetter, Instant, Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import canonical
from changefeed.mysql.zone import zone
from changefeed.protocols.base import Stores
from changefeed.protocols.ticdc_open import claim_check, envelope, framing, partial
from changefeed.protocols.ticdc_open.envelope import Described, EventKey, Image, Nameless
from changefeed.protocols.ticdc_open.images import Images
from changefeed.protocols.ticdc_open.options import Options
from changefeed.protocols.ticdc_open.shapes import LIMIT, CompiledColumn, Family, compile_column, wire_text
from changefeed.ticdc import tso
from changefeed.ticdc.ddl_actions import action
from changefeed.wire import compression
from changefeed.wire.strict_json import unmarked

NAME = "ticdc-open"
_MOST_DEAD = 100
_HINT = ' Is "protocol" right for this topic?'


class Decoder:
    """Decodes records of either producer. Remembers the shapes of its rows; must not be shared between threads."""

    def __init__(self, options: Options, stores: Stores) -> None:
        compression.check_available(options.large_message_handle_compression)
        self._options = options
        self._stores = stores
        self._zone = zone(options.time_zone)
        self._insert = "insert" if options.output_old_value else "upsert"
        self._compile = lru_cache(LIMIT)(self._compile_image)
        self._families: Families[Family] = Families()

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """Decodes the records; see `protocols.base.Decoder`."""
        rows = BatchBuilder()
        control: list[Control] = []
        dead: list[DeadLetter] = []
        for place, key, value, headers in each_record(records):
            try:
                messages = framing.split(key, value)
                self._check_readable(messages)
            except ProtocolError as error:
                letter = dead_letter(NAME, error, place, key, value, headers, _HINT)
                database, table = _named_by_all(key)
                dead.append(replace(letter, database=database, table=table))
                continue
            for index, message in enumerate(messages):
                several = len(messages) > 1
                at = Place(place.topic, place.partition, place.offset, index, place.record) if several else place
                try:
                    self._message(message, at, rows, control)
                except ProtocolError as error:
                    within = f" in message {index + 1} of {len(messages)}" if several else ""
                    letter = dead_letter(NAME, error, at, key, value, headers, within=within)
                    database, table = _named(message.key)
                    dead.append(replace(letter, database=database, table=table))
        return Decoded(rows.build(), control, dead)

    def forget(self) -> None:
        """Forgets the shapes; see `protocols.base.Decoder`."""
        self._families.forget()

    def _check_readable(self, messages: list[framing.EventFrame]) -> None:
        """Refuses a record with too many failing messages, because each would be a dead letter with the whole record."""
        failed, nowhere = 0, Place("", 0, 0)
        for message in messages if len(messages) > _MOST_DEAD else ():
            try:
                self._message(message, nowhere, BatchBuilder(), [], keep=False)
            except ProtocolError as error:
                failed += 1
                if failed > _MOST_DEAD:
                    text = f"more than {_MOST_DEAD} messages cannot be read, the last: {error}"
                    raise ProtocolError(text, reason="too-large", byte=error.byte) from error

    def _message(
        self,
        message: framing.EventFrame,
        place: Place,
        rows: BatchBuilder,
        control: list[Control],
        *,
        keep: bool = True,
    ) -> None:
        try:
            key = envelope.read_key(message.key)
        except ProtocolError as error:
            raise _moved(error, message.key_at) from error
        try:
            if key.kind == envelope.RESOLVED:
                control.append(_resolved(key, message.value, place))
            elif key.kind == envelope.DDL:
                control.append(_schema_change(key, self._inflated(message.value), place))
            elif key.ccl is not None:
                self._stored_row(key, place, rows, keep)
            else:
                self._row(key, self._inflated(message.value), place, rows, keep)
        except ProtocolError as error:
            raise _moved(error, message.value_at) from error

    def _inflated(self, value: bytes) -> bytes:
        if not value:
            raise SchemaError("message has no value")
        options = self._options
        return compression.inflate(value, options.large_message_handle_compression, options.max_inflated_bytes)

    def _stored_row(self, key: EventKey, place: Place, rows: BatchBuilder, keep: bool) -> None:
        """Reads the complete row from the claim-check store instead of the row in the message."""
        message = claim_check.read(key, self._stores.get_body, self._options.claim_check_max_bytes)
        stored = envelope.read_key(message.key)
        claim_check.check_same(key, stored)
        self._row(stored, self._inflated(message.value), place, rows, keep, ccl=key.ccl)

    def _row(
        self, key: EventKey, value: bytes, place: Place, rows: BatchBuilder, keep: bool, ccl: str | None = None
    ) -> None:
        """Adds a row; `keep` lets later rows join its shape."""
        row = envelope.read_row(value)
        images = Images()
        origin = _origin(key, ccl)
        if row.deleted is not None:
            images.before = images.read(self._compile(row.deleted.described), row.deleted.values, "d")
            op, family = "delete", self._family(key.schema, key.table, row.deleted.described)
        elif row.new is not None:
            images.after = images.read(self._compile(row.new.described), row.new.values, "u")
            op, family = self._insert, self._family(key.schema, key.table, row.new.described)
            if row.old is not None and (row.old.values or row.nameless):
                op, family = "update", self._old(key, row.new, row.old, row.nameless, images, origin)
            elif row.old is not None:
                origin["p"] = []
        if images.replaced:
            origin["replaced"] = images.replaced
        rows.add(
            family.shape(images.digits_of(family.temporal), keep=keep),
            place,
            op,
            before=images.before,
            after=images.after,
            commit_ts=key.ts,
            commit_time=tso.milliseconds(key.ts),
            origin=canonical(origin) if origin else None,
            irregular=images.irregular,
        )

    def _old(
        self,
        key: EventKey,
        new: Image,
        old: Image,
        nameless: tuple[tuple[int, Nameless], ...],
        images: Images,
        origin: dict[str, Any],
    ) -> Family:
        """Reads the old row into `images`; returns the family of the two rows together."""
        if old.described == new.described:
            images.before = images.read(self._compile(old.described), old.values, "p", "before.")
            return self._family(key.schema, key.table, new.described)
        for _, value in nameless:  # whichever column it belongs to, it is a value of its type
            Images().read(self._compile((("nameless", value.t, value.h, value.f),)), [value.value], "p")
        completed = partial.complete(new, old, nameless)
        if completed.sent is not None:
            origin["p"] = completed.sent
        named = images.read(self._compile(completed.old.described), completed.old.values, "p", "before.")
        images.before = images.filled(named, completed.before)
        if completed.same:
            return self._family(key.schema, key.table, new.described)
        return self._family(key.schema, key.table, new.described, completed.old.described, completed.before)

    def _compile_image(self, described: tuple[Described, ...]) -> tuple[CompiledColumn, ...]:
        return tuple(compile_column(d, self._zone, self._options.legacy_v4) for d in described)

    def _family(
        self,
        database: str,
        table: str,
        described: tuple[Described, ...],
        old: tuple[Described, ...] = (),
        before: tuple[str, ...] | None = None,
    ) -> Family:
        names = (database, table, described, old, before)
        return self._families.of(names, lambda: self._make_family(*names))

    def _make_family(
        self,
        database: str,
        table: str,
        described: tuple[Described, ...],
        old: tuple[Described, ...],
        before: tuple[str, ...] | None,
    ) -> Family:
        """Creates the family of rows described like this; `old` describes the columns of `p` where it differs from `u`."""
        by_name = {d[0]: d for d in described}
        extra = tuple(d for d in old if d[0] not in by_name)
        columns = self._compile((*described, *extra))
        for d, compiled in zip(old, self._compile(old), strict=True):
            _check_same_type(compiled, next(c for c in columns if c.column.name == d[0]))
        whole = {**by_name, **{d[0]: d for d in extra}}
        names = tuple(whole)
        sent = {**whole, **{d[0]: d for d in old}}
        wire_before = [sent[name] for name in before or ()]
        differs = wire_before != [whole[name] for name in before or ()]
        return Family(
            database,
            table,
            columns,
            before=None if before in (None, names) else before,
            after=tuple(by_name) if extra else None,
            wire=wire_text(tuple(whole.values()), wire_before if differs else None),
            temporal=tuple(c.column.name for c in columns if c.temporal),
        )


def _check_same_type(old: CompiledColumn, new: CompiledColumn) -> None:
    if old.column.type != new.column.type:
        raise SchemaError(f"{new.column.name} is {new.column.type} in `u`, but {old.column.type} in `p`")


def _origin(key: EventKey, ccl: str | None) -> dict[str, Any]:
    members = {"rid": key.rid, "ptn": key.ptn, "ohk": key.ohk or None, "ccl": ccl}
    return {name: value for name, value in members.items() if value is not None}


def _resolved(key: EventKey, value: bytes, place: Place) -> Resolved:
    if value:
        raise SchemaError(f"resolved message has a value of {len(value)} bytes, expected none")
    return Resolved(key.ts, place, _instant(key.ts))


def _schema_change(key: EventKey, value: bytes, place: Place) -> SchemaChange:
    query, code = envelope.read_ddl(value)
    query, replaced = unmarked(query)
    return SchemaChange(
        action(code),
        key.schema or None,
        key.table or None,
        query,
        place,
        commit_ts=key.ts,
        instant=_instant(key.ts),
        origin={"t": code, "replaced": replaced} if replaced else {"t": code},
    )


def _instant(ts: int) -> Instant:
    return Instant(tso.milliseconds(ts) * 1000, 3)


def _moved(error: ProtocolError, start: int) -> ProtocolError:
    """Returns the same error, with its byte counted from the start of the record's key or value."""
    return type(error)(str(error), reason=error.reason, byte=start + (error.byte or 0))


def _named_by_all(key: bytes | None) -> tuple[str | None, str | None]:
    """Returns the table of all messages of a record, according to its key only; None if there are several."""
    nobody: tuple[str | None, str | None] = (None, None)
    try:
        parts = dict.fromkeys(framing.keys(key))
    except ProtocolError:
        return nobody
    common = nobody
    for part in parts:
        name = _named(part)
        if name == nobody or common not in (nobody, name):
            return nobody
        common = name
    return common


def _named(key: bytes) -> tuple[str | None, str | None]:
    """Returns the table of a message, if its key can be read."""
    try:
        event_key = envelope.read_key(key)
    except ProtocolError:
        return None, None
    return event_key.schema or None, event_key.table or None
