"""Splits a Kafka record into messages, of which it has one or more, and joins messages to records.

    key    ┌ version = 1 ┬ length ┬ JSON ┬ length ┬ JSON ┬ …
    value  └─────────────┴ length ┴ JSON ┴ length ┴ JSON ┴ …      all lengths and the version: int64, big-endian

Rule 1. The i-th key belongs to the i-th value; key and value must have the same number of messages.
Rule 2. A record without messages (a key of 8 bytes, no value) has no events.
Rule 3. A resolved message has a value of length 0. TiCDC's documentation shows it as a record without a value: a record value
        of 0 bytes counts as one empty value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from changefeed.errors import ProtocolError, TruncatedError
from changefeed.wire.cursor import Cursor

VERSION = 1


@dataclass(frozen=True, slots=True)
class EventFrame:
    """The unparsed key and value of one event, and their offsets in the record's key and value."""

    key: bytes
    value: bytes
    key_at: int
    value_at: int


def split(key: bytes | None, value: bytes | None) -> list[EventFrame]:
    """Splits a record into its messages.

    Raises:
        ProtocolError: the lengths do not cover key and value exactly, so no message can be trusted.
    """
    if key is None:
        raise TruncatedError("record has no key")
    parts = _parts(Cursor(key, "key"))
    if not value and len(parts) <= 1:
        return [EventFrame(part, b"", at, 0) for part, at in parts]
    return [
        EventFrame(part, body, at, body_at)
        for (part, at), (body, body_at) in zip(parts, _values(Cursor(value or b"", "value"), len(parts)), strict=True)
    ]


def keys(key: bytes | None) -> list[bytes]:
    """Splits a record's key into event keys, without its value.

    Raises:
        ProtocolError: the lengths do not cover the key exactly.
    """
    return [part for part, _ in _parts(Cursor(key or b"", "key"))]


def _parts(cursor: Cursor) -> list[tuple[bytes, int]]:
    version = cursor.int64()
    if version != VERSION:
        raise ProtocolError(f"version {version} is unknown, expected {VERSION}", reason="version", byte=0)
    parts: list[tuple[bytes, int]] = []
    while cursor.left:
        try:
            part = cursor.sized()
        except ProtocolError as error:
            raise _in_message(error, f"{len(parts) + 1}") from error
        parts.append((part, cursor.at - len(part)))
    return parts


def _values(cursor: Cursor, count: int) -> list[tuple[bytes, int]]:
    values: list[tuple[bytes, int]] = []
    for number in range(1, count + 1):
        try:
            value = cursor.sized()
        except ProtocolError as error:
            raise _in_message(error, f"{number} of {count}") from error
        values.append((value, cursor.at - len(value)))
    try:
        cursor.finish()
    except ProtocolError as error:
        raise _in_message(error, f"{count} of {count}", "after" if count else "with") from error
    return values


def _in_message(error: ProtocolError, which: str, word: str = "in") -> ProtocolError:
    return type(error)(f"{error} {word} message {which}", reason=error.reason, byte=error.byte)


def framed(data: bytes) -> bytes:
    """Returns the bytes, preceded by their length."""
    return len(data).to_bytes(8, "big") + data


def record(keys: Iterable[bytes], values: Iterable[bytes]) -> tuple[bytes, bytes]:
    """Returns key and value of a record with these messages, which are framed already."""
    return b"".join((VERSION.to_bytes(8, "big"), *keys)), b"".join(values)


def join(messages: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    """Returns key and value of a record with these messages."""
    pairs = list(messages)
    return record((framed(key) for key, _ in pairs), (framed(value) for _, value in pairs))
