"""Binary floating point as text: the shortest text that reads back to the same float32 or float64, as Go writes it.

Text is converted to float32 through a double; if that double is exactly between two float32 values, the text decides.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from fractions import Fraction

_PACK = struct.Struct("<f")
_INT = struct.Struct("<i")


def float32(text: str) -> float | None:
    """Returns the float32 nearest to the number, as a float; None if it is out of range."""
    value = float(text)
    near: float
    try:
        (near,) = _PACK.unpack(_PACK.pack(value))
    except OverflowError:
        return None
    if near == value or math.isinf(near):
        return None if math.isinf(near) else near
    other = _next(near, value)
    if abs(value - near) == abs(other - value) and (exact := Fraction(Decimal(text))) != Fraction(value):
        return max(near, other) if exact > Fraction(value) else min(near, other)
    return near


def _next(value: float, toward: float) -> float:
    """Returns the float32 next to `value`, in the direction of `toward`."""
    if value == 0:
        return math.copysign(2.0**-149, toward)
    (bits,) = _INT.unpack(_PACK.pack(value))
    (beside,) = _PACK.unpack(_INT.pack(bits + (1 if (toward > value) == (value > 0) else -1)))
    return float(beside)


def shortest(value: float, bits: int) -> tuple[str, int]:
    """Returns the fewest digits that read back to the same value, and the exponent of the first. `value` is > 0.

    `shortest(1500.0, 64)` is `("15", 3)`: 1.5e3.
    """
    text = repr(value) if bits == 64 else _shortest32(value)
    sign, digits, exponent = Decimal(text).as_tuple()
    del sign
    plain = "".join(map(str, digits)).lstrip("0")
    return plain.rstrip("0"), int(exponent) + len(plain) - 1


def _shortest32(value: float) -> str:
    for precision in range(9):
        near = f"{value:.{precision}e}"
        candidates = [text for text in (_above(near, precision, value), near) if text and float32(text) == value]
        if candidates:
            return min(candidates, key=lambda text: abs(Decimal(text) - Decimal(value)))
    raise AssertionError(f"{value!r} is not a float32")


def _above(near: str, precision: int, value: float) -> str | None:
    """Returns the next higher decimal of the same precision if `value` is a power of two, else None.

    The gap above a power of two is twice the gap below, so this decimal may read back although `near` does not. If both
    are equally near, Go takes the higher one: 2^-12 is 0.00024414063.
    """
    if math.frexp(value)[0] != 0.5:
        return None
    exponent = int(near.split("e")[1])
    return f"{Decimal(near) + Decimal(f'1e{exponent - precision}'):.{precision}e}"


def fixed(value: float, bits: int) -> str:
    """Formats a value without exponent: Go's format `f` with the shortest digits."""
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    digits, exponent = shortest(abs(value), bits)
    if exponent < 0:
        text = "0." + "0" * (-exponent - 1) + digits
    elif exponent + 1 >= len(digits):
        text = digits + "0" * (exponent + 1 - len(digits))
    else:
        text = f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
    return "-" + text if value < 0 else text


def scientific(value: float, bits: int, *, exponent_digits: int) -> str:
    """Formats a value such as `1.5e-07`, with at least `exponent_digits` digits in the exponent."""
    digits, exponent = shortest(abs(value), bits)
    mantissa = digits if len(digits) == 1 else f"{digits[0]}.{digits[1:]}"
    sign = "-" if exponent < 0 else "+"
    return f"{'-' if value < 0 else ''}{mantissa}e{sign}{abs(exponent):0{exponent_digits}}"
