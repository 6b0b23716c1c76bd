"""Converts rows to keys and values, in the profile of either producer.

    key      {"payload":{<columns of the handle key>},"schema":{…}}
    value    {"payload":{"source":{…},"ts_ms":…,"transaction":null,"op":"u","before":{…},"after":{…}},"schema":{…}}
             c: "before":null,"after":{…}      d: "after":null,"before":{…}      u without the old row: no before

Rule 1. A shape that was read from this protocol is written with the schema blocks it came with, its key as it came, and NULL
        as null: a default that stands for NULL stands there already.
Rule 2. Others get their blocks from their columns, and a NULL in a column with a default is written by `null-with-default`.
Rule 3. The key is `{}` for a table without one, and for a row that lacks columns of it.
Rule 4. `ts_ms`, the producer's clock, is the origin's; a foreign row takes its commit time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from changefeed.columnar.events import Row
from changefeed.errors import UnsupportedError
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.protocols.ticdc_debezium import blocks, envelope
from changefeed.protocols.ticdc_debezium.defaults import for_null
from changefeed.protocols.ticdc_debezium.envelope import CONNECTOR
from changefeed.protocols.ticdc_debezium.options import Options
from changefeed.protocols.ticdc_debezium.types import described, optional
from changefeed.protocols.ticdc_debezium.values import write_irregular, writer
from changefeed.wire.go_json import W_RAW

OPS = {"insert": "c", "read": "c", "update": "u", "upsert": "u", "delete": "d"}


@dataclass(frozen=True, slots=True)
class ColumnWriter:
    """The writer of one column; `opening` is `"id":`, `null` what NULL is."""

    name: str
    type: ColumnType
    opening: str
    write: Callable[[Any], str]
    null: str
    write_irregular: Callable[[bytes], str]

    def text(self, value: Any, irregular: bytes | None, sent: str | None) -> str:
        """Returns the text of the column in an image: name and value."""
        if sent is not None:
            return self.opening + sent
        try:
            if value is not None:
                return self.opening + self.write(value)
            return self.opening + (self.null if irregular is None else self.write_irregular(irregular))
        except UnsupportedError as error:
            raise UnsupportedError(f"{error} - in `{self.name}`") from error


@dataclass(frozen=True, slots=True)
class ShapeWriter:
    """The writers of columns and key, and the schema blocks.

    Attributes:
        keys: the handle key's columns in the key's order; None to write no record key.
        schemas: schema blocks of key and value; None for a part without one.
        made: whether the schemas were built from columns and cluster, and not read from records.
    """

    before: tuple[ColumnWriter, ...]
    after: tuple[ColumnWriter, ...]
    keys: tuple[ColumnWriter, ...] | None
    schemas: tuple[str | None, str | None]
    made: bool


class RowWriter:
    """Writes rows; caches the compiled writers of each shape."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.shape = lru_cache(4096)(self._shape)

    def _shape(self, shape: TableShape, cluster_id: str) -> ShapeWriter:
        wire = _wire(shape.wire)
        columns = {c.name: self._column(c, wire is not None) for c in shape.columns}
        carried = {c.name for c in shape.before_columns} & {c.name for c in shape.after_columns}
        named = shape.keys if carried.issuperset(shape.keys) else ()
        keys: tuple[ColumnWriter, ...] | None = tuple(columns[name] for name in named)
        schemas: tuple[str | None, str | None] = (None, None)
        made = False
        if wire is not None:
            keys = tuple(columns[name] for name in wire.get("keys", named)) if "key" in wire else None
            schemas = wire.get("key"), wire["value"]
        if self._options.debezium_disable_schema:
            schemas = (None, None)
        elif schemas == (None, None):
            block, made = blocks.row(shape, named, cluster_id, self._options), True
            schemas = block.key, block.value
        return ShapeWriter(
            tuple(columns[c.name] for c in shape.before_columns),
            tuple(columns[c.name] for c in shape.after_columns),
            keys,
            schemas,
            made,
        )

    def _column(self, column: Column, ours: bool) -> ColumnWriter:
        nullable = optional(column)
        if not ours:
            try:
                described(column.type)  # a type that has no field has no value either
            except UnsupportedError as error:
                raise UnsupportedError(f"{error} - in `{column.name}`") from error
        producer = self._options.null_with_default == "producer" and not ours
        null = for_null(column, self._options) if producer else "null"
        return ColumnWriter(
            column.name,
            column.type,
            W_RAW.string(column.name) + ":",
            writer(column.type),
            null,
            lambda data: write_irregular(data, column.type, nullable=nullable),
        )

    def message(self, row: Row, commit_ts: int) -> tuple[bytes | None, bytes]:
        """Key and value of a row.

        Raises:
            UnsupportedError: the protocol cannot represent the row.
        """
        origin: Mapping[str, Any] = {} if _wire(row.shape.wire) is None else row.origin
        writers = self.shape(row.shape, str(origin.get("cluster_id", self._options.cluster_id)))
        op, old, new = OPS[row.op], row.before, row.after
        if (old if op == "d" else new) is None or (op == "c" and old is not None) or (op == "d" and new is not None):
            raise UnsupportedError(f"ticdc-debezium cannot represent an {row.op} with these images")
        sent = origin.get("sent") or {}
        if op == "u" and not self._options.output_old_value:
            old = None  # what is not sent may be anything
        before = None if old is None else _image(writers.before, old, row, sent, "before." if new is not None else "")
        after = None if new is None else _image(writers.after, new, row, sent, "")
        source = envelope.of(
            origin, row.shape.database, row.shape.table, commit_ts, self._options.cluster_id, self._start_ts(row)
        )
        payload = (
            f'{{"source":{envelope.write(source)},"ts_ms":{envelope.clock(origin, commit_ts)},'
            f'"transaction":null,"op":"{op}",{self._images(op, before, after)}}}'
        )
        return self._key(row, writers, origin, sent), blocks.beside(payload, writers.schemas[1])

    @staticmethod
    def _images(op: str, before: str | None, after: str | None) -> str:
        if op == "c":
            return f'"before":null,"after":{after}'
        if op == "d":
            return f'"after":null,"before":{before}'
        if before is None:
            return f'"after":{after}'
        return f'"before":{before},"after":{after}'

    def _start_ts(self, row: Row) -> int | None:
        if not self._options.debezium_include_start_ts or row.transaction is None:
            return None
        text = row.transaction.get("id") or ""
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None

    def _key(self, row: Row, writers: ShapeWriter, origin: Mapping[str, Any], sent: Mapping[str, str]) -> bytes | None:
        if writers.keys is None:
            return None
        if isinstance(origin.get("key"), str):
            return blocks.beside(origin["key"], writers.schemas[0])
        image, prefix = (row.after, "") if row.after is not None else (row.before or {}, "")
        return blocks.beside(_image(writers.keys, image, row, sent, prefix), writers.schemas[0])


def is_ours(shape: TableShape) -> bool:
    """Whether a shape was read from this protocol."""
    return _wire(shape.wire) is not None


@lru_cache(maxsize=4096)
def _wire(text: str) -> dict[str, Any] | None:
    """Parses a shape's wire text; None if the shape was read from another protocol, like the origins of its rows."""
    members = json.loads(text) if CONNECTOR in text else None
    ours = isinstance(members, dict) and members.get("connector") == CONNECTOR and "value" in members
    return members if ours else None


def _image(
    columns: tuple[ColumnWriter, ...], values: Mapping[str, Any], row: Row, sent: Mapping[str, str], prefix: str
) -> str:
    members = (c.text(values[c.name], row.irregular.get(prefix + c.name), sent.get(prefix + c.name)) for c in columns)
    return "{" + ",".join(members) + "}"
