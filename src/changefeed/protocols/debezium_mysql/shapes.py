"""Converts schema blocks, or values without schema, to table shapes, which are compiled once and then looked up.

Rule 1. Rows whose schema block has the same bytes are one family; without schema, rows with the same column names. A family
        has a shape for each combination of properties that only values show: the fraction digits of a ZonedTimestamp, and
        without schema the type of every column.
Rule 2. A NULL shows nothing: a row joins the first shape of its family that matches in the columns that are not NULL. A column
        with only NULLs has no fraction digits, or without schema the type `null`. A row that lacks columns makes no shape that
        a complete row would join, because the kernel, which reads complete rows, would not have this shape.
Rule 3. The table of shapes is bounded; see `columnar.families`.

The wire text of a shape:

    {"protocol":"debezium-mysql","key":{"schema":{…}},"value":{"schema":{…}}}                      with schemas
    {"protocol":"debezium-mysql","key":{"fields":["id"]},"value":{"envelope":[…],"source":[…]}}    without
    {"protocol":"debezium-mysql","key":{"avro":7,"schema":"…"},"value":{"avro":8,"schema":"…"}}    Avro
    {"protocol":"debezium-mysql","key":null,"value":…}                                             no key
    {"protocol":"debezium-mysql","key":{"raw":true},"value":…}                                     a key of another converter
    {"protocol":"debezium-mysql","key":…,"value":{"unwrapped":true,…}}                             no envelope
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from changefeed.columnar.families import ShapeFamily
from changefeed.connect.parts import Block, ConnectPart
from changefeed.connect.schema import Node
from changefeed.model.table import Column, TableShape, canonical
from changefeed.model.types import ColumnType
from changefeed.protocols.debezium_mysql.values import schemaless
from changefeed.protocols.debezium_mysql.values.reading import Read, reading

MARK = '{"protocol":"debezium-mysql",'
# What a value shows of its column's type: fraction digits, or without schema the type.
Shown = int | ColumnType


@dataclass(frozen=True, slots=True)
class CompiledColumn:
    """A compiled column. `node` and `read` are None without schema; `open`: only values show its type or fraction digits."""

    column: Column
    node: Node | None
    read: Read | None
    open: bool


@dataclass(slots=True)
class Family:
    """Rows with the same description: the shapes of complete rows, and the shapes of rows that lack columns."""

    database: str
    table: str
    fields: tuple[CompiledColumn, ...]
    wire: str
    whole: ShapeFamily[Shown] = field(init=False)
    partial: ShapeFamily[Shown] = field(init=False)

    def __post_init__(self) -> None:
        self.whole, self.partial = ShapeFamily(self._completed), ShapeFamily(self._completed)

    @property
    def is_bare(self) -> bool:
        """Whether the family has no shape yet."""
        return not self.whole and not self.partial

    def shape(
        self, shown: Sequence[Shown | None], before: tuple[str, ...] | None, after: tuple[str, ...] | None
    ) -> TableShape:
        """Returns the shape of a row.

        Args:
            shown: the properties that its values show, one entry per open field; None for NULL.
            before, after: names of the columns that its images carry; None for all columns.
        """
        if before is None and after is None:
            return self.whole.shape(shown)
        shape = self.partial.find(shown) or self.whole.find(shown) or self.partial.shape(shown)
        return replace(shape, before=before, after=after)

    def _completed(self, shown: Sequence[Shown | None]) -> tuple[Sequence[Shown | None], TableShape]:
        open_types = [f.column.type for f in self.fields if f.open]
        known = tuple(
            0 if one is None and t != schemaless.NULL else one for one, t in zip(shown, open_types, strict=True)
        )
        left = iter(shown)
        columns = tuple(_typed(f.column, next(left)) if f.open else f.column for f in self.fields)
        return known, TableShape(self.database, self.table, columns, wire=self.wire)


def _typed(column: Column, shown: Shown | None) -> Column:
    if isinstance(shown, ColumnType):
        return replace(column, type=shown)
    if column.type == schemaless.NULL:
        return column
    return replace(column, type=ColumnType(column.type.name, length=shown or None))


def with_schema(row: Node, keys: tuple[str, ...] | None) -> tuple[CompiledColumn, ...]:
    """Compiles the columns of a row's struct; `keys`: names of the key's columns, None if there is no key."""
    return tuple(_field(node, keys) for node in row.fields)


def _field(node: Node, keys: tuple[str, ...] | None) -> CompiledColumn:
    t, read = reading(node)
    # Some versions have a geometry optional even where its column is NOT NULL.
    nullable = None if node.optional and t.name in ("point", "geometry") else node.optional
    column = Column(node.field, t, nullable, node.field in (keys or ()))
    return CompiledColumn(column, node, read, t.name in ("timestamp", "datetime") and t.length is None)


def without_schema(names: tuple[str, ...], keys: tuple[str, ...] | None) -> tuple[CompiledColumn, ...]:
    """Compiles the columns of a row without schema: only their names are known."""
    return tuple(
        CompiledColumn(Column(name, schemaless.NULL, None, name in (keys or ())), None, None, True) for name in names
    )


def wire_text(key: ConnectPart | None, value: ConnectPart) -> str:
    """Returns the wire text of rows with these parts for key and value."""
    layout = {"envelope": list(value.payload), "source": list(value.payload["source"])}
    return f'{MARK}"key":{key_text(key)},"value":{block_text(value.block) or canonical(layout)}}}'


def key_text(key: ConnectPart | None) -> str:
    """Returns the part of a wire text for a key."""
    if key is None:
        return "null"
    return '{"raw":true}' if key.block.raw else block_text(key.block) or canonical({"fields": list(key.payload)})


def block_text(block: Block) -> str:
    """Returns the part of a wire text for a schema; "" without a schema."""
    if block.avro:
        return canonical({"avro": block.id, "schema": block.text})
    return f'{{"schema":{block.text}}}' if block.text else ""
