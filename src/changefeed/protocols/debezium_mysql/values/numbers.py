r"""Numbers and bytes inside of JSON: decimals, bits, base64, and the members of ENUM and SET.

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
    """The decimal that base64 stands for; None when it is none.

    Raises:
        SchemaError: it is longer than any decimal of MySQL.
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
    """`unscaled` * 10 ** -`scale`, with that scale."""
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def unscaled(value: Decimal, scale: int) -> int:
    """The inverse.

    Raises:
        UnsupportedError: the value has more digits behind the point.
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
    """Base64 of the shortest two's complement."""
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return base64_text.write(number.to_bytes(length, "big", signed=True))


def read_plain(text: str) -> Decimal | None:
    """The decimal that plain text stands for, or None."""
    return Decimal(text) if _PLAIN.fullmatch(text) else None


def read_number(text: Number) -> Decimal:
    """The decimal that a JSON number stands for.

    Raises:
        SchemaError: it has more digits than any decimal of MySQL.
    """
    match = _NUMBER.fullmatch(text)
    if match is None or abs(int(match[1] or 0)) > _FARTHEST:
        raise SchemaError(f"{text[:40]} is not a decimal")
    return Decimal(text)


def read_bits(text: str, length: int) -> int:
    """The value of a BIT column.

    Raises:
        SchemaError: the text is not base64, or of more than eight bytes.
    """
    data = base64_text.read(text) if len(text) <= 16 else b"\0" * 9
    if len(data) > 8:
        raise SchemaError(f"bit({length}) has more than 8 bytes")
    return int.from_bytes(data, "little")


def write_bits(value: int, length: int) -> str:
    """Base64 of a BIT column's value."""
    try:
        return base64_text.write(value.to_bytes((length + 7) // 8, "little"))
    except OverflowError as error:
        raise UnsupportedError(f"debezium-mysql cannot carry {value} as bit({length})") from error


def read_members(allowed: str) -> tuple[str, ...]:
    """The members that the parameter `allowed` lists."""
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
    """The parameter `allowed` of these members."""
    return ",".join(map(escape_member, members))


def escape_member(member: str) -> str:
    """One member as `allowed` has it."""
    return member.replace("\\", "\\\\").replace(",", "\\,")
