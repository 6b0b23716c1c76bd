"""DECIMAL in binary form to text.

digits     before the point, then after it, in groups of nine: 4 bytes, big-endian
           1-2, 3-4, 5-6, 7-9 digits that remain, first before the point and last after it: 1, 2, 3, 4 bytes
sign       the first bit: 1 for positive numbers; all bytes of negative numbers are inverted
"""

from __future__ import annotations

from functools import lru_cache

from changefeed.errors import ProtocolError, TruncatedError

_REST = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # bytes for 0 to 9 digits
_MOST_DIGITS, _MOST_SCALE = 65, 38


@lru_cache(maxsize=256)
def groups(precision: int, scale: int) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """The groups before and after the point: bytes and digits of each.

    Raises:
        ProtocolError: no DECIMAL has this precision and scale.
    """
    if not (0 < precision <= _MOST_DIGITS and scale <= min(precision, _MOST_SCALE)):
        raise ProtocolError(f"decimal({precision},{scale}) does not exist", reason="unknown-type")
    whole, full = divmod(precision - scale, 9)[::-1], (4, 9)
    before = ([(_REST[whole[0]], whole[0])] if whole[0] else []) + [full] * whole[1]
    count, rest = divmod(scale, 9)
    after = [full] * count + ([(_REST[rest], rest)] if rest else [])
    return tuple(before), tuple(after)


@lru_cache(maxsize=256)
def size_of(precision: int, scale: int) -> int:
    """Number of bytes of a decimal(precision, scale)."""
    before, after = groups(precision, scale)
    return sum(size for size, _ in before + after)


def read_decimal(data: bytes, at: int, precision: int, scale: int) -> tuple[str, int]:
    """Reads a decimal at an offset; returns its text, `-12.50`, and the offset after it.

    Raises:
        ProtocolError: a group has more digits than it can.
    """
    size = size_of(precision, scale)
    if at + size > len(data):
        raise TruncatedError(f"a decimal ends {at + size - len(data)} bytes early", byte=at)
    negative = not data[at] & 0x80
    body = bytearray(data[at : at + size])
    body[0] ^= 0x80
    if negative:
        body = bytearray(byte ^ 0xFF for byte in body)
    before, after = groups(precision, scale)
    digits, offset = [], 0
    for width, count in before + after:
        number = int.from_bytes(body[offset : offset + width], "big")
        if number >= 10**count:
            raise ProtocolError(f"{number} in a decimal has more than {count} digits", reason="bad-decimal", byte=at)
        digits.append(f"{number:0{count}}")
        offset += width
    whole = "".join(digits[: len(before)]).lstrip("0") or "0"
    fraction = "".join(digits[len(before) :])
    return f"{'-' if negative else ''}{whole}{'.' if fraction else ''}{fraction}", at + size
