"""Events of a binary log, made by hand."""

from __future__ import annotations

import struct
import zlib


def framed(code: int, body: bytes, *, flags: int = 0, position: int = 0, checksum: bool = True) -> bytes:
    """An event, with a right size and checksum."""
    size = 19 + len(body) + 4 * checksum
    data = struct.pack("<IBIIIH", 1, code, 1, size, position, flags) + body
    return data + struct.pack("<I", zlib.crc32(data)) if checksum else data
