"""Changes of values that whole columns can go through at once, where an Arrow kernel says exactly what the change says.

A change is a function of one ready value (see `model.values`). A column that holds a single value of which the kernel
would say something else, or fail, is not taken: it goes value by value, which tells what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# What Arrow and `model.values.read_datetime` read alike, but for days that no month has.
_INSTANT = r"^(?:[1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])-\d\d-\d\dT[0-2]\d:[0-5]\d:[0-5]\d(?:\.\d{1,6})?Z$"
Column = Callable[[pa.Array], pa.Array | None]


@dataclass(frozen=True, slots=True)
class ByColumn:
    """A change, and the same for a whole column: the new column, or None for one that has to go value by value."""

    value: Callable[[Any], Any]
    column: Column

    def __call__(self, value: Any) -> Any:
        """The changed value."""
        return self.value(value)


def wrapped(column: pa.Array) -> pa.Array:
    """Signed 64 bits as unsigned ones: -1 is 2^64 - 1."""
    return column.view(pa.uint64())


def counted(kind: pa.DataType, low: int, high: int, *, times: int = 1, per: int = 1, step: int = 1) -> Column:
    """Numbers that count days or time, as dates or timestamps of type `kind`.

    Args:
        kind: the Arrow type of the result.
        low, high: the first and the last result there is.
        times, per: a number stands for `times / per` of what `kind` counts, and never for a fraction.
        step: results are multiples of it.
    """

    def column(array: pa.Array) -> pa.Array | None:
        bounds = pc.min_max(array).as_py()
        if bounds["min"] is None:
            return pa.nulls(len(array), kind)
        if bounds["min"] * times < low * per or bounds["max"] * times > high * per:
            return None
        found = pc.multiply(array, times)
        if per > 1:
            if not _multiples(found, per):
                return None
            found = pc.divide(found, per)
        if not _multiples(found, step):
            return None
        return found.cast(pa.int32()).cast(kind) if kind.bit_width == 32 else found.cast(kind)

    return column


def instants(step: int = 1) -> Column:
    """ISO texts as timestamps; `step` as for `counted`, in microseconds."""

    def column(array: pa.Array) -> pa.Array | None:
        if pc.any(pc.invert(pc.match_substring_regex(array, _INSTANT))).as_py():
            return None
        try:
            found = array.cast(pa.timestamp("us", tz="UTC"))
        except pa.ArrowInvalid:  # no day of the calendar, or no hour of a day
            return None
        return found if _multiples(found.cast(pa.int64()), step) else None

    return column


def _multiples(array: pa.Array, of: int) -> bool:
    if of == 1:
        return True
    return not pc.any(pc.not_equal(pc.multiply(pc.divide(array, of), of), array)).as_py()
