"""A place in bytes that only moves forward, and never past the end."""

from __future__ import annotations

from changefeed.errors import ProtocolError, TruncatedError


class Cursor:
    """Reads lengths and slices off a byte string; every read is checked before it is made.

    Attributes:
        data: the bytes.
        at: offset of the next byte to be read.
        what: the name of the bytes in errors, as `key` or `value`.
    """

    __slots__ = ("at", "data", "what")

    def __init__(self, data: bytes, what: str) -> None:
        self.data = data
        self.at = 0
        self.what = what

    @property
    def left(self) -> int:
        """How many bytes have not been read."""
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        """The next `count` bytes.

        Raises:
            TruncatedError: there are fewer; the message tells by how many.
        """
        if count > self.left:
            raise TruncatedError(f"{self.what} ends {_bytes(count - self.left)} early", byte=self.at)
        self.at += count
        return self.data[self.at - count : self.at]

    def int64(self) -> int:
        """The next eight bytes as a signed big-endian integer."""
        return int.from_bytes(self.take(8), "big", signed=True)

    def sized(self) -> bytes:
        """The bytes behind an int64 that tells how many they are."""
        start = self.at
        length = self.int64()
        if length < 0:
            raise ProtocolError(f"{self.what} has a length of {length}", reason="bad-length", byte=start)
        return self.take(length)

    def finish(self) -> None:
        """Checks that all has been read.

        Raises:
            ProtocolError: bytes are left over.
        """
        if self.left:
            raise ProtocolError(f"{self.what} goes on for {_bytes(self.left)}", reason="trailing-bytes", byte=self.at)


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"
