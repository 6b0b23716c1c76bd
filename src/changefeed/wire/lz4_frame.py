"""LZ4 frames as the producers' library (pierrec/lz4 v4) writes them, byte for byte.

    04 22 4d 18  64 70 b9 │ block … │ 00 00 00 00 │ xxh32 of the text
    magic        header   │         │ end
    header: blocks of 4 MiB that do not depend on each other, a checksum of the whole
    block:  4 bytes, its size (top bit: stored as it is), then sequences
    sequence: literals and match in a nibble each, longer literals, the literals, offset (2 bytes), longer match

Rule 1. A table tells where six bytes were seen last, as the low 16 bits of the place. Places are tried in threes; the
        longer there is no match, the more bytes are skipped.
Rule 2. A match is extended back as far as there are literals, and on by eight bytes at a time; the last 14 bytes are
        literals. The bytes two before its end enter the table.
Rule 3. A block that does not get smaller is stored.
"""

from __future__ import annotations

import struct

MAGIC = b"\x04\x22\x4d\x18"
_HEADER = MAGIC + b"\x64\x70\xb9"
_BLOCK = 4 << 20
_STORED = 1 << 31
_WINDOW = 1 << 16
_LEAST = 4
_LAST = 14  # bytes at the end that no match begins in
_SKIP_SHIFT = 7
_PRIME48 = 227718039650203
_MASK32, _MASK48 = 2**32 - 1, 2**48 - 1


def compress(data: bytes) -> bytes:
    """The frame that holds `data`."""
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
    """One block on its way: `anchor` is where its literals begin that are not written yet."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._end = len(data) - _LAST
        self._seen: dict[int, int] = {}
        self._out = bytearray()
        self._anchor = 0

    def sequences(self) -> bytes | None:
        """The block's sequences; None if it is to be stored."""
        at = 0
        while at < self._end:
            found = self._search(at)
            if found is None:
                break
            at = self._match(*found)
        last = len(self._data) - self._anchor
        self._out.append(min(last, 15) << 4)
        self._longer(last)
        if len(self._out) >= self._anchor:
            return None
        return bytes(self._out + self._data[self._anchor :])

    def _search(self, at: int) -> tuple[int, int] | None:
        """The next place with a match, and the place that it matches."""
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
        """The place within the window whose low 16 bits are these, if it matches."""
        place = at - ((at - low) & 0xFFFF or _WINDOW)
        data = self._data
        if at - place < _WINDOW and data[at : at + _LEAST] == data[place : place + _LEAST]:
            return place
        return None

    def _match(self, at: int, place: int) -> int:
        """Writes the literals and the match; returns the byte behind it."""
        data, anchor, offset, end = self._data, self._anchor, at - place, at + _LEAST
        while at > anchor and at > offset and data[at - 1] == data[at - offset - 1]:
            at -= 1
        while end + 8 <= self._end:
            here, there = data[end : end + 8], data[end - offset : end - offset + 8]
            if here != there:
                end += equal_bytes(here, there)
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
    """How many bytes at the beginning of the two, which differ and are equally long, are equal."""
    differ = int.from_bytes(one, "little") ^ int.from_bytes(other, "little")
    return ((differ & -differ).bit_length() - 1) >> 3


_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK32


def xxh32(data: bytes) -> int:
    """The checksum xxHash32, seed 0."""
    whole = len(data) & ~15
    total = _P5 if not whole else _lanes(data[:whole])
    total = (total + len(data)) & _MASK32
    words = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[whole:words]):
        total = _turned((total + word * _P3) & _MASK32, 17) * _P4 & _MASK32
    for byte in data[words:]:
        total = _turned((total + byte * _P5) & _MASK32, 11) * _P1 & _MASK32
    total = (total ^ total >> 15) * _P2 & _MASK32
    total = (total ^ total >> 13) * _P3 & _MASK32
    return total ^ total >> 16


def _lanes(data: bytes) -> int:
    lanes = [(_P1 + _P2) & _MASK32, _P2, 0, -_P1 & _MASK32]
    for words in struct.iter_unpack("<4I", data):
        lanes = [
            _turned((lane + word * _P2) & _MASK32, 13) * _P1 & _MASK32 for lane, word in zip(lanes, words, strict=True)
        ]
    return sum(_turned(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK32
