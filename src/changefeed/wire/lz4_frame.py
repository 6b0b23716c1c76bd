"""LZ4 frames as the producers' library (pierrec/lz4 v4) writes them, byte for byte.

    04 22 4d 18  64 70 b9 │ block … │ 00 00 00 00 │ xxh32 of the text
    magic        header   │         │ end
    header: independent blocks of 4 MiB, a checksum of the whole text
    block:  4 bytes, its size (top bit: stored uncompressed), then sequences
    sequence: lengths of literals and match in a nibble each, more length of literals, the literals, offset (2 bytes),
              more length of the match

Rule 1. A table maps a hash of six bytes to the low 16 bits of their last position. Three positions are tried at a time;
        the longer no match is found, the more bytes are skipped.
Rule 2. A match is extended backward over literals, and forward eight bytes at a time; the last 14 bytes are literals. The
        position two bytes before the end of the match is added to the table.
Rule 3. A block that compression does not make smaller is stored.
"""

from __future__ import annotations

import struct

MAGIC = b"\x04\x22\x4d\x18"
_HEADER = MAGIC + b"\x64\x70\xb9"
_BLOCK = 4 << 20
_STORED = 1 << 31
_WINDOW = 1 << 16
_LEAST = 4
_LAST = 14  # bytes at the end in which no match begins
_SKIP_SHIFT = 7
_PRIME48 = 227718039650203
_MASK32, _MASK48 = 2**32 - 1, 2**48 - 1


def compress(data: bytes) -> bytes:
    """Compresses `data` into one frame."""
    out = bytearray(_HEADER)
    for at in range(0, len(data), _BLOCK):
        block = data[at : at + _BLOCK]
        packed = _Block(block).sequences()
        body, flag = (block, _STORED) if packed is None else (packed, 0)
        out += (len(body) | flag).to_bytes(4, "little") + body
    return bytes(out + bytes(4) + xxh32(data).to_bytes(4, "little"))


def _hash(window: int) -> int:
    return (window * _PRIME48 & _MASK48) >> 32


class _Block:
    """Compressor of one block; `anchor` is the start of the literals that have not been written."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._end = len(data) - _LAST
        self._seen: dict[int, int] = {}
        self._out = bytearray()
        self._anchor = 0

    def sequences(self) -> bytes | None:
        """Returns the block's sequences; None if the block must be stored."""
        at = 0
        while at < self._end:
            match = self._search(at)
            if match is None:
                break
            at = self._match(*match)
        last = len(self._data) - self._anchor
        self._out.append(min(last, 15) << 4)
        self._longer(last)
        if len(self._out) >= self._anchor:
            return None
        return bytes(self._out + self._data[self._anchor :])

    def _search(self, at: int) -> tuple[int, int] | None:
        """Returns the next position with a match, and the earlier position that it matches; None if there is no match."""
        data, seen, end, anchor = self._data, self._seen, self._end, self._anchor
        while at < end:
            window = int.from_bytes(data[at : at + 8], "little")
            first = (window * _PRIME48 & _MASK48) >> 32
            second = ((window >> 8) * _PRIME48 & _MASK48) >> 32
            third = ((window >> 16) * _PRIME48 & _MASK48) >> 32
            one, two, three = seen.get(first, 0), seen.get(second, 0), 0
            seen[first], seen[second] = at & 0xFFFF, (at + 1) & 0xFFFF
            if (place := self._fit(at, one)) is not None:
                return at, place
            three = seen.get(third, 0)
            if (place := self._fit(at + 1, two)) is not None:
                return at + 1, place
            seen[third] = (at + 2) & 0xFFFF
            if (place := self._fit(at + 2, three)) is not None:
                return at + 2, place
            at += 4 + ((at + 2 - anchor) >> _SKIP_SHIFT)
        return None

    def _fit(self, at: int, low: int) -> int | None:
        """Returns the position within the window with these low 16 bits if it matches, else None."""
        place = at - ((at - low) & 0xFFFF or _WINDOW)
        data = self._data
        if at - place < _WINDOW and data[at : at + _LEAST] == data[place : place + _LEAST]:
            return place
        return None

    def _match(self, at: int, place: int) -> int:
        """Writes the literals and the match; returns the end of the match."""
        data, anchor, offset, end = self._data, self._anchor, at - place, at + _LEAST
        while at > anchor and at > offset and data[at - 1] == data[at - offset - 1]:
            at -= 1
        while end + 8 <= self._end:
            new, old = data[end : end + 8], data[end - offset : end - offset + 8]
            if new != old:
                end += equal_bytes(new, old)
                break
            end += 8
        literals, more = at - anchor, end - at - _LEAST
        self._out.append(min(literals, 15) << 4 | min(more, 15))
        self._longer(literals)
        self._out += data[anchor:at] + offset.to_bytes(2, "little")
        self._longer(more)
        self._anchor = end
        if end < self._end:
            self._seen[_hash(int.from_bytes(data[end - 2 : end + 6], "little"))] = (end - 2) & 0xFFFF
        return end

    def _longer(self, count: int) -> None:
        if count >= 15:
            full, rest = divmod(count - 15, 255)
            self._out += b"\xff" * full + bytes((rest,))


def equal_bytes(one: bytes, other: bytes) -> int:
    """Returns the length of the common prefix of two different byte strings of the same length."""
    differ = int.from_bytes(one, "little") ^ int.from_bytes(other, "little")
    return ((differ & -differ).bit_length() - 1) >> 3


_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK32


def xxh32(data: bytes) -> int:
    """Computes the checksum xxHash32 with seed 0."""
    whole = len(data) & ~15
    total = _P5 if not whole else _accumulate(data[:whole])
    total = (total + len(data)) & _MASK32
    words = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[whole:words]):
        total = _rotated((total + word * _P3) & _MASK32, 17) * _P4 & _MASK32
    for byte in data[words:]:
        total = _rotated((total + byte * _P5) & _MASK32, 11) * _P1 & _MASK32
    total = (total ^ total >> 15) * _P2 & _MASK32
    total = (total ^ total >> 13) * _P3 & _MASK32
    return total ^ total >> 16


def _accumulate(data: bytes) -> int:
    accumulators = [(_P1 + _P2) & _MASK32, _P2, 0, -_P1 & _MASK32]
    for words in struct.iter_unpack("<4I", data):
        accumulators = [
            _rotated((accumulator + word * _P2) & _MASK32, 13) * _P1 & _MASK32
            for accumulator, word in zip(accumulators, words, strict=True)
        ]
    return (
        sum(_rotated(accumulator, bits) for accumulator, bits in zip(accumulators, (1, 7, 12, 18), strict=True))
        & _MASK32
    )
