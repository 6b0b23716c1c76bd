"""Confluent's wire format: a schema id before the datum.

    00 │ 00 00 00 07 │ datum
    magic, schema id  in the format of the schema

The id is an unsigned 32-bit integer, big-endian, assigned by the schema registry.
"""

from __future__ import annotations

from changefeed.errors import ProtocolError, UnsupportedError
from changefeed.wire.cursor import Cursor

MAGIC = 0
HEADER = 5


def open_datum(data: bytes, what: str) -> tuple[int, Cursor]:
    """Returns the schema id, and a cursor at the first byte of the datum, whose offsets count from the start of `data`.

    Raises:
        ProtocolError: reason `bad-magic`: the bytes are in another format.
        TruncatedError: the header is incomplete.
    """
    cursor = Cursor(data, what)
    magic = cursor.take(1)[0]
    if magic != MAGIC:
        raise ProtocolError(f"{what} begins with the byte {magic:02x}, expected 00", reason="bad-magic", byte=0)
    return int.from_bytes(cursor.take(4), "big"), cursor


def header(schema_id: int) -> bytes:
    """Returns the five bytes before a datum.

    Raises:
        UnsupportedError: the id does not fit into four bytes.
    """
    if not 0 <= schema_id < 2**32:
        raise UnsupportedError(f"schema id {schema_id} does not fit the four bytes that Confluent's wire format has")
    return bytes((MAGIC,)) + schema_id.to_bytes(4, "big")
