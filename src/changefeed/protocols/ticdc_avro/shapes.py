"""Converts schemas to table shapes: the schemas of key and value together define a family, which is compiled once.

A delete that has only its key has the key's columns, and no value schema. The wire text of a shape contains both schemas with
their ids, so that the same bytes can be written again:

    {"ticdc-avro":{"key":{"id":5,"schema":"…"},"value":{"id":6,"schema":"…"}}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.table import TableShape, canonical
from changefeed.model.values import Irregular, Moment
from changefeed.protocols.ticdc_avro.options import NAME
from changefeed.protocols.ticdc_avro.schemas import RowSchema
from changefeed.protocols.ticdc_avro.values import Read, reader
from changefeed.ticdc.digits import shapes_by_digits, with_digits
from changefeed.ticdc.texts import TEMPORAL


@dataclass(slots=True)
class Image:
    """A row that is being decoded: values, irregular texts, and fraction digits of datetimes."""

    irregular: dict[str, bytes] = field(default_factory=dict)
    digits: dict[str, int] = field(default_factory=dict)


class Family:
    """Rows with the same schemas, in a table of this name."""

    def __init__(self, key: RowSchema | None, value: RowSchema | None, names: tuple[str, str], zone: tzinfo) -> None:
        row = value or key
        assert row is not None
        self.names = names
        self.key_names = frozenset(c.column.name for c in key.columns) if key else frozenset[str]()
        missing = self.key_names - {c.column.name for c in row.columns}
        if missing:
            raise SchemaError(f"key has a column that the value lacks: {min(missing)}")
        declared = None if key is None else True
        self.columns = tuple(replace(c.column, key=declared and c.column.name in self.key_names) for c in row.columns)
        self._readers = tuple((c.column.name, reader(c.column.type, c.kind, c.scale, zone)) for c in row.columns)
        self._temporal = tuple(c.name for c in self.columns if c.type.name in TEMPORAL)
        self._wire = canonical({NAME: {"key": _wire(key), "value": _wire(value)}})
        self._shapes = shapes_by_digits(self._make)

    def read(self, values: Mapping[str, Any], image: Image, prefix: str = "") -> dict[str, Any]:
        """Reads one image; returns ready values by column name. `prefix`: prefix of its columns in `irregular`."""
        ready = {}
        for name, read in self._readers:
            value = values[name]
            ready[name] = None if value is None else self._value(name, read, value, image, prefix)
        return ready

    def _value(self, name: str, read: Read, sent: Any, image: Image, prefix: str) -> Any:
        try:
            value = read(sent)
        except ProtocolError as error:
            raise SchemaError(f"{error} - at `{name}`") from error
        if type(value) is Moment:
            if image.digits.setdefault(name, value.digits) != value.digits:
                raise SchemaError(f"{name} has {image.digits[name]} fraction digits, but {value.digits} in the old row")
            return value.us
        if type(value) is Irregular:
            image.irregular[prefix + name] = value.data
            return None
        return value

    @property
    def is_bare(self) -> bool:
        """Whether the family has no shape yet."""
        return not self._shapes

    def shape(self, image: Image, *, keep: bool = True) -> TableShape:
        """Returns the shape of the row that was read into `image`; see `ShapeFamily.shape`."""
        return self._shapes.shape([image.digits.get(name) for name in self._temporal], keep=keep)

    def _make(self, digits: tuple[int, ...]) -> TableShape:
        left = iter(digits)
        columns = tuple(with_digits(c, next(left)) if c.type.name in TEMPORAL else c for c in self.columns)
        return TableShape(*self.names, columns, wire=self._wire)


def _wire(schema: RowSchema | None) -> dict[str, Any] | None:
    return None if schema is None else {"id": schema.schema_id, "schema": schema.text}


def schemas_of(shape: TableShape) -> tuple[tuple[int, str] | None, tuple[int, str] | None] | None:
    """Returns the schemas (id, text) of key and value of a shape; None if it was read from another protocol."""
    wire = json.loads(shape.wire) if shape.wire else None
    parts = wire.get(NAME) if isinstance(wire, dict) else None
    if not isinstance(parts, dict):
        return None
    key, value = _schema(parts.get("key")), _schema(parts.get("value"))
    return None if key is None and value is None else (key, value)


def _schema(entry: Any) -> tuple[int, str] | None:
    if not isinstance(entry, dict) or type(entry.get("id")) is not int or not isinstance(entry.get("schema"), str):
        return None
    return entry["id"], entry["schema"]
