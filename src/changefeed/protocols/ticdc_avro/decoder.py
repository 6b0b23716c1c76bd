"""Decodes records to changes: the reference decoder. Looks up schemas by id, checks every field, and guesses nothing.

    record ─ first byte of the value ─▶ 00 schema id ─ schemas ─▶ shapes ─▶ table batches
                                   ├─▶ none, or 03: a delete; its key is the row
                                   ├─▶ 01 DDL, 02 resolved: marks
                                   └─ any failure: a dead letter

Rule 1. With `_tidb_op`: c is an insert, u an update, d a delete (with `_ticdc_before` only). Without it, inserts and updates
        cannot be distinguished: the op is upsert.
Rule 2. The key must equal the key columns of the row; it is not stored separately.
Rule 3. Table names are those of the record, or those that the topic rule derives from the topic (see `names`).
Rule 4. If the schema registry does not have a schema id, the record is a dead letter. If it cannot be reached, that is not the
        record's fault: `decode` raises SchemaRegistryError.
Rule 5. A checksum that differs from that of the columns is reported, not refused: the origin's `checksum` is `mismatch`. With
        corruption-handle-level=error it is a dead letter, and so is a row that its producer found damaged.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from changefeed.columnar.families import Families
from changefeed.columnar.records import Headers, dead_letter, each_record
from changefeed.errors import ConfigError, ProtocolError, SchemaError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import Control, DeadLetter
from changefeed.model.position import Place
from changefeed.model.table import canonical
from changefeed.mysql.zone import zone
from changefeed.protocols.base import Stores
from changefeed.protocols.ticdc_avro import marks
from changefeed.protocols.ticdc_avro.checksum import checksum
from changefeed.protocols.ticdc_avro.options import NAME, NO_REGISTRY, Options
from changefeed.protocols.ticdc_avro.schema_text import BEFORE, CHECKSUM, COMMIT_TS, CORRUPTED, OP, PHYSICAL, VERSION
from changefeed.protocols.ticdc_avro.schemas import RowSchema, understand
from changefeed.protocols.ticdc_avro.shapes import Family, Image
from changefeed.ticdc import tso
from changefeed.wire import avro, confluent

_OPS = {"c": "insert", "u": "update", "d": "delete"}
_MARKER_BYTES = 9
_MARKS = (bytes((marks.DDL,)), bytes((marks.RESOLVED,)))
_SCHEMAS = 1024


class Decoder:
    """Decodes records of either producer. Remembers the schemas it has seen; not shared between threads."""

    def __init__(self, options: Options, stores: Stores) -> None:
        if stores.get_schema is None:
            raise ConfigError(NO_REGISTRY)
        self._options = options
        self._get = stores.get_schema
        self._zone = zone(options.time_zone)
        self._rule = options.topic_rule
        self._understood = lru_cache(_SCHEMAS)(self._understand)
        self._families: Families[Family] = Families()

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """Decodes the records; see `protocols.base.Decoder`.

        Raises:
            SchemaRegistryError: the schema registry cannot be reached.
        """
        rows = BatchBuilder()
        control: list[Control] = []
        dead: list[DeadLetter] = []
        for place, key, value, headers in each_record(records):
            try:
                self._record(key, value, place, rows, control)
            except ProtocolError as error:
                dead.append(self._letter(error, place, key, value, headers))
        return Decoded(rows.build(), control, dead)

    def forget(self) -> None:
        """Forgets the shapes; see `protocols.base.Decoder`."""
        self._families.forget()

    def _record(
        self, key: bytes | None, value: bytes | None, place: Place, rows: BatchBuilder, control: list[Control]
    ) -> None:
        kind = None if value is None else value[0] if value else confluent.MAGIC
        if value is None:
            self._delete(key, None, place, rows)
        elif kind == marks.DELETE and len(value) <= _MARKER_BYTES:
            self._delete(key, marks.read_ts(value), place, rows)
        elif kind in (marks.DDL, marks.RESOLVED):
            if key is not None:
                raise SchemaError(f"{'DDL' if kind == marks.DDL else 'resolved'} message has a key, expected none")
            control.append((marks.read_ddl if kind == marks.DDL else marks.read_resolved)(value, place))
        else:
            self._row(key, value, place, rows)

    def _delete(self, key: bytes | None, ts: int | None, place: Place, rows: BatchBuilder) -> None:
        """Adds a delete that has only its key."""
        if key is None:
            raise SchemaError("record has neither key nor value: the row that it deletes is not known", reason="no-key")
        schema, values = self._datum(key, "key")
        family, image = self._family(schema, None, place.topic), Image()
        before = family.read(values, image)
        rows.add(
            family.shape(image),
            place,
            "delete",
            before=before,
            after=None,
            commit_ts=ts,
            commit_time=None if ts is None else tso.milliseconds(ts),
            irregular=image.irregular,
        )

    def _row(self, key: bytes | None, value: bytes, place: Place, rows: BatchBuilder) -> None:
        schema, values = self._datum(value, "value")
        key_schema, key_values = (None, {}) if key is None else self._datum(key, "key")
        family, image = self._family(key_schema, schema, place.topic), Image()
        for name, sent in key_values.items():
            if values[name] != sent:
                raise SchemaError(f"{name} is {sent!r:.60} in the key, {values[name]!r:.60} in the value")
        op = self._op(schema, values)
        new = family.read(values, image)
        old = values.get(BEFORE)
        before = new if op == "delete" else None
        if old is not None and op == "delete":
            if old != {name: values[name] for name in old}:
                raise SchemaError("the deleted row differs from the one in `_ticdc_before`")
        elif old is not None:
            before = family.read(old, image, "before.")
        ts = _commit_ts(values)
        origin = self._integrity(values, family, new, image)
        rows.add(
            family.shape(image),
            place,
            op,
            before=before,
            after=None if op == "delete" else new,
            commit_ts=ts,
            commit_time=None if ts is None else tso.milliseconds(ts),
            origin=canonical(origin) if origin else None,
            irregular=image.irregular,
        )

    def _op(self, schema: RowSchema, values: dict[str, Any]) -> str:
        if OP not in schema.own:
            return "upsert"
        op = _OPS.get(values[OP])
        if op is None or (op == "delete") > (BEFORE in schema.own) or (op == "delete" and values[BEFORE] is None):
            raise SchemaError(f"{values[OP]!r:.60} is not an operation of this row - at `{OP}`")
        return op

    def _integrity(self, values: dict[str, Any], family: Family, new: dict[str, Any], image: Image) -> dict[str, Any]:
        """Returns the members of the origin for the row's checksum, and whether it is correct."""
        origin = {name: values[name] for name in (CHECKSUM, CORRUPTED, VERSION) if name in values}
        sent, corrupted = values.get(CHECKSUM), values.get(CORRUPTED, False)
        fault = "is damaged, as its producer found" if corrupted else None
        if sent and not corrupted and not (sent == "0" and values.get(OP) == "c"):  # see the README on classic's "0"
            computed = checksum(family.shape(image, keep=False).columns, new, image.irregular)
            if computed is not None and sent != str(computed):
                origin["checksum"] = "mismatch"
                fault = f"has the checksum {computed}, not {sent!r:.20}"
        if fault and self._options.corruption_handle_level == "error":
            raise ProtocolError(f"row {fault}", reason="checksum")
        return origin

    def _datum(self, data: bytes, what: str) -> tuple[RowSchema, dict[str, Any]]:
        schema_id, cursor = confluent.open_datum(data, what)
        schema, read = self._schema(schema_id, what == "key")
        values: dict[str, Any] = read(cursor)
        cursor.finish()
        return schema, values

    def _schema(self, schema_id: int, is_key: bool) -> tuple[RowSchema, avro.Read]:
        schema = self._understood(schema_id, is_key)
        if isinstance(schema, ProtocolError):
            raise SchemaError(str(schema), reason=schema.reason)
        return schema

    def _understand(self, schema_id: int, is_key: bool) -> tuple[RowSchema, avro.Read] | ProtocolError:
        """Returns the schema and its reader, or the error if it is invalid. Both are cached, but an unknown id is not."""
        try:
            text = self._get(schema_id)
            schema = understand(schema_id, text, key=is_key)
        except LookupError as error:
            raise SchemaError(f"schema {schema_id} is not in the schema registry", reason="unknown-schema") from error
        except ProtocolError as error:
            return error
        return schema, avro.reader(schema.record)

    def _family(self, key: RowSchema | None, value: RowSchema | None, topic: str) -> Family:
        ids = (None if key is None else key.schema_id, None if value is None else value.schema_id, topic)
        return self._families.of(ids, lambda: self._make_family(key, value, topic))

    def _make_family(self, key: RowSchema | None, value: RowSchema | None, topic: str) -> Family:
        row = value or key
        assert row is not None
        names = (row.database, row.table)
        return Family(key, value, self._rule.names(topic, *names) if self._rule else names, self._zone)

    def _letter(
        self, error: ProtocolError, place: Place, key: bytes | None, value: bytes | None, headers: Headers
    ) -> DeadLetter:
        """Returns the dead letter of a record, with schema id and table if the value, or else the key, shows them."""
        letter = dead_letter(NAME, error, place, key, value, headers)
        if value is not None and value[:1] in _MARKS:
            return letter
        schema_id: int | None = None
        for data, is_key in ((value, False), (key, True)):
            if not data or len(data) < confluent.HEADER or data[0] != confluent.MAGIC:
                continue
            first_id, _ = confluent.open_datum(data, "value")
            schema_id = first_id if schema_id is None else schema_id
            try:
                schema, _ = self._schema(first_id, is_key)
            except ProtocolError:
                continue
            names = (schema.database, schema.table)
            database, table = self._rule.names(place.topic, *names) if self._rule else names
            return replace(letter, schema_id=schema_id, database=database, table=table)
        return replace(letter, schema_id=schema_id)


def _commit_ts(values: dict[str, Any]) -> int | None:
    ts: int | None = values.get(COMMIT_TS)
    if ts is not None and ts < 0:
        raise SchemaError(f"{ts} is not a commit ts - at `{COMMIT_TS}`")
    if ts is not None and values.get(PHYSICAL, ts >> tso.LOGICAL_BITS) != tso.milliseconds(ts):
        raise SchemaError(f"{values[PHYSICAL]} is not the time of the commit ts {ts} - at `{PHYSICAL}`")
    return ts
