r"""Protocol Buffers without generated code: reads and writes messages by tables of their fields.

    field     tag │ value                 tag = number << 3 | wire type, a varint
    varint    7 bits per byte, low bits first, 0x80 set in all but the last: ac 02 = 300; at most ten bytes
    wire type 0 varint │ 1 eight bytes │ 2 length, bytes │ 5 four bytes │ 3 4 groups: refused

Rule 1. Every length is checked before a slice. A message is read completely or not at all.
Rule 2. A known field has its declared wire type, occurs once unless it is repeated, and its value fits its kind.
Rule 3. Fields that the table does not contain are kept verbatim, and written after the others.
Rule 4. Fields are written in ascending order without zero values, so the bytes are deterministic.
Rule 5. Byte offsets in errors count from the beginning of the outermost message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from changefeed.errors import ProtocolError, TruncatedError

VARINT, EIGHT_BYTES, SIZED, FOUR_BYTES = 0, 1, 2, 5
UNKNOWN = "?"  # the member of a message that has its unknown fields
_MOST_UNKNOWN = 4096
_FIXED = {EIGHT_BYTES: 8, FOUR_BYTES: 4}
_MAX_TAG = 2**32 - 1
_INTEGERS = {
    "bool": (0, 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}


@dataclass(frozen=True)
class Field:
    """One field of a message.

    Attributes:
        kind: an integer kind, `string`, `bytes`, the table of a message, or `span`: bytes that are not copied; its value
            when read is their start and end.
        most: maximum number of values of a repeated field; 0 for a field that is not repeated.
    """

    number: int
    name: str
    kind: str | MessageDescriptor
    most: int = 0

    @property
    def is_message(self) -> bool:
        """Whether the field contains a message, and so is written even if it is empty: its presence is significant."""
        return self.kind == "span" or isinstance(self.kind, MessageDescriptor)

    @cached_property
    def tag(self) -> int:
        """The tag: number and wire type."""
        return self.number << 3 | (VARINT if self.kind in _INTEGERS else SIZED)


@dataclass(frozen=True)
class MessageDescriptor:
    """The table of a message's fields."""

    name: str
    fields: tuple[Field, ...] = ()

    @cached_property
    def by_number(self) -> dict[int, Field]:
        """The fields by their numbers."""
        return {f.number: f for f in self.fields}


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Reads an unsigned varint at `at`; returns the number and its end.

    Raises:
        ProtocolError: the varint ends early, or has more than 64 bits.
    """
    if at < end and data[at] < 0x80:
        return data[at], at + 1
    value = shift = 0
    start = at
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 2**64:
                break
            return value, at
        shift += 7
        if shift > 63:
            break
    else:
        raise TruncatedError("a number ends early", byte=start)
    raise ProtocolError("a number has more than 64 bits", reason="bad-protobuf", byte=start)


def fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields the fields of a message: tag, start of the field, value, end of the field.

    The value of a varint is the number; the value of other fields is the start of their bytes.

    Raises:
        ProtocolError: the bytes are not a message.
    """
    while at < end:
        begin, tag = at, data[at]
        if tag < 0x80:  # nearly always: saves a call
            at += 1
        else:
            tag, at = varint(data, at, end)
        kind = tag & 7
        if tag > _MAX_TAG or tag < 8:
            raise ProtocolError(f"field number {tag >> 3} is not allowed", reason="bad-protobuf", byte=begin)
        if kind == VARINT:
            value, at = varint(data, at, end)
        elif kind == SIZED:
            size, value = varint(data, at, end)
            at = _past(value, size, end)
        elif kind in _FIXED:
            value, at = at, _past(at, _FIXED[kind], end)
        else:
            raise ProtocolError(f"field {tag >> 3} has wire type {kind}", reason="bad-protobuf", byte=begin)
        yield tag, begin, value, at


def _past(at: int, size: int, end: int) -> int:
    if size > end - at:
        raise TruncatedError(f"field has {size} bytes, but only {end - at} are left", byte=at)
    return at + size


def read(message: MessageDescriptor, data: bytes, at: int = 0, end: int | None = None) -> dict[str, Any]:
    """Reads a message; returns its present members by name, repeated ones as lists.

    Raises:
        ProtocolError: the bytes are not such a message; the error contains the byte.
    """
    members: dict[str, Any] = {}
    unknown, count = bytearray(), 0
    for tag, begin, value, after in fields(data, at, len(data) if end is None else end):
        known = message.by_number.get(tag >> 3)
        if known is None:
            unknown += data[begin:after]
            count += 1
            if count > _MOST_UNKNOWN:
                text = f"{message.name} has more than {_MOST_UNKNOWN} unknown fields"
                raise ProtocolError(text, reason="too-large", byte=begin)
            continue
        if tag != known.tag:
            text = f"{message.name}.{known.name} has wire type {tag & 7}"
            raise ProtocolError(text, reason="bad-protobuf", byte=begin)
        ready = _value(message, known, data, begin, value, after)
        if known.most:
            several = members.setdefault(known.name, [])
            if len(several) == known.most:
                text = f"{message.name} has more than {known.most} {known.name}"
                raise ProtocolError(text, reason="too-large", byte=begin)
            several.append(ready)
        elif known.name in members:
            raise ProtocolError(f"{message.name}.{known.name} occurs twice", reason="bad-protobuf", byte=begin)
        else:
            members[known.name] = ready
    if unknown:
        members[UNKNOWN] = bytes(unknown)
    return members


def _value(message: MessageDescriptor, known: Field, data: bytes, begin: int, value: int, after: int) -> Any:
    if isinstance(known.kind, MessageDescriptor):
        return read(known.kind, data, value, after)
    if known.kind == "span":
        return value, after
    if known.kind == "bytes":
        return data[value:after]
    if known.kind == "string":
        return text(data, value, after, f"{message.name}.{known.name}")
    low, high = _INTEGERS[known.kind]
    if low < 0 and value >= 2**63:
        value -= 2**64
    if not low <= value <= high:
        raise ProtocolError(f"{message.name}.{known.name} is {value}", reason="bad-protobuf", byte=begin)
    return value


def text(data: bytes, at: int, end: int, what: str) -> str:
    """Decodes a string field; `what` is the subject of errors.

    Raises:
        ProtocolError: the bytes are not UTF-8.
    """
    try:
        return data[at:end].decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{what} is not UTF-8", reason="bad-utf8", byte=at + error.start) from error


def write_varint(value: int) -> bytes:
    """Encodes a number as a varint; a negative one takes ten bytes."""
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def sized(number: int, data: bytes) -> bytes:
    """Encodes a field of wire type 2 (length, bytes)."""
    return write_varint(number << 3 | SIZED) + write_varint(len(data)) + data


def write(message: MessageDescriptor, members: dict[str, Any]) -> bytes:
    """Encodes a message; members that are None are omitted.

    Raises:
        AttributeError, TypeError, ValueError: a member does not have its field's kind.
    """
    out = bytearray()
    for known in message.fields:
        member = members.get(known.name)
        for value in member or () if known.most else (member,):
            if value or known.most or (value is not None and known.is_message):
                out += _written(known, value)
    return bytes(out + members.get(UNKNOWN, b""))


def _written(known: Field, value: Any) -> bytes:
    if isinstance(known.kind, MessageDescriptor):
        return sized(known.number, write(known.kind, value))
    if known.kind == "string":
        return sized(known.number, value.encode())
    if known.kind in ("bytes", "span"):
        return sized(known.number, value)
    low, high = _INTEGERS[known.kind]
    if not low <= value <= high:
        raise ValueError(f"{value!r} is not a value of {known.name}")
    return write_varint(known.tag) + write_varint(int(value))
