"""Converts rows to keys and values, in the profile of either producer.

    insert, update   key │ columns of the new row, what the options add
    delete           key │ none; newarch with watermarks: 03 and the commit ts; with `_ticdc_before`: the old row, op d

Rule 1. A shape that was read from this protocol carries its schemas: they are written as they were. Others get theirs
        from the shape and the options (`schema_text`); what is written is compiled from the text either way.
Rule 2. Schemas are registered under the subjects of the topic, once for each subject and text. An id that was read is
        used again when the topic is still the same and the schema registry has the same text under it.
Rule 3. The value's columns are those of the new row, the key's those of the handle key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from changefeed.columnar.events import Row
from changefeed.errors import ConfigError, ProtocolError, UnsupportedError
from changefeed.model.table import Column, TableShape
from changefeed.mysql.zone import zone
from changefeed.protocols.base import Stores
from changefeed.protocols.ticdc_avro import marks
from changefeed.protocols.ticdc_avro.checksum import checksum
from changefeed.protocols.ticdc_avro.names import full_namespace, sanitise, subject
from changefeed.protocols.ticdc_avro.options import NAME, NO_REGISTRY, Options
from changefeed.protocols.ticdc_avro.schema_text import (
    BEFORE,
    CHECKSUM,
    COMMIT_TS,
    CORRUPTED,
    OP,
    PHYSICAL,
    VERSION,
    key_text,
    value_text,
)
from changefeed.protocols.ticdc_avro.schemas import RowSchema, understand
from changefeed.protocols.ticdc_avro.shapes import schemas_of
from changefeed.protocols.ticdc_avro.values import Write, write_irregular, writer
from changefeed.ticdc import tso
from changefeed.wire import avro, confluent
from changefeed.wire.schema_ids import SchemaIds

Text = tuple[int | None, str]  # a schema's text, with the id it was read with
_OPS = {"insert": "c", "read": "c", "update": "u", "upsert": "u", "delete": "d"}
_CHECKSUM_VERSION = 2


@dataclass(frozen=True, slots=True)
class ColumnWriter:
    """The writer of one column; `field`: its name in the schema."""

    field: str
    column: Column
    write: Write
    write_irregular: Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class PartEncoder:
    """The writer of a key or a value; `known_id`: the id with which its schema was read, or None."""

    schema: RowSchema
    columns: tuple[ColumnWriter, ...]
    write: avro.Write
    known_id: int | None


@dataclass(frozen=True, slots=True)
class ShapeWriter:
    """The writers of key and value for a shape; `ours`: the shape was read from this protocol."""

    key: PartEncoder | None
    value: PartEncoder | None
    ours: bool


class RowWriter:
    """Writes rows; caches the compiled writers of each shape and the ids of schemas."""

    def __init__(self, options: Options, stores: Stores) -> None:
        if stores.get_schema is None or stores.register_schema is None:
            raise ConfigError(NO_REGISTRY)
        self._options = options
        self._classic = options.profile == "classic"
        self._zone = zone(options.time_zone)
        self.shape = lru_cache(4096)(self._shape)
        self._ids = SchemaIds(stores.get_schema, stores.register_schema)

    def key(self, row: Row, topic: str) -> bytes | None:
        """Encodes the key of a row; None for a table without a handle key."""
        part = self.shape(row.shape, row.after is None).key
        if part is None:
            return None
        image = row.after if row.after is not None else row.before or {}
        values = self._columns(part, row, image, "")
        return self._datum(part, values, row, topic, "key")

    def value(self, row: Row, topic: str, ts: int | None) -> bytes | None:
        """Encodes the value of a row; None for a delete that has only its key."""
        if (row.after is None) != (row.op == "delete"):
            raise self._unsupported(
                row, "its op is a delete, but it has a new row" if row.op == "delete" else "it has no new row"
            )
        part = self.shape(row.shape, row.after is None).value
        if row.after is None and (part is None or BEFORE not in part.schema.own):
            marker = self._options.watermarks and not self._classic and not self._options.avro_include_before_value
            return marks.write_ts(marks.DELETE, self._needed(row, ts, tso.LIMIT)) if marker else None
        if part is None:
            raise self._unsupported(row, "its shape has no schema of a value")
        image = row.after if row.after is not None else row.before or {}
        values = self._columns(part, row, image, "")
        own = part.schema.own
        if BEFORE in own:
            values[BEFORE] = self._old(part, row)
        if OP in own:
            values[OP] = _OPS[row.op]
        if COMMIT_TS in own:
            values[COMMIT_TS] = self._needed(row, ts)
        if PHYSICAL in own:
            values[PHYSICAL] = tso.milliseconds(self._needed(row, ts))
        if own & {CHECKSUM, CORRUPTED, VERSION}:
            values |= self._integrity(part, row, image)
        return self._datum(part, values, row, topic, "value")

    def _old(self, part: PartEncoder, row: Row) -> dict[str, Any] | None:
        if row.before is None:
            return None
        return self._columns(part, row, row.before, "before." if row.after is not None else "")

    def _columns(self, part: PartEncoder, row: Row, image: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        return {c.field: self._column(c, row, image, prefix) for c in part.columns}

    def _column(self, column: ColumnWriter, row: Row, image: Mapping[str, Any], prefix: str) -> Any:
        name = column.column.name
        if name not in image:
            raise self._unsupported(row, f"its image has no column {name}")
        value, irregular = image[name], row.irregular.get(prefix + name)
        try:
            if value is not None:
                return column.write(value)
            return None if irregular is None else column.write_irregular(irregular)
        except UnsupportedError as error:
            raise self._unsupported(row, f"{error} - at `{name}`") from error

    def _integrity(self, part: PartEncoder, row: Row, image: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the checksum as it was read; for a foreign row it is computed from the columns."""
        names = (CHECKSUM, CORRUPTED, VERSION)
        if all(name in row.origin for name in names):
            return {name: row.origin[name] for name in names}
        computed = checksum((c.column for c in part.columns), image, row.irregular)
        if computed is None:
            raise self._unsupported(row, "a member of an enum or a set is not among those of its type")
        return {CHECKSUM: str(computed), CORRUPTED: False, VERSION: _CHECKSUM_VERSION}

    def _datum(self, part: PartEncoder, values: dict[str, Any], row: Row, topic: str, what: str) -> bytes:
        known = part.known_id if topic == row.place.topic else None
        out = bytearray(confluent.header(self._ids.id(subject(topic, what), part.schema.text, known)))
        try:
            part.write(values, out)
        except UnsupportedError as error:
            raise self._unsupported(row, str(error)) from error
        return bytes(out)

    def _needed(self, row: Row, ts: int | None, limit: int = 2**63) -> int:
        if ts is None or ts >= limit:
            raise self._unsupported(row, "it needs a commit_ts or a commit time")
        return ts

    def _unsupported(self, row: Row, why: str) -> UnsupportedError:
        return UnsupportedError(f"{NAME} cannot carry {row}: {why}")

    def _shape(self, shape: TableShape, old: bool) -> ShapeWriter:
        """Returns the writers of a shape; `old`: for its before image, in deletes."""
        schemas = schemas_of(shape)
        columns = shape.before_columns if old else shape.after_columns
        if schemas is not None:
            key, value = schemas
            try:
                return ShapeWriter(self._part(key, columns, True), self._part(value, columns, False), True)
            except ProtocolError as error:
                raise UnsupportedError(f"{NAME} cannot write {shape.database}.{shape.table}: {error}") from error
        try:
            key_schema, value_schema = self._texts(shape, columns, old)
        except UnsupportedError as error:
            raise UnsupportedError(f"{NAME} cannot carry {shape.database}.{shape.table}: {error}") from error
        return ShapeWriter(self._part(key_schema, columns, True), self._part(value_schema, columns, False), False)

    def _texts(self, shape: TableShape, columns: Sequence[Column], old: bool) -> tuple[Text | None, Text | None]:
        """Returns the schemas of key and value for shape and options; None for a part that is not written."""
        if not shape.table:
            raise UnsupportedError("the table has no name")
        if not columns:
            raise UnsupportedError("the table has no columns")
        _check_names(columns)
        namespace = full_namespace(self._options.namespace, shape.database)
        keys = [c for c in columns if c.key]
        key = (None, key_text(shape.table, namespace, keys, self._options)) if keys else None
        if old and not self._options.avro_include_before_value:
            return key, None
        return key, (None, value_text(shape.table, namespace, columns, self._options))

    def _part(self, schema: Text | None, columns: Sequence[Column], is_key: bool) -> PartEncoder | None:
        if schema is None:
            return None
        known_id, text = schema
        understood = understand(known_id or 0, text, key=is_key)
        own = [c for c in columns if c.key] if is_key else columns
        by_field = {sanitise(c.name): c for c in own}
        writers = []
        for c in understood.columns:
            column = by_field.get(c.column.name)
            if column is None:
                raise UnsupportedError(f"{NAME}: the schema has the column {c.column.name}, which the shape lacks")
            write = writer(column.type, c.kind, c.scale, self._zone, classic=self._classic)
            writers.append(_column_writer(column, c.column.name, write, c.kind, c.scale))
        return PartEncoder(understood, tuple(writers), avro.writer(understood.record), known_id)


def _column_writer(column: Column, field: str, write: Write, kind: str, scale: int) -> ColumnWriter:
    return ColumnWriter(field, column, write, lambda data: write_irregular(data, column.type, kind, scale))


def _check_names(columns: Sequence[Column]) -> None:
    """Refuses two columns with the same name in Avro, as both producers do at the first row."""
    seen: dict[str, str] = {}
    for column in columns:
        field = sanitise(column.name)
        if not field:
            raise UnsupportedError("a column has no name")
        if field in seen:
            raise UnsupportedError(
                f"columns {seen[field]} and {column.name} are both {field} in Avro (ErrAvroSchemaAPIError)"
            )
        seen[field] = column.name
