"""Text and binary, and canonical text to and from anything."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from changefeed.frames.reshape.moments import temporal
from changefeed.frames.reshape.parts import Reshaped, each, family, plain_text
from changefeed.model.table import canonical
from changefeed.model.types import ColumnType
from changefeed.model.values import reader, writer


def text_to_binary(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts texts to their bytes in UTF-8."""
    return array.cast(pa.binary()), {}


def binary_to_text(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts bytes in UTF-8 to texts; other bytes are irregular."""
    try:
        return array.cast(pa.string()), {}
    except pa.ArrowInvalid:
        return each(array.to_pylist(), lambda value: value.decode(), target)


def to_text(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts values of any type to canonical text; to JSON if their canonical form is not a text."""
    kind = family(source)
    if array.type == pa.string():
        return array, {}
    if kind == "integer" and source.name != "boolean":
        return array.cast(pa.string()), {}
    if kind == "decimal":
        return plain_text(array), {}
    write = writer(source)
    return each(_ready(array), lambda value: _as_text(write(value)), target)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)


def text_to(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts canonical texts to the type of their values; not to a timestamp, which would require a time zone."""
    if target.name != "datetime":
        return each(array.to_pylist(), reader(target), target)
    full = ColumnType("datetime", length=6)
    exact, irregular = each(array.to_pylist(), reader(full), full)
    kept, finer = temporal(exact, full, target)
    return kept, irregular | finer


def _ready(array: pa.Array) -> list[Any]:
    whole = pa.int32() if pa.types.is_date32(array.type) else pa.int64() if pa.types.is_timestamp(array.type) else None
    values: list[Any] = (array if whole is None else array.cast(whole)).to_pylist()
    return values
