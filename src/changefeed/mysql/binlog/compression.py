"""Compressed parts of a binlog: payloads of MySQL (zstd), events and columns of MariaDB (zlib).

    event    80 + w │ size, w bytes, big-endian │ zlib                             statements, and rows after the bitmaps
    column   80 + w, + 8 without zlib's head │ size, w bytes, big-endian │ zlib or deflate
             00 │ the bytes                                                         not compressed

Rule 1. The size of the inflated bytes is checked before and after; it must be right to the byte.
"""

from __future__ import annotations

import zlib

import pyarrow as pa

from changefeed.errors import ProtocolError

LIMIT = 1 << 30  # max_allowed_packet is at most 1 GiB
_CHUNK = 1 << 20
_METHOD, _WIDTH, _RAW = 0xF0, 0x07, 0x08
_ZLIB = 0x80


def inflate_event(data: bytes) -> bytes:
    """Inflates the compressed part of an event of MariaDB.

    Raises:
        ProtocolError: the bytes are not compressed, or do not inflate to the declared size.
    """
    if not data or data[0] & _METHOD != _ZLIB:
        raise _broken(f"method {data[:1].hex() or 'missing'} is unknown")
    width = data[0] & _WIDTH
    return _zlib(data[1 + width :], int.from_bytes(data[1 : 1 + width], "big"), zlib.MAX_WBITS)


def inflate_column(data: bytes) -> bytes:
    """Inflates a value of a compressed column of MariaDB. A value without bytes is empty.

    Raises:
        ProtocolError: the method is unknown, or the bytes do not inflate to the declared size.
    """
    if not data or data[0] == 0:
        return data[1:]
    if data[0] & _METHOD != _ZLIB:
        raise _broken(f"method {data[:1].hex()} is unknown")
    width = data[0] & _WIDTH
    size = int.from_bytes(data[1 : 1 + width], "big")
    return _zlib(data[1 + width :], size, -zlib.MAX_WBITS if data[0] & _RAW else zlib.MAX_WBITS)


def inflate_payload(data: bytes, size: int) -> bytes:
    """Inflates the zstd frames of a transaction payload.

    Raises:
        ProtocolError: the bytes are not zstd, or do not inflate to `size` bytes.
    """
    _within(size)
    inflated = bytearray()
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            while len(inflated) <= size and (chunk := stream.read(_CHUNK)):
                inflated += chunk
    except (OSError, pa.ArrowException) as error:
        raise _broken(str(error)) from error
    return _exact(bytes(inflated), size)


def _zlib(data: bytes, size: int, bits: int) -> bytes:
    _within(size)
    inflater = zlib.decompressobj(bits)
    try:
        inflated = inflater.decompress(data, size + 1)
    except zlib.error as error:
        raise _broken(str(error)) from error
    return _exact(inflated, size)


def _within(size: int) -> None:
    if size > LIMIT:
        raise ProtocolError(f"inflates to {size} bytes, expected at most {LIMIT}", reason="too-large")


def _exact(inflated: bytes, size: int) -> bytes:
    if len(inflated) != size:
        more = "more than " if len(inflated) > size else f"{len(inflated)} bytes, expected "
        raise _broken(f"inflates to {more}{size} bytes")
    return inflated


def _broken(why: str) -> ProtocolError:
    return ProtocolError(f"compressed bytes: {why.rstrip('.')}", reason="bad-compression")
