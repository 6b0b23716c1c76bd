"""Numbers after a change of type: out of range is the nearest number in range, and what has too many digits is rounded.

to integers    decimals: halves away from zero; floats and doubles: halves to the even number
to decimals    halves away from zero, by the shortest text of a float or double
to float(m,d)  d digits and at most m, by the server's own arithmetic in doubles
UNSIGNED       a negative number is 0, of decimals, floats and doubles, too
to year        1 to 69 are 2001 to 2069, 70 to 99 are 1970 to 1999, 1901 to 2155 stay, anything else is 0
to bit(n)      an integer that is negative keeps its 64 bits, and what is larger than n bits has all of them set
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.reshape.parts import plain_text
from changefeed.frames.types import SPARK_DIGITS, sink_type
from changefeed.model.types import INTEGERS, ColumnType

_WIDEST = 75  # one digit less than Arrow has: a sum needs it
_FLOAT_MAX = 3.4028234663852886e38
_BITS_63, _BITS_64 = 2**63, 2**64
_LONGEST = ColumnType("bigint", unsigned=True)


def span(t: ColumnType) -> tuple[int, int]:
    """Returns the smallest and the largest value of an integer type, `bit` and `year` included."""
    if t.name == "boolean":
        return 0, 1
    if t.name == "year":
        return 0, 2155
    if t.name == "bit":
        return 0, 2 ** (t.length or 64) - 1
    bits = 24 if t.name == "mediumint" else INTEGERS[t.name]
    return (0, 2**bits - 1) if t.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def integers(array: pa.Array, old: ColumnType, new: ColumnType) -> pa.Array:
    """Converts integers, or any whole numbers, to an integer type."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if new.name == "year":
        return _years(array)
    if new.name == "bit":
        return _bits(array, new)
    return _clamped(array, *span(new)).cast(sink_type(new).arrow)


def decimals_to_integers(array: pa.Array, old: ColumnType, new: ColumnType, server: str = "") -> pa.Array:
    """Converts decimals to an integer type."""
    whole = _rounded(_wide(array, old), 0)
    if new == _LONGEST and server not in ("mariadb", "tidb"):  # MySQL takes a signed integer first
        whole = _clamped(whole, 0, _BITS_63 - 1)
    return integers(whole, old, new)


def reals_to_integers(array: pa.Array, old: ColumnType, new: ColumnType, server: str = "") -> pa.Array:
    """Converts floats and doubles to an integer type."""
    low, high = span(new)
    whole = pc.round(array.cast(pa.float64()), 0, round_mode="half_to_even")
    high = min(high, _BITS_63 - 1)  # the server takes a signed integer first
    if old.name == "float" and server != "mariadb":  # MySQL overflows
        whole = pc.if_else(pc.less(whole, float(_BITS_63)), whole, float(-_BITS_63))
    below, above = pc.less_equal(whole, float(low)), pc.greater_equal(whole, float(high + 1))
    between = pc.if_else(pc.or_(below, above), 0.0, whole)
    wide = pa.uint64() if low == 0 else pa.int64()
    numbers = between.cast(wide)
    numbers = pc.if_else(above, pa.scalar(high, wide), pc.if_else(below, pa.scalar(low, wide), numbers))
    return numbers.cast(sink_type(new).arrow)


def decimals(array: pa.Array, old: ColumnType, new: ColumnType) -> pa.Array:
    """Converts integers and decimals to a decimal."""
    if new.length is None:
        return plain_text(array)
    whole, scale = new.length - (new.scale or 0), new.scale or 0
    number, has = _wide(array, old), _wide_type(old).scale
    limit = Decimal(10) ** whole
    if whole + has < _WIDEST:
        number = _clamped(number, limit.copy_negate(), limit)
    if scale < has:
        number = _rounded(number, scale)
    number = number.cast(pa.decimal256(_WIDEST, scale))
    with localcontext(prec=_WIDEST):
        most = limit - Decimal(1).scaleb(-scale)
    return _narrow(_clamped(number, Decimal(0) if new.unsigned else most.copy_negate(), most), new)


def reals_to_decimals(array: pa.Array, old: ColumnType, new: ColumnType) -> pa.Array:
    """Converts floats and doubles to a decimal, by the digits of their shortest text as a double."""
    length, scale = new.length or 65, new.scale or 0
    with localcontext(prec=400):
        step = Decimal(1).scaleb(-scale)
        most = Decimal(10) ** (length - scale) - step
        least = Decimal(0) if new.unsigned else -most

        def rounded(value: float) -> Decimal:
            return max(least, min(most, Decimal(str(value)))).quantize(step, ROUND_HALF_UP)

        numbers = [None if value is None else rounded(value) for value in array.cast(pa.float64()).to_pylist()]
    return _narrow(pa.array(numbers, pa.decimal256(_WIDEST, scale)), new)


def reals(array: pa.Array, old: ColumnType, new: ColumnType) -> pa.Array:
    """Converts any numbers to float or double, with a fixed number of digits or not."""
    double, gets_unsigned = _doubles(array, old), new.unsigned and not old.unsigned
    if new.scale is not None and new.length is not None:
        if old.name == new.name and not gets_unsigned:  # the server copies the number, and rounds it when it is read
            double = pa.array([v if v is None else round(v, new.scale) for v in double.to_pylist()], pa.float64())
        else:
            double = _fixed(double, new.length, new.scale)
    if gets_unsigned:
        double = _clamped(double, 0.0, _FLOAT_MAX if new.name == "float" else float("inf"))
    if new.name == "double":
        return double
    return _clamped(double, -_FLOAT_MAX, _FLOAT_MAX).cast(pa.float32(), safe=False)


def _doubles(array: pa.Array, old: ColumnType) -> pa.Array:
    if pa.types.is_floating(array.type):
        return array.cast(pa.float64())
    if pa.types.is_integer(array.type):
        return array.cast(pa.float64(), safe=False)
    return array.cast(pa.string()).cast(pa.float64())


def _fixed(double: pa.Array, length: int, scale: int) -> pa.Array:
    """Rounds doubles to `scale` digits, at most `length` in all: the arithmetic of the server, operation by operation."""
    power = 10.0**scale
    most = 10.0 ** (length - scale) - 1.0 / power
    whole = pc.floor(double)
    part = pc.divide(pc.round(pc.multiply(pc.subtract(double, whole), power), 0, round_mode="half_to_even"), power)
    return _clamped(pc.add(whole, part), -most, most)


def _rounded(array: pa.Array, scale: int) -> pa.Array:
    """Rounds wide decimals, halves away from zero. Arrow's own `round` is wrong for numbers of many nines."""
    with localcontext(prec=_WIDEST):
        half = Decimal(5).scaleb(-scale - 1)
    if array.type.scale <= scale:
        return array
    halves = pc.if_else(pc.less(array, _scalar(0, array)), _scalar(-half, array), _scalar(half, array))
    return pc.add(array, halves).cast(pa.decimal256(_WIDEST, scale), safe=False)


def _years(array: pa.Array) -> pa.Array:
    number = _clamped(array, -1, 2156).cast(pa.int32())
    century = pc.if_else(pc.less(number, 70), pc.add(number, 2000), pc.add(number, 1900))
    short = pc.and_(pc.greater(number, 0), pc.less(number, 100))
    full = pc.and_(pc.greater(number, 1900), pc.less(number, 2156))
    return pc.if_else(short, century, pc.if_else(full, number, 0)).cast(pa.int32())


def _bits(array: pa.Array, new: ColumnType) -> pa.Array:
    number = _clamped(array, -_BITS_63, _BITS_64 - 1).cast(pa.decimal128(20, 0))
    wrapped = pc.add(number, pa.scalar(Decimal(_BITS_64), number.type)).cast(pa.decimal128(20, 0))
    unsigned = pc.if_else(pc.less(number, _scalar(0, number)), wrapped, number)
    return _clamped(unsigned, 0, span(new)[1]).cast(sink_type(new).arrow)


def _clamped(array: pa.Array, low: int | float | Decimal, high: int | float | Decimal) -> pa.Array:
    """Returns the numbers, not below `low` and not above `high`."""
    least, most = _limits(array.type)
    if low > least:
        array = pc.if_else(pc.less(array, _scalar(low, array)), _scalar(low, array), array)
    if high < most:
        array = pc.if_else(pc.greater(array, _scalar(high, array)), _scalar(high, array), array)
    return array


def _limits(kind: pa.DataType) -> tuple[float | int | Decimal, float | int | Decimal]:
    if pa.types.is_floating(kind):
        return float("-inf"), float("inf")
    if pa.types.is_decimal(kind):
        with localcontext(prec=_WIDEST):
            most = Decimal(10) ** (kind.precision - kind.scale) - Decimal(1).scaleb(-kind.scale)
        return most.copy_negate(), most
    if pa.types.is_signed_integer(kind):
        return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    return 0, 2**kind.bit_width - 1


def _scalar(value: int | float | Decimal, array: pa.Array) -> pa.Scalar:
    if pa.types.is_decimal(array.type):
        value = Decimal(value)
    return pa.scalar(value, array.type)


def _wide_type(old: ColumnType) -> pa.DataType:
    return pa.decimal256(_WIDEST, (old.scale or 0) if old.name == "decimal" else 0)


def _wide(array: pa.Array, old: ColumnType) -> pa.Array:
    """Returns integers and decimals with room for any result."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    return array.cast(_wide_type(old))


def _narrow(array: pa.Array, new: ColumnType) -> pa.Array:
    """Returns decimals that fit in the sink's type."""
    assert new.length is not None
    kind = pa.decimal256(new.length, new.scale or 0)
    return plain_text(array.cast(kind)) if new.length > SPARK_DIGITS else array.cast(sink_type(new).arrow)
