"""Converts the columns of a message to table shapes, which are compiled once and then looked up.

Rule 1. Rows with the same description of the same columns are one family: names in the order of `data`, their `mysqlType`,
        `pkNames`, and which of them each image carries. Its shapes differ by the fraction digits of datetimes and timestamps
        whose `mysqlType` is bare: `ticdc.digits`.
Rule 2. A column is of the key when `pkNames` names it. Where that is null, the key is unknown: TiCDC names a primary key
        alone, and the handle key may be another unique one.

The wire text of a shape is `{"mysqlType":["bigint(20)","text"],"pkNames":["id"]}`, types in the order of the columns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import lru_cache
from typing import Any

from changefeed.columnar.families import ShapeFamily
from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.table import Column, TableShape, canonical
from changefeed.protocols.canal_json.types import column_type
from changefeed.protocols.canal_json.values import Read, Write, reader, writer
from changefeed.ticdc.digits import shapes_by_digits, with_digits
from changefeed.ticdc.texts import TEMPORAL

# Whose text may differ for one and the same value: what was sent is kept where the writer's text is another.
_SEVERAL_TEXTS = frozenset({"float", "double", "decimal", "vector", *TEMPORAL})


@dataclass(frozen=True, slots=True)
class Described:
    """The description of a message's columns; hashable.

    Attributes:
        columns: name and `mysqlType`, in the order of `data`; columns that only `old` has come last.
        before: names of the before image's columns; None for all columns.
        after: names of the after image's columns; None for all columns.
    """

    database: str
    table: str
    columns: tuple[tuple[str, str], ...]
    keys: tuple[str, ...] | None
    before: tuple[str, ...] | None
    after: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class CompiledColumn:
    """A column whose type has been parsed.

    Attributes:
        bare: whether it is a datetime or timestamp whose fraction digits only its values show.
        write: converts ready values back to text, to detect that another text was sent; None if that cannot happen.
    """

    column: Column
    read: Read
    bare: bool
    write: Write | None


@dataclass(slots=True)
class Family:
    """Rows with the same description."""

    described: Described
    columns: dict[str, CompiledColumn]
    bare: tuple[str, ...]
    shapes: ShapeFamily[int] = field(init=False)

    def __post_init__(self) -> None:
        self.shapes = shapes_by_digits(self._make)

    @property
    def is_bare(self) -> bool:
        """Whether the family has no shape yet."""
        return not self.shapes

    def shape(self, digits: dict[str, int]) -> TableShape:
        """Returns the shape of a row; `digits`: column -> fraction digits, for columns that are not NULL."""
        return self.shapes.shape([digits.get(name) for name in self.bare])

    def _make(self, digits: tuple[int, ...]) -> TableShape:
        left = iter(digits)
        columns = tuple(with_digits(c.column, next(left)) if c.bare else c.column for c in self.columns.values())
        d = self.described
        wire = {"mysqlType": [text for _, text in d.columns], "pkNames": None if d.keys is None else list(d.keys)}
        return TableShape(d.database, d.table, columns, d.before, d.after, canonical(wire))


def family(described: Described, zone: tzinfo) -> Family:
    """Creates the family of rows with this description.

    Raises:
        ProtocolError: a type is unknown.
    """
    columns = {}
    for name, text in described.columns:
        key = None if described.keys is None else name in described.keys
        columns[name] = _compiled(name, text, key, zone)
    return Family(described, columns, tuple(name for name, compiled in columns.items() if compiled.bare))


def _compiled(name: str, text: str, key: bool | None, zone: tzinfo) -> CompiledColumn:
    try:
        t = column_type(text)
    except ProtocolError as error:
        raise ProtocolError(f"{error} - at `mysqlType.{name}`", reason=error.reason) from error
    bare = t.name in TEMPORAL and t.length is None
    write = writer(t, zone) if t.name in _SEVERAL_TEXTS and not bare else None
    if t.name == "decimal" and t.length is not None:
        write = _fixed(t.scale or 0)
    return CompiledColumn(Column(name, t, None, key), reader(t, zone), bare, write)


def _fixed(scale: int) -> Write:
    """Returns a function that formats decimals with that many fraction digits."""

    def write(value: Any) -> str:
        whole, point, fraction = format(value, "f").partition(".")
        return f"{whole}.{fraction.ljust(scale, '0')}" if scale else whole + point + fraction

    return write


def describe(
    types: dict[str, str] | Any, names: Sequence[str], old: Sequence[str] | None, database: str, table: str, keys: Any
) -> Described:
    """Describes a row's columns; `names` are those of `data`, `old` those of the old row.

    Raises:
        SchemaError: a column has no `mysqlType`, so its text has no meaning.
    """
    if types is None:
        raise SchemaError("message has no mysqlType, without which the values have no meaning")
    extra = () if old is None else tuple(name for name in old if name not in set(names))
    missing = next((name for name in (*names, *extra) if name not in types), None)
    if missing is not None:
        raise SchemaError(f"column {missing!r:.60} has no type - at `mysqlType`")
    columns = tuple((name, types[name]) for name in (*names, *extra))
    return Described(database, table, columns, keys, None, tuple(names) if extra else None)


@lru_cache(maxsize=4096)
def own(wire: str) -> dict[str, Any] | None:
    """Parses a shape's wire text; None if the shape was read from another protocol, like the origins of its rows."""
    if '"mysqlType"' not in wire:
        return None
    members = json.loads(wire)
    if not isinstance(members, dict) or members.keys() != {"mysqlType", "pkNames"}:
        return None
    return members if isinstance(members["mysqlType"], list) and isinstance(members["pkNames"], list | None) else None
