r"""Reads and writes numbers and bytes in JSON: decimals, bits, base64, and the members of ENUM and SET.

Decimal   base64 of the unscaled value, big-endian two's complement, as few bytes as possible; or a JSON number
Bits      base64 of ceil(n / 8) bytes, little-endian
allowed   members joined by commas, with `\,` for a comma inside one and `\\` for a backslash
"""

from __future__ import annotations

import re
from decimal import Decimal

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.wire import base64_text
from changefeed.wire.strict_json import Number

_MOST_BYTES = 40  # 65 digits need 28
_PLAIN = re.compile(r"-?\d{1,65}(?:\.\d{1,65})?", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,65}(?:\.\d{1,65})?(?:[eE]([+-]?\d{1,3}))?", re.ASCII)
_FARTHEST = 128


def read_unscaled(text: str, scale: int) -> Decimal | None:
    """Decodes base64 to a decimal with this scale; None if the text is not base64.

    Raises:
        SchemaError: the number is longer than any decimal of MySQL.
    """
    try:
        data = base64_text.read(text) if len(text) <= 4 * _MOST_BYTES else b"\0" * _MOST_BYTES * 2
    except SchemaError:
        return None
    if len(data) > _MOST_BYTES:
        raise SchemaError(f"decimal has more than {_MOST_BYTES} bytes")
    if not data:
        return None
    return scaled(int.from_bytes(data, "big", signed=True), scale)


def scaled(unscaled: int, scale: int) -> Decimal:
    """Returns the decimal `unscaled` * 10 ** -`scale`, with that scale."""
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def unscaled(value: Decimal, scale: int) -> int:
    """Returns `value` * 10 ** `scale` as an integer: the inverse of `scaled`.

    Raises:
        UnsupportedError: the value has more than `scale` fraction digits.
    """
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits)))
    shift = int(exponent) + scale
    if shift < 0:
        number, rest = divmod(number, int(10 ** abs(shift)))
        if rest:
            raise UnsupportedError(f"debezium-mysql cannot carry {value} with {scale} digits behind the point")
    else:
        number *= int(10**shift)
    return -number if sign else number


def write_unscaled(number: int) -> str:
    """Encodes a number as base64 of its shortest two's complement."""
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return base64_text.write(number.to_bytes(length, "big", signed=True))


def read_plain(text: str) -> Decimal | None:
    """Parses a decimal in plain notation; None if the text is not one."""
    return Decimal(text) if _PLAIN.fullmatch(text) else None


def read_number(text: Number) -> Decimal:
    """Converts a JSON number to a decimal.

    Raises:
        SchemaError: the number has more digits than any decimal of MySQL.
    """
    match = _NUMBER.fullmatch(text)
    if match is None or abs(int(match[1] or 0)) > _FARTHEST:
        raise SchemaError(f"{text[:40]} is not a decimal")
    return Decimal(text)


def read_bits(text: str, length: int) -> int:
    """Decodes the value of a BIT column.

    Raises:
        SchemaError: the text is not base64, or has more than eight bytes.
    """
    data = base64_text.read(text) if len(text) <= 16 else b"\0" * 9
    if len(data) > 8:
        raise SchemaError(f"bit({length}) has more than 8 bytes")
    return int.from_bytes(data, "little")


def write_bits(value: int, length: int) -> str:
    """Encodes the value of a BIT column as base64."""
    try:
        return base64_text.write(value.to_bytes((length + 7) // 8, "little"))
    except OverflowError as error:
        raise UnsupportedError(f"debezium-mysql cannot carry {value} as bit({length})") from error


def read_members(allowed: str) -> tuple[str, ...]:
    """Parses the parameter `allowed`: the members of an ENUM or SET."""
    members, part, at = [], "", 0
    while at < len(allowed):
        char = allowed[at]
        if char == "\\" and allowed[at + 1 : at + 2] in (",", "\\"):
            part, at = part + allowed[at + 1], at + 1
        elif char == ",":
            members.append(part)
            part = ""
        else:
            part += char
        at += 1
    return (*members, part)


def write_members(members: tuple[str, ...]) -> str:
    """Formats members as the parameter `allowed`."""
    return ",".join(map(escape_member, members))


def escape_member(member: str) -> str:
    """Escapes one member for `allowed`."""
    return member.replace("\\", "\\\\").replace(",", "\\,")
