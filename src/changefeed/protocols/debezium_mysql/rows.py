"""Rows to keys and values: what a shape's wire text says of them, compiled once for each shape.

    wire text ─ RowWriter ─▶ key tree, value tree ─ parts.write ─▶ bytes

Rule 1. A NULL is written as null: where a converter has put a default in its place, the default is what was read.
Rule 2. What the origin's `sent` has of a value is written instead of it.
Rule 3. A column that an image does not carry is the placeholder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from changefeed.errors import UnsupportedError
from changefeed.model.event import Instant
from changefeed.model.table import TableShape
from changefeed.protocols.debezium_mysql import envelope, java_json, loose, parts, schema
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.schema import Node
from changefeed.protocols.debezium_mysql.shapes import MARK
from changefeed.protocols.debezium_mysql.writing import write_irregular, writing
from changefeed.wire import base64_text
from changefeed.wire.events import Row

_LETTERS = {op: letter for letter, op in envelope.OPS.items()} | {"upsert": "c"}


_NOTHING = msgspec.Raw(b"")


class _Side(msgspec.Struct):
    schema: msgspec.Raw = _NOTHING
    fields: list[str] | None = None
    envelope: list[str] | None = None
    source: list[str] | None = None


class _Wire(msgspec.Struct):
    protocol: str
    key: _Side | None
    value: _Side


_wire = msgspec.json.Decoder(_Wire).decode


@dataclass(frozen=True, slots=True)
class Cell:
    """One column on its way out."""

    name: str
    node: Node
    write: Callable[[Any], Any]
    absent: str


@dataclass(frozen=True, slots=True)
class RowWriter:
    """How the rows of a shape are written.

    Attributes:
        key: names of the key's fields, None for no key.
        key_schema, value_schema: the text of the block, "" for none.
        members, source: of the envelope and of the source block, in order.
    """

    shape: TableShape
    cells: tuple[Cell, ...]
    key: tuple[str, ...] | None
    key_schema: str
    value_schema: str
    members: tuple[str, ...]
    source: tuple[str, ...]

    def value(self, row: Row) -> bytes:
        """The value of a row."""
        return self.envelope(
            _LETTERS[row.op],
            self._image(row, "before"),
            self._image(row, "after"),
            row.commit_time,
            row.transaction,
            row.origin,
        )

    def envelope(
        self,
        letter: str,
        before: Any,
        after: Any,
        time: Instant | None,
        transaction: dict[str, Any] | None,
        origin: dict[str, Any],
    ) -> bytes:
        """The value around two images."""
        known = {
            "before": before,
            "after": after,
            "source": envelope.write_source(self.source, self.shape.database, self.shape.table, time, origin),
            "transaction": envelope.write_transaction(transaction),
            "op": letter,
            **envelope.write_clock(origin.get("envelope", {}), time),
        }
        tree = {}
        for name in self.members:
            sent = origin.get("sent", {}).get(f"envelope.{name}") if name not in known else None
            tree[name] = known.get(name) if sent is None else java_json.read(sent.encode(), "origin")
        return parts.write(tree, self.value_schema)

    def _image(self, row: Row, side: str) -> dict[str, Any] | None:
        image = row.before if side == "before" else row.after
        if image is None or row.origin.get("absent") == side:
            return None
        prefix = "before." if side == "before" and row.after is not None else ""
        sent = row.origin.get("sent", {})
        return {cell.name: self._cell(cell, image, side, prefix, row, sent) for cell in self.cells}

    def _cell(self, cell: Cell, image: dict[str, Any], side: str, prefix: str, row: Row, sent: dict[str, str]) -> Any:
        if f"{side}.{cell.name}" in sent:
            return java_json.read(sent[f"{side}.{cell.name}"].encode(), "origin")
        if cell.name not in image:
            return cell.absent
        value = image[cell.name]
        if value is not None:
            return cell.write(value)
        data = row.irregular.get(prefix + cell.name)
        return None if data is None else write_irregular(data, cell.node)

    def key_bytes(self, row: Row) -> bytes | None:
        """The key of a row, None for no key."""
        if self.key is None:
            return None
        if "key" in row.origin:
            return parts.write(java_json.read(row.origin["key"].encode(), "origin"), self.key_schema)
        side = "before" if row.after is None else "after"
        image = self._image(row, side) or {}
        return parts.write({name: image[name] for name in self.key}, self.key_schema)

    def truncate_key(self, origin: dict[str, Any]) -> bytes | None:
        """The key of a truncate: none, unless one was sent."""
        if "key" not in origin:
            return None
        return parts.write(java_json.read(origin["key"].encode(), "origin"), self.key_schema)


def is_ours(wire: str) -> bool:
    """Whether a shape was read from this protocol."""
    return wire.startswith(MARK)


def row_writer(shape: TableShape, wire: str, options: Options) -> RowWriter:
    """The writer for a shape with this wire text.

    Raises:
        UnsupportedError: wire text and columns do not belong together.
    """
    try:
        found = _wire(wire)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise UnsupportedError(
            f"debezium-mysql: shape {shape.id} of {shape.table} has a broken wire: {error}"
        ) from error
    value_schema = _text(found.value.schema)
    if value_schema:
        node = schema.read(value_schema.encode())
        nodes = node.row.by_name
        members, source = node.names, node.by_name["source"].names
    else:
        nodes = {c.name: loose.node(c.type) for c in shape.columns}
        members, source = tuple(found.value.envelope or ()), tuple(found.value.source or ())
    if [c.name for c in shape.columns] != list(nodes):
        raise UnsupportedError(f"debezium-mysql: shape {shape.id} of {shape.table} and its wire have other columns")
    key_schema = _text(found.key.schema) if found.key is not None else ""
    key = None if found.key is None else tuple(found.key.fields or ())
    if key_schema:
        key = schema.read(key_schema.encode()).names
    return RowWriter(shape, _cells(shape, nodes, options), key, key_schema, value_schema, members, source)


def _text(raw: msgspec.Raw) -> str:
    return bytes(raw).decode()


def _cells(shape: TableShape, nodes: dict[str, Node], options: Options) -> tuple[Cell, ...]:
    placeholder = options.unavailable_value_placeholder
    encoded = base64_text.write(placeholder.encode())
    numeric, binary = options.decimal_format == "NUMERIC", options.binary_handling_mode
    return tuple(
        Cell(
            column.name,
            nodes[column.name],
            writing(column.type, nodes[column.name], numeric=numeric, binary=binary),
            encoded if nodes[column.name].type == "bytes" else placeholder,
        )
        for column in shape.columns
    )
