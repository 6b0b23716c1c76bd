"""Hex dumps of a dead letter's bytes, 16 in a line, with the offending byte marked."""

from __future__ import annotations

from dataclasses import dataclass

_WIDTH = 16
_MOST = 4_096  # bytes that are shown, around the offending one


@dataclass(frozen=True, slots=True)
class DumpLine:
    """Up to 16 bytes, as hex and as text.

    Attributes:
        offset: of its first byte, as 8 hex digits.
        bytes: two hex digits for each byte, and whether it is the offending one.
        text: its bytes as ASCII, `.` for others.
    """

    offset: str
    bytes: tuple[tuple[str, bool], ...]
    text: str


@dataclass(frozen=True, slots=True)
class Dump:
    """The bytes of a key or value, or those around the offending one.

    Attributes:
        name: `key` or `value`.
        size: number of bytes; None if the record has no such part.
        lines: the lines that are shown.
        before, after: number of bytes that are not shown before and after these lines.
    """

    name: str
    size: int | None
    lines: tuple[DumpLine, ...] = ()
    before: int = 0
    after: int = 0


def dump(name: str, data: bytes | None, mark: int | None = None) -> Dump:
    """Returns the dump of a key or value.

    Args:
        name: which of them it is.
        data: its bytes; None if the record has none.
        mark: the offending byte; None if it is not known.
    """
    if data is None:
        return Dump(name, None)
    first = max(0, ((mark or 0) - _MOST // 2) // _WIDTH * _WIDTH) if len(data) > _MOST else 0
    first = min(first, max(0, len(data) - 1) // _WIDTH * _WIDTH)
    part = data[first : first + _MOST]
    lines = tuple(_line(first + n, part[n : n + _WIDTH], mark) for n in range(0, len(part), _WIDTH))
    return Dump(name, len(data), lines, first, len(data) - first - len(part))


def _line(offset: int, data: bytes, mark: int | None) -> DumpLine:
    shown = tuple((f"{byte:02x}", offset + n == mark) for n, byte in enumerate(data))
    return DumpLine(f"{offset:08x}", shown, "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data))
