"""Conversions of whole columns, if Arrow computes exactly the same as the conversion of single values.

A conversion is a function of one ready value (see `model.values`). If Arrow would fail or give another result for any
value of a column, the column is converted value by value instead, so that the error names the value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Texts that Arrow and `model.values.read_datetime` read alike, except invalid days of a month.
_INSTANT = r"^(?:[1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])-\d\d-\d\dT[0-2]\d:[0-5]\d:[0-5]\d(?:\.\d{1,6})?Z$"
Convert = Callable[[pa.Array], pa.Array | None]


@dataclass(frozen=True, slots=True)
class ByColumn:
    """A conversion of one value, and of a whole column: None if the column must be converted value by value."""

    value: Callable[[Any], Any]
    column: Convert

    def __call__(self, value: Any) -> Any:
        """Converts one value."""
        return self.value(value)


def wrapped(column: pa.Array) -> pa.Array:
    """Reinterprets signed 64-bit integers as unsigned: -1 is 2^64 - 1."""
    return column.view(pa.uint64())


def counted(kind: pa.DataType, low: int, high: int, *, times: int = 1, per: int = 1, step: int = 1) -> Convert:
    """Returns the conversion of numbers of days or time units to dates or timestamps.

    Args:
        kind: the Arrow type of the result.
        low, high: the smallest and the largest valid result, in units of `kind`.
        times, per: one unit of the number is `times / per` units of `kind`; fractions are not converted.
        step: results must be multiples of it.
    """

    def column(array: pa.Array) -> pa.Array | None:
        bounds = pc.min_max(array).as_py()
        if bounds["min"] is None:
            return pa.nulls(len(array), kind)
        if bounds["min"] * times < low * per or bounds["max"] * times > high * per:
            return None
        numbers = pc.multiply(array, times)
        if per > 1:
            if not _multiples(numbers, per):
                return None
            numbers = pc.divide(numbers, per)
        if not _multiples(numbers, step):
            return None
        return numbers.cast(pa.int32()).cast(kind) if kind.bit_width == 32 else numbers.cast(kind)

    return column


def decimals(kind: pa.DataType, digits: int, scale: int) -> Convert:
    """Returns the conversion of plain texts to decimals of the Arrow type `kind`: `scale` of `digits` are behind the point."""
    whole = f"(?:0|[1-9][0-9]{{0,{digits - scale - 1}}})" if digits > scale else "0"
    plain = rf"^-?{whole}(?:\.[0-9]{{1,{scale}}})?$" if scale else f"^-?{whole}$"

    def column(array: pa.Array) -> pa.Array | None:
        is_plain = pc.match_substring_regex(array, plain)
        is_negative_zero = pc.match_substring_regex(array, r"^-0(?:\.0*)?$")
        if pc.any(pc.or_(pc.invert(is_plain), is_negative_zero)).as_py():
            return None
        return array.cast(kind)

    return column


def instants(step: int = 1) -> Convert:
    """Returns the conversion of ISO texts to timestamps; `step` as for `counted`, in microseconds."""

    def column(array: pa.Array) -> pa.Array | None:
        if pc.any(pc.invert(pc.match_substring_regex(array, _INSTANT))).as_py():
            return None
        try:
            times = array.cast(pa.timestamp("us", tz="UTC"))
        except pa.ArrowInvalid:  # an invalid day or hour
            return None
        return times if _multiples(times.cast(pa.int64()), step) else None

    return column


def _multiples(array: pa.Array, of: int) -> bool:
    if of == 1:
        return True
    return not pc.any(pc.not_equal(pc.multiply(pc.divide(array, of), of), array)).as_py()
