"""From described columns to table shapes: compiled once, then looked up.

Rule 1. Rows that describe the same columns in the same way are one family; a family has one shape for each set of
        fraction digits that its datetimes and timestamps were sent with: `datetime(3)`, and `datetime` for none.
Rule 2. A NULL says nothing of its digits: a row joins the first shape of its family that agrees where it is not NULL.
        A row of NULLs alone makes or joins `datetime`.
Rule 3. The table of shapes is bounded; a shape made again is equal to the one forgotten.

The wire text of a shape is `{"columns":[{"t":8,"h":true,"f":11},…]}`, one entry a column, members only if they were
sent. When `p` describes columns otherwise than `u`, its own list stands in `before`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from changefeed.errors import SchemaError
from changefeed.model.table import Column, TableShape, canonical
from changefeed.model.types import ColumnType
from changefeed.protocols.ticdc_open.envelope import Described
from changefeed.protocols.ticdc_open.values import TEMPORAL, Read, reader
from changefeed.wire import mysql
from changefeed.wire.strict_json import Number

LIMIT = 4096
_SHAPES_IN_FAMILY = 64
_MAX_FLAGS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Compiled:
    """A described column, understood."""

    column: Column
    read: Read
    temporal: bool


def compile_column(described: Described, zone: tzinfo, legacy: bool) -> Compiled:
    """What a description means.

    Raises:
        ProtocolError: the type is unknown, or `t` or `f` is no integer.
    """
    name, t, h, f = described
    code, flags = _small(t, "t", name), 0 if f is None else _small(f, "f", name)
    kind = mysql.column_type(code, flags)
    key = bool(h) or bool(flags & mysql.HANDLE)
    if f is None and h is None:
        column = Column(name, kind)
    else:
        column = Column(name, kind, None if f is None else bool(flags & mysql.NULLABLE), key)
    return Compiled(column, reader(kind, code, zone, legacy), kind.name in TEMPORAL)


def _small(number: Number, member: str, column: str) -> int:
    if not number.isdigit() or len(number) > 19 or int(number) > _MAX_FLAGS:
        raise SchemaError(f"{number[:40]} is no {member} of a column - at `{column}`")
    return int(number)


@dataclass(slots=True)
class Family:
    """Rows described in the same way. `before` is None when both images have the columns of `after`."""

    database: str
    table: str
    columns: tuple[Compiled, ...]
    before: tuple[str, ...] | None
    after: tuple[str, ...] | None
    wire: str
    temporal: tuple[str, ...]
    shapes: list[tuple[tuple[int, ...], TableShape]] = field(default_factory=list)

    def shape(self, digits: Sequence[int | None]) -> TableShape:
        """The shape of a row; `digits` are those of its temporal columns in order, None for NULL."""
        for known, shape in self.shapes:
            if all(sent is None or sent == have for sent, have in zip(digits, known, strict=True)):
                return shape
        made = tuple(sent or 0 for sent in digits)
        shape = self._make(made)
        self.shapes.append((made, shape))
        del self.shapes[:-_SHAPES_IN_FAMILY]
        return shape

    def _make(self, digits: tuple[int, ...]) -> TableShape:
        left = iter(digits)
        columns = tuple(_with_digits(c.column, next(left)) if c.temporal else c.column for c in self.columns)
        return TableShape(self.database, self.table, columns, self.before, self.after, self.wire)


def _with_digits(column: Column, digits: int) -> Column:
    kind = ColumnType(column.type.name, length=digits or None)
    return Column(column.name, kind, column.nullable, column.key)


def wire_text(columns: Sequence[Described], before: Sequence[Described] | None = None) -> str:
    """The wire text of a shape whose columns are described like this."""
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
