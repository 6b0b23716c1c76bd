"""Conversions of integers, decimals and floats: by ranges where both are numbers, otherwise by the digits of their text."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.reshape.parts import Reshaped, blank, plain_text
from changefeed.model.types import INTEGERS, ColumnType

_EXACT = {"float": 2**24, "double": 2**53}


def _range(t: ColumnType) -> tuple[int, int]:
    if t.name == "boolean":
        return 0, 1
    if t.name == "year":
        return 0, 2155
    if t.name == "bit":
        return 0, 2 ** (t.length or 64) - 1
    bits = 24 if t.name == "mediumint" else INTEGERS[t.name]
    return (0, 2**bits - 1) if t.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _outside(array: pa.Array, low: int, high: int) -> pa.Array | None:
    """For each row, whether it is below `low` or above `high`; None if the array's type rules it out."""
    kind = array.type
    signed = pa.types.is_signed_integer(kind)
    least, most = (
        (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1) if signed else (0, 2**kind.bit_width - 1)
    )
    below = pc.less(array, pa.scalar(low, kind)) if low > least else None
    above = pc.greater(array, pa.scalar(high, kind)) if high < most else None
    if below is None or above is None:
        return above if below is None else below
    return pc.or_(below, above)


def integers(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts integers to another integer type; those outside its range are irregular."""
    if source.name == "boolean":
        array = array.cast(pa.int8())
    irregular: dict[int, str] = {}
    outside = _outside(array, *_range(target))
    if outside is not None:
        array, irregular = blank(array, outside)
    return array.cast(target.arrow), irregular


def integer_to_real(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts integers to float or double; those that it cannot hold exactly are irregular."""
    if source.name == "boolean":
        array = array.cast(pa.int8())
    limit = _EXACT[target.name]
    irregular: dict[int, str] = {}
    outside = _outside(array, -limit, limit) if array.type.bit_width > 32 or target.name == "float" else None
    if outside is not None:
        array, irregular = blank(array, outside)
    return array.cast(target.arrow, safe=False), irregular


def integer_to_decimal(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts integers to decimals; those with more digits than the target has before its point are irregular."""
    if source.name == "boolean":
        array = array.cast(pa.int8())
    return text_to_decimal(array.cast(pa.string()), source, target)


def text_to_decimal(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts texts to decimals; those with more digits than the target are irregular, except for zeros at the end."""
    if target.length is None:
        return blank(array, pc.invert(pc.match_substring_regex(array, r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$")))
    whole, scale = target.length - (target.scale or 0), target.scale or 0
    fits = pc.match_substring_regex(array, rf"^-?0*[0-9]{{0,{whole}}}(\.[0-9]{{0,{scale}}}0*)?$")
    digits = pc.match_substring_regex(array, r"[0-9]")
    array, irregular = blank(array, pc.invert(pc.and_(fits, digits)))
    return _trimmed(array, scale).cast(target.arrow), irregular


def _trimmed(array: pa.Array, scale: int) -> pa.Array:
    """Returns decimal texts without zeros that exceed the scale, because Arrow refuses to drop even those."""
    if not pc.any(pc.match_substring_regex(array, rf"\.[0-9]{{{scale}}}0")).as_py():
        return array
    return pc.replace_substring_regex(array, rf"(\.[0-9]{{{scale}}})0+$", r"\1")


def decimal_to_decimal(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts decimals to another precision: by a cast if no digit can be lost, otherwise by their texts."""
    if source.length is None:
        return text_to_decimal(array, source, target)
    if target.length is None:
        return plain_text(array), {}
    scale = (target.scale or 0) - (source.scale or 0)
    if scale >= 0 and target.length - source.length >= scale:
        return array.cast(target.arrow), {}
    return text_to_decimal(plain_text(array), source, target)


def text_to_integer(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts texts to integers; those that are not whole numbers, or outside the range, are irregular."""
    wide, irregular = text_to_decimal(array, source, ColumnType("decimal", length=20, scale=0))
    low, high = (pa.scalar(Decimal(n), wide.type) for n in _range(target))
    kept, outside = blank(wide, pc.or_(pc.less(wide, low), pc.greater(wide, high)))
    arrow = pa.int8() if target.name == "boolean" else target.arrow
    return kept.cast(arrow).cast(target.arrow), irregular | outside


def decimal_to_integer(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts decimals to integers; those with a fraction, or outside the range, are irregular."""
    return text_to_integer(plain_text(array), source, target)


def real_to_decimal(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts floats and doubles to decimals, by the digits of their shortest text."""
    return text_to_decimal(plain_text(array), source, target)


def real(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts between float and double; doubles whose shortest text would change are irregular."""
    if target.name == source.name or target.name == "double":
        return array.cast(target.arrow), {}
    narrow = array.cast(pa.float32(), safe=False)
    shortest = narrow.cast(pa.string()).cast(pa.float64())
    same = pc.or_(pc.equal(shortest, array), pc.equal(narrow.cast(pa.float64()), array))
    array, irregular = blank(array, pc.invert(pc.or_(same, pc.is_nan(array))))
    return array.cast(pa.float32(), safe=False), irregular
