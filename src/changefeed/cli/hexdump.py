"""Hex dump, 16 bytes per line, with the offending byte marked.

00000010  22 74 22 3a 31 2c 22 68  22 3a 74 72 75 65 2c 22  |"t":1,"h":true,"|
          ^^ byte 16
"""

from __future__ import annotations

from collections.abc import Iterator

WIDTH = 16


def hexdump(data: bytes, mark: int | None = None, around: int | None = None) -> Iterator[str]:
    """Returns a hex dump of the bytes, as lines of 16 bytes.

    Args:
        data: the bytes.
        mark: the byte to point at; `len(data)` if more bytes were expected.
        around: show this many lines before and after the marked one (from the start if none is marked) and the number of bytes
            left out; None shows all.
    """
    lines = range(0, max(len(data), 1) if mark is None or mark < len(data) else mark + 1, WIDTH)
    middle = (mark or 0) // WIDTH
    first, last = (0, len(lines)) if around is None else (max(0, middle - around), middle + around + 1)
    if first:
        yield f"… {first * WIDTH} bytes"
    for start in lines[first:last]:
        yield _line(start, data[start : start + WIDTH])
        if mark is not None and start <= mark < start + WIDTH:
            at = mark - start
            yield " " * (10 + 3 * at + (at >= WIDTH // 2)) + f"^^ byte {mark}"
    left = len(data) - last * WIDTH
    if left > 0:
        yield f"… {left} bytes"


def _line(start: int, data: bytes) -> str:
    halves = (data[: WIDTH // 2].hex(" "), data[WIDTH // 2 :].hex(" "))
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
    return f"{start:08x}  {halves[0]:<23}  {halves[1]:<23}  |{text}|"
