"""Snappy blocks as the producers' library (klauspost/compress, on amd64) writes them, byte for byte.

    size of the text, seven bits a byte │ literal, copy, …, literal
    literal   (n - 1) << 2           n to 60          copy   offset >> 8 << 5 | n - 4 << 2 | 1, offset    n to 11, offset to 2047
              f0 … fc, n - 1         1 to 4 bytes            n - 1 << 2 | 2, offset in 2 bytes            n to 64
                                                             n - 1 << 2 | 3, offset in 4 bytes

Rule 1. Two tables map a hash of bytes to their last position: the long one of five to seven bytes, the short one of four.
        Their sizes, and how soon bytes are skipped without a match, depend on the length of the text: `_Size`.
Rule 2. Of two candidate positions, one with eight equal bytes wins, then one with four. If only the short table matches,
        the long table's candidate at the next byte is preferred.
Rule 3. A text of less than 32 bytes, or one that compression does not make smaller by a 32nd and some bytes, is one literal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from changefeed.wire.lz4_frame import equal_bytes

_LEAST = 32
_MARGIN = 8  # bytes at the end in which no match begins
_ENDLESS = 2**32
_PRIMES = {4: 2654435761, 6: 227718039650203, 7: 58295818150454627}


@dataclass(frozen=True, slots=True)
class _Size:
    """Parameters that depend on the length of the text.

    Attributes:
        long_bits, short_bits: binary logarithm of the number of entries of each table.
        long_bytes: number of bytes that the long table hashes.
        skip: after every 2^skip bytes without a match, one more byte is skipped, at most `most`.
        slack: number of bytes reserved for each literal.
    """

    long_bits: int
    short_bits: int
    long_bytes: int
    skip: int
    slack: int = 3
    most: int = _ENDLESS


_SIZES = (
    (512, _Size(10, 8, 6, 4)),
    (4 << 10, _Size(12, 10, 6, 5)),
    (16 << 10, _Size(14, 12, 6, 6)),
    ((64 << 10) + 1, _Size(16, 13, 7, 7)),
)
_LARGEST = _Size(17, 14, 7, 7, 5, 100)


def compress(data: bytes) -> bytes:
    """Compresses `data` into one block."""
    head, left = bytearray(), len(data)
    while left > 0x7F:
        head.append(left & 0x7F | 0x80)
        left >>= 7
    head.append(left)
    packed = _Block(data).elements() if len(data) >= _LEAST else None
    return bytes(head + (_literal(data) if packed is None else packed))


class _Block:
    """Compressor of one text; `done` is the number of bytes that have been written."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._size = next((size for below, size in _SIZES if len(data) < below), _LARGEST)
        self._end = len(data) - _MARGIN
        self._room = len(data) - 9 - (len(data) >> 5)
        self._long: dict[int, int] = {}
        self._short: dict[int, int] = {}
        self._far = _hash(self._size.long_bytes, self._size.long_bits)
        self._near = _hash(4, self._size.short_bits)
        self._out = bytearray()
        self._done = 0

    def elements(self) -> bytes | None:
        """Returns the elements; None if they are too long."""
        at = 1
        while (match := self._search(at)) is not None:
            begin, place, following = self._back(*match)
            if not self._fits(begin):
                return None
            end = self._equal_to(begin, place)
            if begin - place > 0xFFFF and end - begin < 6:
                at = following + 1
                continue
            self._out += _literal(self._data[self._done : begin]) + _copy(begin - place, end - begin)
            at = self._done = end
            if at >= self._end:
                break
            if len(self._out) >= self._room:
                return None
            self._enter(begin, end)
        if not self._fits(len(self._data)):
            return None
        return bytes(self._out + _literal(self._data[self._done :]))

    def _fits(self, upto: int) -> bool:
        return len(self._out) + upto - self._done + self._size.slack < self._room

    def _search(self, at: int) -> tuple[int, int, int] | None:
        """Returns the next position with a match, the earlier position that it matches, and where the search would continue."""
        data, size, long, short, far, near = self._data, self._size, self._long, self._short, self._far, self._near
        while (following := at + min(1 + ((at - self._done) >> size.skip), size.most)) < self._end:
            window = data[at : at + 8]
            number = int.from_bytes(window, "little")
            seen, also = far(number), near(number)
            one, two = long.get(seen, 0), short.get(also, 0)
            long[seen] = short[also] = at
            if data[one : one + 8] == window:
                return at, one, following
            if data[two : two + 8] == window:
                return at, two, following
            if data[one : one + 4] == window[:4]:
                return at, one, following
            if data[two : two + 4] == window[:4]:
                return self._longer(at, two, following)
            at = following
        return None

    def _longer(self, at: int, place: int, following: int) -> tuple[int, int, int]:
        data = self._data
        key = self._far(int.from_bytes(data[at + 1 : at + 8], "little"))
        other, self._long[key] = self._long.get(key, 0), at + 1
        if data[other : other + 4] == data[at + 1 : at + 5]:
            return at + 1, other, following
        return at, place, following

    def _back(self, at: int, place: int, following: int) -> tuple[int, int, int]:
        data = self._data
        while place > 0 and at > self._done and data[place - 1] == data[at - 1]:
            at, place = at - 1, place - 1
        return at, place, following

    def _equal_to(self, at: int, place: int) -> int:
        """Returns the end of the bytes from `at` that equal those from `place`."""
        data, step = self._data, at - place
        at += 4
        while len(data) - at >= 8 and data[at : at + 8] == data[at - step : at - step + 8]:
            at += 8
        new = data[at : at + 8]
        old = data[at - step : at - step + len(new)]
        return at + (len(new) if new == old else equal_bytes(new, old))

    def _enter(self, begin: int, end: int) -> None:
        """Adds positions of the match to the tables: both ends, and every other position from the start and from the middle."""
        data, long, far = self._data, self._long, self._far
        first, last = begin + 1, end - 2
        for at in (first, last):
            long[far(int.from_bytes(data[at : at + 8], "little"))] = at
            self._short[self._near(int.from_bytes(data[at + 1 : at + 5], "little"))] = at + 1
        first, middle, last = first + 1, (first + last + 1) >> 1, last - 1
        while middle < last:
            for at in (first, middle):
                long[far(int.from_bytes(data[at : at + 8], "little"))] = at
            first, middle = first + 2, middle + 2


@cache
def _hash(count: int, bits: int) -> Callable[[int], int]:
    """Returns a hash function of the lowest `count` bytes of a number, with `bits` bits."""
    prime, mask, down = _PRIMES[count], (1 << 8 * count) - 1, 8 * count - bits
    return lambda number: (number * prime & mask) >> down


def _literal(data: bytes) -> bytes:
    if not data:
        return b""
    count = len(data) - 1
    if count < 60:
        return bytes((count << 2,)) + data
    width = (count.bit_length() + 7) // 8
    return bytes((59 + width << 2,)) + count.to_bytes(width, "little") + data


def _copy(offset: int, length: int) -> bytes:
    out = bytearray()
    if offset > 0xFFFF:
        for at in range(0, length, 64):
            out += bytes((min(length - at, 64) - 1 << 2 | 3,)) + offset.to_bytes(4, "little")
        return bytes(out)
    while length > 64:
        out += b"\xee" + offset.to_bytes(2, "little")
        length -= 60
    if length < 12 and offset < 2048:
        return bytes(out + bytes((offset >> 8 << 5 | length - 4 << 2 | 1, offset & 0xFF)))
    return bytes(out + bytes((length - 1 << 2 | 2,)) + offset.to_bytes(2, "little"))
