"""Converts column descriptions to table shapes, which are compiled once and then looked up.

Rows that describe the same columns in the same way are one family; its shapes differ by fraction digits: `ticdc.digits`.

The wire text of a shape is `{"columns":[{"t":8,"h":true,"f":11},…]}`, one entry a column, members only if they were
sent. When `p` describes columns otherwise than `u`, its own list stands in `before`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from changefeed.columnar.families import ShapeFamily
from changefeed.errors import SchemaError
from changefeed.model.table import Column, TableShape, canonical
from changefeed.mysql import type_codes
from changefeed.protocols.ticdc_open.envelope import Described
from changefeed.protocols.ticdc_open.values import Read, reader
from changefeed.ticdc.digits import shapes_by_digits, with_digits
from changefeed.ticdc.texts import TEMPORAL
from changefeed.wire.strict_json import Number

LIMIT = 4096  # descriptions of columns that are kept compiled
_MAX_FLAGS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CompiledColumn:
    """A column description whose type has been determined."""

    column: Column
    read: Read
    temporal: bool


def compile_column(described: Described, zone: tzinfo, legacy: bool) -> CompiledColumn:
    """Compiles a description.

    Raises:
        ProtocolError: the type is unknown, or `t` or `f` is not an integer.
    """
    name, t, h, f = described
    code, flags = _small(t, "t", name), 0 if f is None else _small(f, "f", name)
    kind = type_codes.column_type(code, flags)
    key = bool(h) or bool(flags & type_codes.HANDLE)
    if f is None and h is None:
        column = Column(name, kind)
    else:
        column = Column(name, kind, None if f is None else bool(flags & type_codes.NULLABLE), key)
    return CompiledColumn(column, reader(kind, code, zone, legacy), kind.name in TEMPORAL)


def _small(number: Number, member: str, column: str) -> int:
    if not number.isdigit() or len(number) > 19 or int(number) > _MAX_FLAGS:
        raise SchemaError(f"{number[:40]} is not a valid {member} of a column - at `{column}`")
    return int(number)


@dataclass(slots=True)
class Family:
    """Rows described in the same way. `before` is None when both images have the columns of `after`."""

    database: str
    table: str
    columns: tuple[CompiledColumn, ...]
    before: tuple[str, ...] | None
    after: tuple[str, ...] | None
    wire: str
    temporal: tuple[str, ...]
    shapes: ShapeFamily[int] = field(init=False)

    def __post_init__(self) -> None:
        self.shapes = shapes_by_digits(self._make)

    @property
    def is_bare(self) -> bool:
        """Whether the family has no shape yet."""
        return not self.shapes

    def shape(self, digits: Sequence[int | None], *, keep: bool = True) -> TableShape:
        """Returns the shape of a row; `digits`: those of its temporal columns in order, None for NULL; see `ShapeFamily`."""
        return self.shapes.shape(digits, keep=keep)

    def _make(self, digits: tuple[int, ...]) -> TableShape:
        left = iter(digits)
        columns = tuple(with_digits(c.column, next(left)) if c.temporal else c.column for c in self.columns)
        return TableShape(self.database, self.table, columns, self.before, self.after, self.wire)


def wire_text(columns: Sequence[Described], before: Sequence[Described] | None = None) -> str:
    """Returns the wire text of a shape with these column descriptions."""
    text: dict[str, Any] = {"columns": [_members(c) for c in columns]}
    if before is not None:
        text["before"] = [_members(c) for c in before]
    return canonical(text)


def _members(described: Described) -> dict[str, Any]:
    _, t, h, f = described
    members: dict[str, Any] = {"t": int(t)}
    if h is not None:
        members["h"] = h
    if f is not None:
        members["f"] = int(f)
    return members
