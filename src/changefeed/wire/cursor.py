"""A cursor over bytes, which moves only forward and never past the end."""

from __future__ import annotations

from changefeed.errors import ProtocolError, TruncatedError


class Cursor:
    """Reads lengths and slices from a byte string; the length is checked before every read.

    Attributes:
        data: the bytes.
        at: offset of the next byte to read.
        what: the name of the bytes in errors, such as `key` or `value`.
    """

    __slots__ = ("at", "data", "what")

    def __init__(self, data: bytes, what: str) -> None:
        self.data = data
        self.at = 0
        self.what = what

    @property
    def left(self) -> int:
        """Number of bytes that have not been read."""
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        """Reads `count` bytes.

        Raises:
            TruncatedError: fewer bytes are left; the message contains how many are missing.
        """
        start = self.at
        end = start + count
        if end > len(self.data):
            raise TruncatedError(f"{self.what} ends {_bytes(count - self.left)} early", byte=start)
        self.at = end
        return self.data[start:end]

    def int64(self) -> int:
        """Reads eight bytes as a signed big-endian integer."""
        return int.from_bytes(self.take(8), "big", signed=True)

    def sized(self) -> bytes:
        """Reads an int64 length, and that many bytes.

        Raises:
            ProtocolError: reason `bad-length`: the length is negative.
            TruncatedError: fewer bytes are left.
        """
        start = self.at
        length = self.int64()
        if length < 0:
            raise ProtocolError(f"{self.what} has a length of {length}", reason="bad-length", byte=start)
        return self.take(length)

    def finish(self) -> None:
        """Checks that all bytes have been read.

        Raises:
            ProtocolError: reason `trailing-bytes`: bytes are left.
        """
        if self.left:
            raise ProtocolError(
                f"{self.what} continues after its end for {_bytes(self.left)}", reason="trailing-bytes", byte=self.at
            )


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"
