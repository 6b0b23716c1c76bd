"""GTID_TAGGED of MySQL 8.3 and later: a message of numbered fields, with integers of 1 to 9 bytes.

    version, 1 │ size of all bytes │ last field that must be known │ ┌ field ┬ value ┐ …            all integers packed as below

    0  flags        2  number, signed     4  last committed, signed    6  commit time, µs      8  size of the transaction
    1  16 integers  3  size, tag          5  sequence number, signed   7  the original's       9  version of the server
       of the UUID                                                            10  the original's; 11  ticket of a commit group

    integer         0xxxxxxx          the lowest ones of the first byte count the bytes that follow; the bits above them and
                    01 …              those bytes are the number, lowest first. ff is followed by 8 bytes
    signed          number << 1, its lowest bit the sign

Rule 1. Fields ascend. An absent original is the same as this server's.
Rule 2. Values carry no size: an unknown field ends what can be read, and is an error if it must be known.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from changefeed.errors import ProtocolError
from changefeed.mysql.binlog.cursor import EventCursor
from changefeed.mysql.binlog.events import Gtid, Header

_VERSION = 1


def read_tagged_gtid(cursor: EventCursor, header: Header) -> Gtid:
    """Reads a GTID_TAGGED after the header.

    Raises:
        ProtocolError: the bytes contradict the format.
    """
    start = cursor.at
    if (version := varlen(cursor)) != _VERSION:
        raise ProtocolError(f"message of version {version}, expected {_VERSION}", reason="bad-version", byte=start)
    size, needed = varlen(cursor), varlen(cursor)
    if size != len(cursor.data) - start:
        message = f"message has {len(cursor.data) - start} bytes, declares {size}"
        raise ProtocolError(message, reason="bad-length", byte=start)
    fields: dict[int, Any] = {}
    while cursor.left:
        start = cursor.at
        number = varlen(cursor)
        if number not in _FIELDS:
            if number <= needed:
                raise ProtocolError(f"field {number} of a GTID is unknown", reason="unknown-option", byte=start)
            cursor.rest()
            break
        if fields and number <= max(fields):
            raise ProtocolError(f"field {number} of a GTID follows {max(fields)}", reason="bad-gtid", byte=start)
        fields[number] = _FIELDS[number](cursor)
    missing = {0, 1, 2, 3} - fields.keys()
    if missing:
        raise ProtocolError(f"field {min(missing)} of a GTID is missing", reason="bad-gtid", byte=start)
    tag = f":{fields[3]}" if fields[3] else ""
    return Gtid(
        header,
        f"{fields[1]}{tag}:{fields[2]}",
        bool(fields[0] & 1),
        fields.get(4),
        fields.get(5),
        fields.get(6),
        fields.get(7, fields.get(6)),
        fields.get(8),
        fields.get(9),
        fields.get(10, fields.get(9)),
    )


def varlen(cursor: EventCursor) -> int:
    """Reads an integer of 1 to 9 bytes."""
    first = cursor.uint(1)
    following = (~first & first + 1).bit_length() - 1  # the number of ones below the lowest zero
    number = first | cursor.uint(following) << 8
    return number >> (following + 1 if following < 8 else 8)


def _signed(cursor: EventCursor) -> int:
    number = varlen(cursor)
    return -(number >> 1) - 1 if number & 1 else number >> 1


def _uuid(cursor: EventCursor) -> uuid.UUID:
    parts = [varlen(cursor) for _ in range(16)]
    if max(parts) > 0xFF:
        raise ProtocolError("a byte of a UUID is too large", reason="bad-gtid", byte=cursor.at)
    return uuid.UUID(bytes=bytes(parts))


def _tag(cursor: EventCursor) -> str:
    data = cursor.take(varlen(cursor))
    if not data.isascii():
        raise ProtocolError(f"tag {data!r} is not ASCII", reason="bad-text", byte=cursor.at)
    return data.decode()


_FIELDS: dict[int, Callable[[EventCursor], Any]] = {
    0: varlen,
    1: _uuid,
    2: _signed,
    3: _tag,
    4: _signed,
    5: _signed,
    6: varlen,
    7: varlen,
    8: varlen,
    9: varlen,
    10: varlen,
    11: varlen,
}
