"""Converts schema blocks and images to table shapes, which are compiled once and then looked up.

Rule 1. Rows with the same schema blocks, the same key columns and the same columns in their images are one family. A family
        has a shape for each set of types that its values alone show: digits of timestamps, and without a schema all.
Rule 2. A NULL shows nothing: a row joins the first shape of its family that agrees where it does show something. A column
        of NULLs alone is `timestamp`, or `null` without a schema.
Rule 3. The table of shapes is bounded; see `columnar.families`.
Rule 4. `key` is known from the key's payload; without a Kafka key, or when it has columns that the row has not, it is unknown.

The wire text of a shape is `{"connector":"TiCDC","key":…,"value":…}`: the texts of the two schema blocks, null for a document
without one; no `key` where the Kafka key was null. `keys` has the key's order where it is not the table's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from changefeed.columnar.families import ShapeFamily
from changefeed.errors import SchemaError
from changefeed.model.table import Column, TableShape, canonical
from changefeed.model.types import ColumnType
from changefeed.protocols.ticdc_debezium.envelope import CONNECTOR
from changefeed.protocols.ticdc_debezium.schema import Fields, key_schema, row_schema
from changefeed.wire.json_form import show

_NOTHING_SHOWN = ColumnType("null")

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Described:
    """The properties that the rows of a family have in common.

    Attributes:
        value_schema, key_schema: texts of the schema blocks, None without one.
        keys: columns of the key's payload; None without a Kafka key.
        before, after: columns of the images; if a family has only one image, both are its columns.
    """

    database: str
    table: str
    value_schema: str | None
    key_schema: str | None
    keys: Names | None
    before: Names
    after: Names

    @property
    def fields(self) -> tuple[Fields, Fields] | None:
        """The fields of before and after; None without a schema."""
        if self.value_schema is None:
            return None
        schema = row_schema(self.value_schema)
        return schema.before, schema.after


@dataclass(slots=True)
class Family:
    """Rows with the same description; `open`: the columns whose types only values show."""

    database: str
    table: str
    columns: tuple[Column, ...]
    before: Names | None
    after: Names | None
    wire: str
    open: Names
    shapes: ShapeFamily[ColumnType] = field(init=False)

    def __post_init__(self) -> None:
        self.shapes = ShapeFamily(self._completed)

    @property
    def is_bare(self) -> bool:
        """Whether the family has no shape yet."""
        return not self.shapes

    def shape(self, types: Mapping[str, ColumnType]) -> TableShape:
        """Returns the shape of a row whose values show these types."""
        return self.shapes.shape([types.get(name) for name in self.open])

    def _completed(self, shown: Sequence[ColumnType | None]) -> tuple[Sequence[ColumnType], TableShape]:
        bare = {c.name: c.type for c in self.columns}
        made = tuple(one or bare[name] for one, name in zip(shown, self.open, strict=True))
        return made, self._make(dict(zip(self.open, made, strict=True)))

    def _make(self, types: Mapping[str, ColumnType]) -> TableShape:
        columns = tuple(Column(c.name, types.get(c.name, c.type), c.nullable, c.key) for c in self.columns)
        return TableShape(self.database, self.table, columns, self.before, self.after, self.wire)


def family(described: Described) -> Family:
    """Creates the family of rows that are described like this.

    Raises:
        ProtocolError: schema blocks, key and images contradict each other.
    """
    types, keys = _columns(described), described.keys
    names = tuple(types)
    known = keys is not None and types.keys() >= set(keys)
    if described.key_schema is not None and tuple(key_schema(described.key_schema)) != (keys or ()):
        raise SchemaError(
            f"key has the columns {_list(keys)}, but its schema has {_list(tuple(key_schema(described.key_schema)))}"
        )
    columns = tuple(
        Column(name, kind, nullable, name in (keys or ()) if known else None)
        for name, (kind, nullable) in types.items()
    )
    return Family(
        described.database,
        described.table,
        columns,
        None if described.before == names else described.before,
        None if described.after == names else described.after,
        _wire(described, [name for name in names if name in (keys or ())]),
        tuple(c.name for c in columns if c.type.name == "timestamp" or described.value_schema is None),
    )


def _columns(row: Described) -> dict[str, tuple[ColumnType, bool | None]]:
    """Returns type and nullability of the columns that occur, in the order of the schema, or of the images."""
    carried = (*row.after, *row.before)
    if row.fields is None:
        return dict.fromkeys(carried, (_NOTHING_SHOWN, None))
    before, after = row.fields
    described = {**before, **after}
    for name in carried:
        if name in before and name in after and before[name].type != after[name].type:
            raise SchemaError(f"{name} is {after[name].type} in `after`, but {before[name].type} in `before`")
    there = set(carried)
    return {name: (f.type, f.nullable) for name, f in described.items() if name in there}


def _wire(described: Described, usual: list[str]) -> str:
    wire: dict[str, Any] = {"connector": CONNECTOR}
    if described.keys is not None:
        wire["key"] = described.key_schema
        if set(described.keys) == set(usual) and list(described.keys) != usual:
            wire["keys"] = list(described.keys)
    return canonical(wire | {"value": described.value_schema})


def _list(names: Names | None) -> str:
    return ", ".join(map(show, names or ())) or "none"
