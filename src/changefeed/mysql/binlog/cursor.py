"""A cursor over the bytes of an event: little-endian numbers, lengths of MySQL's protocol, bitmaps.

uint(n)       n bytes, little-endian
packed()      00 … fa  the number itself │ fc + 2 bytes │ fd + 3 bytes │ fe + 8 bytes; fb and ff are invalid
bits(n)       (n + 7) / 8 bytes, bit 0 of byte 0 first: columns, NULLs
high_bits(n)  the same, bit 7 of byte 0 first: signedness, visibility
"""

from __future__ import annotations

from changefeed.errors import ProtocolError, TruncatedError
from changefeed.wire.cursor import Cursor

_PACKED_SIZES = {0xFC: 2, 0xFD: 3, 0xFE: 8}


class EventCursor(Cursor):
    """Reads the numbers, texts and bitmaps that binlog events consist of.

    Every method raises TruncatedError if the bytes end early.
    """

    __slots__ = ()

    def uint(self, size: int) -> int:
        """Reads an unsigned little-endian integer of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def packed(self) -> int:
        """Reads a length-encoded integer.

        Raises:
            ProtocolError: reason `bad-length`: the first byte is fb or ff.
        """
        first = self.take(1)[0]
        if first < 0xFB:
            return first
        size = _PACKED_SIZES.get(first)
        if size is None:
            raise ProtocolError(f"{first:02x} does not begin a length", reason="bad-length", byte=self.at - 1)
        return self.uint(size)

    def prefixed(self, size: int) -> bytes:
        """Reads a length of `size` bytes, and that many bytes."""
        return self.take(self.uint(size))

    def packed_bytes(self) -> bytes:
        """Reads a length-encoded length, and that many bytes."""
        return self.take(self.packed())

    def terminated(self, size: int) -> bytes:
        """Reads a length of `size` bytes, that many bytes, and a zero byte.

        Raises:
            ProtocolError: reason `bad-text`: another byte follows.
        """
        text = self.prefixed(size)
        if self.take(1) != b"\0":
            raise ProtocolError(f"{text!r} does not end with a zero byte", reason="bad-text", byte=self.at - 1)
        return text

    def until_zero(self) -> bytes:
        """Reads the bytes before the next zero byte, and that byte."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise TruncatedError(f"{self.what} ends before a zero byte", byte=self.at)
        text = self.data[self.at : end]
        self.at = end + 1
        return text

    def rest(self) -> bytes:
        """Reads all bytes that are left."""
        return self.take(self.left)

    def bits(self, count: int) -> tuple[bool, ...]:
        """Reads a bitmap, lowest bit first."""
        number = self.uint((count + 7) // 8)
        return tuple(bool(number >> i & 1) for i in range(count))

    def high_bits(self, count: int) -> tuple[bool, ...]:
        """Reads a bitmap, highest bit of each byte first."""
        data = self.take((count + 7) // 8)
        return tuple(bool(data[i >> 3] >> (7 - (i & 7)) & 1) for i in range(count))
