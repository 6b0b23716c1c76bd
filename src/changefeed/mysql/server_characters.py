"""Characters that the server's tables have, and that Python's codecs lack or take for others.

    big5      f9d6 to f9dc                     characters of ETEN
    eucjpms   ada1 to adfc                     row 13 of NEC, at 8740 in cp932
              8ff3f3 to 8ff4fe                 characters of IBM
    ujis      f5a1 to fefe, 8ff5a1 to 8ffefe   user-defined, U+E000 and following; in eucjpms, too

MySQL 8.0 and MariaDB 10.11 have the same: `tests/mysql/test_charsets_live.py` asks them for all bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

# Character set -> character of Python's codec -> that of the server, for the same bytes.
OTHERS = {
    "greek": {"‘": "ʽ", "’": "ʼ"},
    "hebrew": {"¯": "‾"},
    "cp866": {"№": "ⁿ", "¤": "²"},
    "koi8u": {"∙": "•"},
    "eucjpms": {"〜": "～", "‖": "∥", "−": "－", "¢": "￠", "£": "￡", "¬": "￢", "¦": "￤"},
    "gb18030": {"\ue7c7": "ḿ", "ḿ": "\ue7c7"},
}
# The same of characters that have other bytes when they are written: 815f and a1c0 are backslashes, as 5c is.
OTHERS_WHEN_READ = {"sjis": {"＼": "\\"}, "ujis": {"＼": "\\"}}
_OF_ETEN = "碁銹裏墻恒粧嫺"
_OF_IBM = (
    "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤\ufa0e咊坙\ufa0f\ufa10增寬峵嵓\ufa11德悅愠敎昻晥\ufa12\uf929栁\ufa13\ufa14橫櫢淸淲瀨"
    "\ufa15\ufa16甁皂皞\ufa17礰\ufa18\ufa19\ufa1a\ufa1b竧\ufa1c\ufa1d綠緖\ufa1e荢\ufa1f薰\ufa20\ufa21蠇\ufa22譿賴赶"
    "\ufa23\ufa24\ufa25郞\ufa26鄕\ufa27\ufa28閒\uf9dc\ufa29霻靍靑\ufa2a\ufa2b\ufa2c馞髙魲\ufa2d黑"
)
_CELLS = 94  # of a row, from a1 on


@lru_cache(maxsize=8)
def added(charset: str) -> dict[bytes, str]:
    """The characters that Python's codec of a character set lacks, by their bytes."""
    if charset == "big5":
        return {bytes((0xF9, 0xD6 + i)): character for i, character in enumerate(_OF_ETEN)}
    if charset not in ("ujis", "eucjpms"):
        return {}
    user_defined = {
        prefix + cell: chr(first + i)
        for prefix, first in ((b"", 0xE000), (b"\x8f", 0xE3AC))
        for i, cell in enumerate(_cells(0xF5, 0xA1, 10 * _CELLS))
    }
    return user_defined if charset == "ujis" else user_defined | dict(_of_eucjpms())


def _of_eucjpms() -> Iterator[tuple[bytes, str]]:
    for i, cell in enumerate(_cells(0xAD, 0xA1, _CELLS)):
        in_cp932 = bytes((0x87, 0x40 + i + (i > 0x3E)))  # there is no second byte 7f
        try:
            yield cell, in_cp932.decode("cp932")
        except UnicodeDecodeError:
            continue
    for cell, character in zip(_cells(0xF3, 0xF3, len(_OF_IBM)), _OF_IBM, strict=True):
        yield b"\x8f" + cell, character


def _cells(row: int, column: int, count: int) -> Iterator[bytes]:
    """The bytes of cells that follow each other."""
    first = column - 0xA1
    for i in range(first, first + count):
        yield bytes((row + i // _CELLS, 0xA1 + i % _CELLS))
