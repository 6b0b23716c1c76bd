"""Frames of a binlog: the magic of a file, the header of an event and its checksum.

    file     fe 62 69 6e │ event │ event │ …
    event    ┌ timestamp (4) ┬ type (1) ┬ server id (4) ┬ size (4) ┬ next position (4) ┬ flags (2) ┐ 19 bytes
             │ body                                                                                │
             └ checksum (4), if the format description declares it                                 ┘

Rule 1. The size counts the whole event. The checksum is the CRC32 of all bytes before it.
Rule 2. A format description always ends with the number of its checksum's method (1) and a checksum. Its flag `in use`
        counts as clear in the checksum, because the server clears it when it closes the file. If the method is none, a server
        that sends it for a connection, without a next position, has not computed the checksum again.
Rule 3. Events inside of a transaction payload have no checksum.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from changefeed.errors import ProtocolError, TruncatedError
from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.errors import BinlogError
from changefeed.mysql.binlog.events import Header

MAGIC = b"\xfebin"
HEADER_SIZE = 19
CHECKSUM_SIZE = 4
_SIZE_AT = 9
_NEXT_AT = 13
_FLAGS_AT = 17
_NO_CHECKSUM = 0  # the number of the method


@dataclass(frozen=True, slots=True)
class Frame:
    """An event that has not been parsed, and its offset in the file."""

    position: int
    data: bytes


def split_file(data: bytes) -> Iterator[Frame]:
    """Splits a binlog file into events.

    Raises:
        BinlogError: the bytes are not a binlog file, or end inside of an event. A file that the server is writing may do so:
            `position` is the start of the event.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise BinlogError(
            f"file begins with {data[:4].hex(' ') or 'no bytes'}, expected {MAGIC.hex(' ')}", reason="bad-magic"
        )
    yield from split(data, len(MAGIC))


def split(data: bytes, start: int) -> Iterator[Frame]:
    """Splits events that follow each other, from an offset on. Raises as `split_file`."""
    at = start
    while at < len(data):
        if len(data) - at < HEADER_SIZE:
            missing = HEADER_SIZE - len(data) + at
            raise BinlogError(f"header ends {missing} bytes early", reason="truncated", position=at)
        size = int.from_bytes(data[at + _SIZE_AT : at + _SIZE_AT + 4], "little")
        name = codes.name_of(data[at + 4])
        if size < HEADER_SIZE:
            raise BinlogError(
                f"size is {size}, expected at least {HEADER_SIZE}", reason="bad-length", position=at, event=name
            )
        if at + size > len(data):
            missing = at + size - len(data)
            raise BinlogError(f"event ends {missing} bytes early", reason="truncated", position=at, event=name)
        yield Frame(at, data[at : at + size])
        at += size


def read_header(data: bytes, position: int | None) -> Header:
    """Reads the header of an event, and compares its size with the bytes.

    Args:
        data: the event.
        position: its offset in the file; None: from the next position in the header, which has only 32 bits.

    Raises:
        ProtocolError: the size is not that of the bytes.
    """
    if len(data) < HEADER_SIZE:
        raise TruncatedError(f"header ends {HEADER_SIZE - len(data)} bytes early")
    timestamp, code, server_id, size, following, flags = (
        int.from_bytes(data[first:last], "little")
        for first, last in ((0, 4), (4, 5), (5, 9), (9, 13), (13, 17), (17, 19))
    )
    if size != len(data):
        error = TruncatedError if size > len(data) else ProtocolError
        raise error(f"event has {len(data)} bytes, its header declares {size}", reason="bad-length", byte=_SIZE_AT)
    if position is None and following >= size and not flags & codes.ARTIFICIAL:
        position = following - size
    return Header(timestamp, code, server_id, size, following, flags, position)


def without_checksum(data: bytes, code: int) -> bytes:
    """Checks the CRC32 at the end of an event, and returns the bytes before it.

    Raises:
        ProtocolError: reason `bad-checksum`.
    """
    if len(data) < HEADER_SIZE + CHECKSUM_SIZE:
        raise TruncatedError("event has no room for a checksum")
    body, stored = data[:-CHECKSUM_SIZE], int.from_bytes(data[-CHECKSUM_SIZE:], "little")
    checked = body
    if code == codes.FORMAT_DESCRIPTION:
        if body[-1] == _NO_CHECKSUM and not any(body[_NEXT_AT:_FLAGS_AT]):
            return body
        if data[_FLAGS_AT] & codes.IN_USE:
            checked = body[:_FLAGS_AT] + bytes((body[_FLAGS_AT] & ~codes.IN_USE,)) + body[_FLAGS_AT + 1 :]
    computed = zlib.crc32(checked)
    if computed != stored:
        message = f"checksum is {stored:08x}, the bytes have {computed:08x}"
        raise ProtocolError(message, reason="bad-checksum", byte=len(body))
    return body
