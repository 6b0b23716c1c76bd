"""Avro decimals: the unscaled integer in two's complement, big-endian, in as few bytes as possible; 0 is one byte.

12345678.90 as decimal(10,2)    1234567890    49 96 02 d2
-1.28       as decimal(10,2)    -128          80
"""

from __future__ import annotations

from decimal import Context, Decimal, InvalidOperation

from changefeed.errors import SchemaError, UnsupportedError

MAX_BYTES = 34  # MySQL's limit, 10^65, takes 28 bytes; Arrow's, 10^76, takes 33
_EXACT = Context(prec=82)


def read_decimal(data: bytes, scale: int) -> Decimal:
    """Decodes a number with `scale` digits after the point.

    Raises:
        SchemaError: there are no bytes, too many, or more than the number needs.
    """
    if not 0 < len(data) <= MAX_BYTES:
        raise SchemaError(f"decimal has {len(data)} bytes, expected 1 to {MAX_BYTES}")
    if len(data) > 1 and (data[0], data[1] & 0x80) in ((0, 0), (0xFF, 0x80)):
        raise SchemaError(f"{data.hex()} is not a decimal in its shortest form")
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _EXACT)


def write_decimal(value: Decimal, scale: int) -> bytes:
    """Encodes a number with `scale` digits after the point.

    Raises:
        UnsupportedError: the number has more digits after the point, or too many digits.
    """
    try:
        shifted = value.scaleb(scale, _EXACT)
    except InvalidOperation as error:
        raise UnsupportedError(f"{value} has more digits than a decimal can have") from error
    number = int(shifted)
    if number != shifted:
        raise UnsupportedError(f"{value} has more than {scale} digits after the point")
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
