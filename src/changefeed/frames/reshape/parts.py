"""Building blocks shared by all type conversions."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import ProtocolError
from changefeed.model.types import BINARIES, GEOMETRIES, INTEGERS, TEXTS, ColumnType

Reshaped = tuple[pa.Array, dict[int, str]]


def family(t: ColumnType) -> str:
    """Returns the family of a type, such as `integer` or `text`, by which conversions are chosen."""
    if t.name in INTEGERS or t.name in ("bit", "year", "boolean"):
        return "integer"
    if t.name in TEXTS or t.name == "json":
        return "text"
    if t.name in BINARIES:
        return "binary"
    if t.name in GEOMETRIES:
        return "geometry"
    if t.name in ("enum", "set") and t.members is not None:
        return f"{t.name} members"
    return {"float": "real", "double": "real"}.get(t.name, t.name)


def blank(array: pa.Array, bad: pa.Array) -> Reshaped:
    """Returns the array with the bad rows set to NULL, and row -> text of their values."""
    bad = pc.fill_null(bad, False)
    if not pc.any(bad).as_py():
        return array, {}
    rows = pc.indices_nonzero(bad)
    values = array.take(rows).to_pylist()
    kept = pc.if_else(bad, pa.scalar(None, array.type), array)
    return kept, {row: shown(value) for row, value in zip(rows.to_pylist(), values, strict=True)}


def shown(value: Any) -> str:
    """Returns an irregular value as text."""
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def plain_text(array: pa.Array) -> pa.Array:
    """Returns the texts of decimals or floats, without exponents."""
    text = array.cast(pa.string())
    exponent = pc.match_substring(text, "e", ignore_case=True)
    if not pc.any(exponent).as_py():
        return text
    return pa.array([v if v is None else _plain(v) for v in text.to_pylist()], pa.string())


def _plain(text: str) -> str:
    return format(Decimal(text), "f") if "e" in text.lower() else text


def each(values: list[Any], change: Callable[[Any], Any], target: ColumnType) -> Reshaped:
    """Converts value by value, for conversions that are rare; values for which `change` raises are irregular."""
    irregular: dict[int, str] = {}
    changed: list[Any] = []
    for row, value in enumerate(values):
        try:
            changed.append(None if value is None else change(value))
        except (ProtocolError, UnicodeDecodeError):
            irregular[row] = shown(value)
            changed.append(None)
    return pa.array(changed, target.arrow), irregular
