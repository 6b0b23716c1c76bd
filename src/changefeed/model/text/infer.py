"""Infers the shape of rows that were written by hand: the type of each column from its values.

    integer                 bigint; bigint unsigned when one is above 2^63-1
    number with a point     double, also where integers stand beside it
    string                  varchar
    true, false             boolean
    {"base64": …}           varbinary
    {"srid": …, "wkb": …}   geometry
    {"index": …}            enum
    {"bits": …}             set
    list                    vector

A date in quotes is a string here: a shape line can declare another type. A column that is NULL everywhere has no type.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from changefeed.model.table import Column, TableShape
from changefeed.model.text.forms import LinePlace, RowForm
from changefeed.model.types import ColumnType

_OBJECTS = {
    frozenset({"base64"}): "varbinary",
    frozenset({"srid", "wkb"}): "geometry",
    frozenset({"index"}): "enum",
    frozenset({"bits"}): "set",
}
_SCALARS = {bool: "boolean", int: "bigint", float: "double", str: "varchar", list: "vector"}
_HINT = "a shape line before the row declares its type"


def infer(rows: Iterable[tuple[int, RowForm]], place: LinePlace) -> TableShape:
    """Returns a shape that fits all of these rows of one table; each row comes with its line number.

    Raises:
        SchemaError: the values of a column have different types, or are all NULL; the message names line and column.
    """
    types: dict[str, tuple[str, int, str]] = {}  # column -> type, the line with the first such value, the path
    names: dict[str, tuple[int, str]] = {}
    database, table, keys = "", "", []
    for number, row in rows:
        database, table, keys = row.database, row.table, row.keys
        for side, image in (("after", row.after), ("before", row.before)):
            for name, value in (image or {}).items():
                path = f"$.{side}.{name}"
                names.setdefault(name, (number, path))
                if value is not None:
                    inferred = _type(value, place, number, path)
                    types[name] = _merge(types.get(name), (inferred, number, path), place)
    for name, (number, path) in names.items():
        if name not in types:
            raise place.error(f"column {name!r} is NULL in every row: {_HINT}", path, number=number)
    columns = [Column(n, ColumnType.parse(types[n][0]), key=n in keys if keys else None) for n in names]
    return TableShape(database, table, tuple(columns))


def _type(value: Any, place: LinePlace, number: int, path: str) -> str:
    inferred = _OBJECTS.get(frozenset(value)) if isinstance(value, dict) else _SCALARS[type(value)]
    if inferred is None:
        known = ", ".join("{" + ", ".join(sorted(names)) + "}" for names in _OBJECTS)
        raise place.error(
            f"no type has values with the keys {', '.join(value)}; known objects: {known}", path, number=number
        )
    if inferred == "bigint" and not -(2**63) <= value < 2**63:
        return "bigint unsigned"
    return inferred


def _merge(old: tuple[str, int, str] | None, new: tuple[str, int, str], place: LinePlace) -> tuple[str, int, str]:
    if old is None or old[0] == new[0]:
        return old or new
    pair = {old[0], new[0]}
    for wide in ("double", "bigint unsigned"):
        if wide in pair and pair <= {"bigint", wide}:
            return old if old[0] == wide else new
    raise place.error(f"type {new[0]} here, {old[0]} in line {old[1]}: {_HINT}", new[2], number=new[1])
