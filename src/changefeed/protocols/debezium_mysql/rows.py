"""Converts rows to keys and values by the wire text of their shape, which is compiled once.

    wire text ─ RowWriter ─▶ key tree, value tree ─ parts.PartWriter ─▶ bytes

Rule 1. A NULL is written as null: where a converter has put a default in its place, the default is what was read. With
        the option `replace-null-with-default` it is written as the default, as that converter does.
Rule 2. What the origin's `sent` has of a value is written instead of it.
Rule 3. A column that an image does not carry is the placeholder.
Rule 4. A date of another protocol's row that is not a date, such as 0000-00-00, is NULL; if its field allows no NULL, it is the
        field's default, else 1970-01-01. The connector does the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from changefeed.columnar.events import Row
from changefeed.connect import java_json, parts
from changefeed.connect.parts import PLAIN, RAW, Block
from changefeed.connect.schema import Node
from changefeed.errors import UnsupportedError
from changefeed.model.event import Instant
from changefeed.model.table import TableShape
from changefeed.protocols.debezium_mysql import envelope, marks, unwrapped
from changefeed.protocols.debezium_mysql.defaults import EPOCH, MOMENTS
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.shapes import MARK
from changefeed.protocols.debezium_mysql.values import schemaless
from changefeed.protocols.debezium_mysql.values.writing import write_irregular, writing
from changefeed.wire import base64_text

LETTERS = {op: letter for letter, op in envelope.OPS.items()} | {"upsert": "c"}


_NOTHING = msgspec.Raw(b"")


class _Side(msgspec.Struct):
    schema: msgspec.Raw = _NOTHING
    avro: int | None = None
    fields: list[str] | None = None
    envelope: list[str] | None = None
    source: list[str] | None = None
    unwrapped: bool = False
    tombstone: bool = False
    raw: bool = False


class _Wire(msgspec.Struct):
    protocol: str
    key: _Side | None
    value: _Side


_wire = msgspec.json.Decoder(_Wire).decode


@dataclass(frozen=True, slots=True)
class Cell:
    """The writer of one column: the name of its field, and the values for a column that was not sent, or is NULL.

    Attributes:
        replaced: whether a value that the type cannot hold is written as NULL is: Rule 4.
    """

    column: str
    name: str
    node: Node
    write: Callable[[Any], Any]
    absent: str
    null: Any
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class RowWriter:
    """The writers of a shape's rows.

    Attributes:
        key: names of the key's fields, None for no key.
        key_block, block: the schemas of key and value.
        members, source: of the envelope and of the source block, in order.
        unwrapped: there is no envelope; `members` are the row's and what was added to it.
        tombstone: there is no value.
    """

    shape: TableShape
    cells: tuple[Cell, ...]
    key: tuple[str, ...] | None
    key_block: Block
    block: Block
    members: tuple[str, ...]
    source: tuple[str, ...]
    unwrapped: bool = False
    tombstone: bool = False

    def value(self, row: Row) -> Any:
        """Returns the tree of a row's value."""
        if self.unwrapped:
            image = (self._image(row, "before" if row.after is None else "after") or {}) | row.origin["unwrapped"]
            return {name: image[name] for name in self.members}
        before, after = self._image(row, "before"), self._image(row, "after")
        return self.envelope(LETTERS[row.op], before, after, row.instant, row.transaction, row.origin)

    def envelope(
        self,
        letter: str,
        before: Any,
        after: Any,
        time: Instant | None,
        transaction: dict[str, Any] | None,
        origin: dict[str, Any],
    ) -> Any:
        """Returns the tree of a value with these two images."""
        known = {
            "before": before,
            "after": after,
            "source": envelope.write_source(self.source, self.shape.database, self.shape.table, time, origin),
            "transaction": envelope.write_transaction(transaction),
            "op": letter,
            **envelope.write_clock(origin.get("envelope", {}), time),
        }
        sent = origin.get("sent", {})
        others = {
            name: java_json.read(sent.get(f"envelope.{name}", "null").encode(), "origin")
            for name in self.members
            if name not in known
        }
        return {name: others[name] if name in others else known[name] for name in self.members}

    def _image(self, row: Row, side: str) -> dict[str, Any] | None:
        image = row.before if side == "before" else row.after
        if image is None or row.origin.get("absent") == side:
            return None
        prefix = "before." if side == "before" and row.after is not None else ""
        sent = row.origin.get("sent", {})
        return {cell.name: self._cell(cell, image, side, prefix, row, sent) for cell in self.cells}

    def _cell(self, cell: Cell, image: dict[str, Any], side: str, prefix: str, row: Row, sent: dict[str, str]) -> Any:
        if f"{side}.{cell.column}" in sent:
            return java_json.read(sent[f"{side}.{cell.column}"].encode(), "origin")
        if cell.column not in image:
            return cell.absent
        value = image[cell.column]
        if value is not None:
            return cell.write(value)
        data = row.irregular.get(prefix + cell.column)
        return cell.null if data is None or cell.replaced else write_irregular(data, cell.node)

    def key_of(self, row: Row) -> Any:
        """Returns the tree of a row's key; None if there is no key."""
        if self.key is None or "key" in row.origin:
            return self.sent_key(row.origin)
        image = self._image(row, "before" if row.after is None else "after") or {}
        missing = [name for name in self.key if name not in image]
        if missing:
            raise UnsupportedError(f"debezium-mysql: {row.op} at {row.place} has no {missing[0]} for its key")
        return {name: image[name] for name in self.key}

    def sent_key(self, origin: dict[str, Any]) -> Any:
        """Returns the tree of the key in an origin; None if the origin has none."""
        return marks.key_tree(origin["key"])[0] if "key" in origin else None


def is_ours(wire: str) -> bool:
    """Whether a shape was read from this protocol."""
    return wire.startswith(MARK)


def row_writer(shape: TableShape, wire: str, options: Options) -> RowWriter:
    """Creates the writer for a shape with this wire text.

    Raises:
        UnsupportedError: the wire text has other columns than the shape.
    """
    try:
        schemas = _wire(wire)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise UnsupportedError(
            f"debezium-mysql: shape {shape.id} of {shape.table} has a broken wire: {error}"
        ) from error
    block, key_block = _block(schemas.value), _block(schemas.key)
    nodes, members, source = _layout(shape, schemas.value, key_block if schemas.value.tombstone else block)
    if shape.columns and len(shape.columns) != len(nodes):  # a truncate has no columns
        raise UnsupportedError(f"debezium-mysql: shape {shape.id} of {shape.table} and its wire have different columns")
    key = None if schemas.key is None else tuple(schemas.key.fields or ())
    if key_block.text:
        key = parts.node_of(key_block).names
    cells, side = _cells(shape, nodes, options), schemas.value
    return RowWriter(shape, cells, key, key_block, block, members, source, side.unwrapped, side.tombstone)


def _layout(shape: TableShape, side: _Side, block: Block) -> tuple[dict[str, Node], tuple[str, ...], tuple[str, ...]]:
    """Returns the nodes of the columns, and the members of envelope and source block."""
    if not block.text:
        nodes = {c.name: schemaless.node(c.type) for c in shape.columns}
        return nodes, tuple(side.envelope or side.fields or ()), tuple(side.source or ())
    node = parts.node_of(block)
    if side.tombstone:
        return node.by_name, (), ()
    if side.unwrapped:
        return unwrapped.columns(node, tuple(column.name for column in shape.columns)).by_name, node.names, ()
    return node.row.by_name, node.names, node.by_name["source"].names


def _block(side: _Side | None) -> Block:
    if side is None or not bytes(side.schema):
        return RAW if side is not None and side.raw else PLAIN
    if side.avro is None:
        return Block(bytes(side.schema).decode())
    return Block(msgspec.json.decode(side.schema, type=str), True, side.avro)


def _or_null(write: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Writes NULL for a value that the field's schema does not have."""

    def written(value: Any) -> Any:
        try:
            return write(value)
        except UnsupportedError:
            return None

    return written


def _cells(shape: TableShape, nodes: dict[str, Node], options: Options) -> tuple[Cell, ...]:
    placeholder = options.unavailable_value_placeholder
    encoded = base64_text.write(placeholder.encode())
    numeric, binary = options.decimal_format == "NUMERIC", options.binary_mode
    foreign = not is_ours(shape.wire)
    cells = []
    for column, (name, node) in zip(shape.columns, nodes.items(), strict=bool(shape.columns)):
        write = writing(column.type, node, numeric=numeric, binary=binary)
        absent = encoded if node.type == "bytes" else placeholder
        null = node.default if options.replace_null_with_default else None
        replaced = foreign and column.type.name in MOMENTS
        if replaced and not node.optional and null is None:
            null = write(EPOCH) if node.default is None else node.default
        if foreign and node.optional and options.event_converting_failure_handling_mode == "warn":
            write = _or_null(write)
        cells.append(Cell(column.name, name, node, write, absent, null, replaced))
    return tuple(cells)
