"""Decodes records to changes, one record at a time: the reference decoder, which checks everything and guesses nothing.

    record ─ parts.read ─▶ payload ─ envelope ─▶ table, commit_ts      op c u d  row      images ─▶ shapes ─▶ table batches
                        └─▶ schema text ─ schema ─▶ types              op m      resolved
                                                                       no op     schema change
    any failure: a dead letter

Rule 1. A record is one event. `c` is an insert, `u` an update (also without the old row), `d` a delete, `m` a watermark.
Rule 2. The handle key consists of the columns in the key's payload. Their values must equal those of the row; key columns that
        the row lacks (because of a column selector) are kept in the origin's `key`.
Rule 3. Values are not converted: see `types` and README.md for the conversion to a table's later definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from changefeed.columnar.families import Families
from changefeed.columnar.records import dead_letter, each_record
from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import Control, DeadLetter, Instant, Resolved
from changefeed.model.position import Place
from changefeed.model.table import canonical
from changefeed.mysql.type_codes import MOST_COLUMNS
from changefeed.protocols.base import Stores
from changefeed.protocols.ticdc_debezium import blocks, ddl, envelope, parts
from changefeed.protocols.ticdc_debezium.envelope import SourceBlock
from changefeed.protocols.ticdc_debezium.images import Images, Json
from changefeed.protocols.ticdc_debezium.options import Options
from changefeed.protocols.ticdc_debezium.parts import Document
from changefeed.protocols.ticdc_debezium.schema import key_table
from changefeed.protocols.ticdc_debezium.shapes import Described, Family, family
from changefeed.ticdc import tso
from changefeed.wire import compression
from changefeed.wire.json_form import INT64, integer, mapping, refuse_others, show

NAME = "ticdc-debezium"
_HINT = ' Is "protocol" right for this topic?'
_ROW = frozenset({"source", "ts_ms", "transaction", "op", "before", "after"})
_WATERMARK = frozenset({"source", "ts_ms", "transaction", "op"})
_OPS = {"c": "insert", "u": "update", "d": "delete"}


class Decoder:
    """Decodes records of either producer. Remembers the shapes of its rows; must not be shared between threads."""

    def __init__(self, options: Options, stores: Stores) -> None:
        compression.check_available(options.large_message_handle_compression)
        self._options = options
        self._families: Families[Family] = Families()

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """Decodes the records; see `protocols.base.Decoder`."""
        rows = BatchBuilder()
        control: list[Control] = []
        dead: list[DeadLetter] = []
        for place, key, value, headers in each_record(records):
            try:
                self._record(place, key, value, rows, control)
            except ProtocolError as error:
                hint = _HINT if error.reason in ("bad-json", "unknown-kind") else ""
                letter = dead_letter(NAME, error, place, key, value, headers, hint)
                database, table = self._named(key, value)
                dead.append(replace(letter, database=database, table=table))
        return Decoded(rows.build(), control, dead)

    def forget(self) -> None:
        """Forgets the shapes; see `protocols.base.Decoder`."""
        self._families.forget()

    def _record(
        self, place: Place, key: bytes | None, value: bytes | None, rows: BatchBuilder, control: list[Control]
    ) -> None:
        document = self._document(value, "value")
        if document is None:
            raise SchemaError("record has no value")
        origin = envelope.read(document.payload)
        named = self._document(key, "key")
        op = document.payload.get("op")
        if type(op) is str and op in _OPS:
            self._row(place, named, document, origin, rows)
        elif op == "m":
            control.append(_resolved(place, named, document, origin, self._options))
        elif "op" in document.payload:
            raise ProtocolError(f"op {show(op)} is unknown, expected c, u, d or m", reason="unknown-kind")
        else:
            control.append(ddl.read(place, named, document, origin, self._options))

    def _named(self, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
        """Returns the table of a record, if its value or the schema of its key names it unambiguously."""
        try:
            document = self._document(value, "value")
            block = envelope.read({} if document is None else document.payload)
        except ProtocolError:
            return self._named_by_key(key)
        return block.database or None, block.table or None

    def _named_by_key(self, key: bytes | None) -> tuple[str | None, str | None]:
        try:
            document = self._document(key, "key")
        except ProtocolError:
            return None, None
        return (None, None) if document is None or document.schema is None else key_table(document.schema)

    def _document(self, data: bytes | None, what: str) -> Document | None:
        if data is None:
            return None
        options = self._options
        name, limit = options.large_message_handle_compression, options.max_inflated_bytes
        return parts.read(compression.inflate(data, name, limit), what)

    def _row(
        self, place: Place, key: Document | None, value: Document, origin: SourceBlock, rows: BatchBuilder
    ) -> None:
        payload = value.payload
        op, (before, after) = _OPS[payload["op"]], _images(payload)
        described = Described(
            origin.database,
            origin.table,
            value.schema,
            None if key is None else key.schema,
            None if key is None else tuple(key.payload),
            tuple(after or {} if before is None else before),
            tuple(before or {} if after is None else after),
        )
        if not (origin.database and origin.table):
            raise SchemaError("row does not name its database and table - at `payload.source`")
        images = Images()
        images.read(before, after, described.fields)
        kept = {"ts_ms": integer(payload, "ts_ms", INT64, "payload."), **envelope.origin(origin)}
        if images.sent:
            kept["sent"] = images.sent
        if key is not None and not _check_key(key.payload, after if after is not None else before or {}):
            kept["key"] = parts.text_of(key.payload)
        rows.add(
            self._families.of(described, lambda: family(described)).shape(images.types),
            place,
            op,
            before=images.before,
            after=images.after,
            commit_ts=origin.commit_ts,
            commit_time=tso.milliseconds(origin.commit_ts),
            transaction=None if origin.start_ts is None else {"id": str(origin.start_ts)},
            origin=canonical(kept),
            irregular=images.irregular,
        )


def _images(payload: Json) -> tuple[Json | None, Json | None]:
    """Returns the images that the op requires."""
    refuse_others(dict(payload), _ROW, "payload", "payload")
    _no_transaction(payload)
    op = payload["op"]
    wanted = {"before": op != "c", "after": op != "d"}
    images: dict[str, Json | None] = {}
    for name, there in wanted.items():
        image = payload.get(name)
        optional = op == "u" and name == "before"
        if name not in payload and not optional:
            raise SchemaError(f"payload of op {op} has no {name} - at `payload`")
        if not there and image is not None:
            raise SchemaError(f"{show(image)} is not null in op {op} - at `payload.{name}`")
        images[name] = (
            mapping(image, name, f"payload.{name}") if there and (image is not None or not optional) else None
        )
        if image == {}:
            raise SchemaError(f"row has no columns - at `payload.{name}`")
        if image is not None and len(image) > MOST_COLUMNS:
            raise SchemaError(f"row has {len(image)} columns, expected at most {MOST_COLUMNS} - at `payload.{name}`")
    return images["before"], images["after"]


def _check_key(key: Mapping[str, Any], image: Json) -> bool:
    """Returns whether the row has all columns of its key.

    Raises:
        SchemaError: a column has another value in the key than in the row.
    """
    for name, value in key.items():
        if name in image and image[name] != value:
            raise SchemaError(f"key has {show(value)}, but the row has {show(image[name])} - at `key.{name}`")
    return key.keys() <= image.keys()


def _no_transaction(payload: Json) -> None:
    if payload.get("transaction") is not None or "transaction" not in payload:
        raise SchemaError(f"{show(payload.get('transaction'))} is not null - at `payload.transaction`")


def _resolved(place: Place, key: Document | None, value: Document, source: SourceBlock, options: Options) -> Resolved:
    refuse_others(value.payload, _WATERMARK, "payload", "payload")
    _no_transaction(value.payload)
    if key is not None and key.payload:
        raise SchemaError(f"key of a watermark has the columns {', '.join(map(show, key.payload))}")
    if source.database or source.table:
        raise SchemaError("watermark names a table - at `payload.source`")
    usual = blocks.watermark(source.cluster_id, options)
    origin = envelope.mark(value.payload, source) | blocks.unusual(key, value, usual)
    us = tso.milliseconds(source.commit_ts) * 1000
    return Resolved(source.commit_ts, place, Instant(us, 3), origin)
