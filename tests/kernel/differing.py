"""The first difference between the changes that two decoders return: to the bit, to the type, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from changefeed.model.batch import Decoded, TableBatch

_BITS = {pa.float16(): pa.uint16(), pa.float32(): pa.uint32(), pa.float64(): pa.uint64()}


def difference(expected: Decoded, actual: Decoded) -> str | None:
    """The first difference; None if there is none: tables with their shapes, rows, events, and dead letters.

    NaN is NaN, and -0.0 is not 0.0.
    """
    ours, theirs = [t.shape for t in actual.tables], [t.shape for t in expected.tables]
    if ours != theirs:
        only_in_one = [shape for shape in ours if shape not in theirs], [shape for shape in theirs if shape not in ours]
        return f"shapes {ours!r:.1000}, expected {theirs!r:.1000}; only in one: {only_in_one!r:.2000}"
    for mine, other in zip(actual.tables, expected.tables, strict=True):
        if why := _of_rows(mine, other):
            return f"{mine.shape.database}.{mine.shape.table}{why}"
    return _of_events("control", expected.control, actual.control) or _of_events("dead", expected.dead, actual.dead)


def _of_rows(mine: TableBatch, other: TableBatch) -> str | None:
    if not mine.rows.schema.equals(other.rows.schema, check_metadata=True):
        return f" has {mine.rows.schema}, expected {other.rows.schema}"
    try:
        mine.rows.validate(full=True)
    except pa.ArrowInvalid as error:
        return f" is not valid: {error}"
    if mine.rows.num_rows != other.rows.num_rows:
        return f" has {len(mine)} rows, expected {len(other)}"
    if all(map(same, mine.rows.columns, other.rows.columns)):
        return None
    for row, wanted in zip(mine.rows.to_pylist(), other.rows.to_pylist(), strict=True):
        if repr(row) != repr(wanted):
            return f": {row!r:.1500}, expected {wanted!r:.1500}"
    return ": columns differ, but not as Python values"


def same(one: pa.Array, other: pa.Array) -> bool:
    """Whether two arrays of one type and length are the same: floating point numbers by their bits."""
    if pa.types.is_struct(one.type) and _has_floats(one.type):
        if not one.is_valid().equals(other.is_valid()):
            return False
        return all(map(same, one.flatten(), other.flatten()))
    bits = _BITS.get(one.type)
    return bool(one.equals(other) if bits is None else one.view(bits).equals(other.view(bits)))


def _has_floats(kind: pa.DataType) -> bool:
    return any(pa.types.is_floating(member.type) for member in kind)


def _of_events(kind: str, expected: Sequence[Any], actual: Sequence[Any]) -> str | None:
    for one, wanted in zip(actual, expected, strict=False):
        if one != wanted or list(_kinds(one)) != list(_kinds(wanted)):
            return f"{kind} {one!r:.1500}, expected {wanted!r:.1500}"
    if len(actual) != len(expected):
        return f"{len(actual)} {kind}, expected {len(expected)}"
    return None


def _kinds(value: Any) -> Iterator[object]:
    """The types in an event, as 1, 1.0 and True are equal, and floating point numbers as text, as 0.0 and -0.0 are."""
    yield type(value)
    match value:
        case float():
            yield repr(value)
        case str() | bytes() | int() | None:
            return
        case dict():
            for item in value.items():
                yield from _kinds(item)
        case tuple() | list():
            for item in value:
                yield from _kinds(item)
        case _ if slots := getattr(type(value), "__slots__", ()):
            for name in slots:
                yield type(getattr(value, name))
            yield from _kinds(getattr(value, "origin", None))
