"""MySQL's character sets by their names: bytes to Unicode and back.

    latin1              cp1252; the five bytes without a character, 81 8d 8f 90 9d, are control characters of these numbers
    ascii               bytes from 80 on are read as latin1, because MySQL does not refuse them
    ucs2, utf16, utf32  big-endian; utf16le little-endian
    binary              no character set: its bytes are not text

Rule 1. A collation names its character set: `gbk_chinese_ci` is `gbk`. Case does not matter.
Rule 2. Bytes that are invalid in the character set are an error, never a replacement character.
Rule 3. Characters are those of the server's tables, where Python's codecs have others (`server_characters.py`).
Rule 4. Different bytes may decode to the same text. Code that must write the original bytes again has to keep them.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import lru_cache

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.mysql.server_characters import OTHERS, OTHERS_WHEN_READ, added

BINARY = "binary"
_HOLES = {byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}
_CODECS = {
    "utf8": "utf-8",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "ascii": "latin-1",
    "latin1": "cp1252",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "gb18030": "gb18030",
    "big5": "big5",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "ujis": "euc_jp",
    "eucjpms": "euc_jp",
    "sjis": "shift_jis",
    "cp932": "cp932",
    "euckr": "cp949",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "greek": "iso8859-7",
    "hebrew": "iso8859-8",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
    "hp8": "hp-roman8",
    "tis620": "tis-620",
}
NAMES = (*_CODECS, BINARY)
MULTIPLE = frozenset({
    "utf8", "utf8mb3", "utf8mb4", "gbk", "gb2312", "gb18030", "big5", "ujis", "eucjpms", "sjis", "cp932", "euckr", "ucs2",
    "utf16", "utf16le", "utf32",
})  # fmt: skip
"""The character sets that have characters of more than one byte."""
_WIDE = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}
_MARK = 0xDC00
_LONGEST = 3
_AS_SERVER = {name: str.maketrans(others) for name, others in (OTHERS | OTHERS_WHEN_READ).items()}
_ABSENT = {name: others.keys() - {*others.values()} for name, others in (OTHERS | OTHERS_WHEN_READ).items()}
_AS_CODEC = {name: str.maketrans({server: own for own, server in others.items()}) for name, others in OTHERS.items()}


@lru_cache(maxsize=1024)
def known(name: str) -> str | None:
    """The character set of a name or a collation; None if it is unknown."""
    charset = name.lower().partition("_")[0]
    return charset if charset in NAMES else None


def reads(stored: str, read: str) -> bool:
    """Whether text that is stored in one character set reads the same in another."""
    if BINARY in (stored, read):
        return stored == read
    wide = ("ucs2", "utf16", "utf16le", "utf32")
    return _CODECS[stored] == _CODECS[read] or (stored == "ascii" and read not in wide)


def decode(data: bytes, charset: str) -> str:
    """Decodes bytes in any character set except `binary`.

    Raises:
        SchemaError: the bytes are invalid in the character set.
    """
    try:
        return _decoded(data, charset, f"changefeed.{charset}")
    except UnicodeDecodeError as error:
        if charset == "latin1":  # cp1252 fails on the five bytes of _HOLES only
            return "".join(_HOLES.get(byte) or bytes((byte,)).decode("cp1252") for byte in data)
        raise SchemaError(f"byte {error.start} is not {charset}") from error


def decode_marked(data: bytes, charset: str) -> str:
    """Decodes bytes in any character set except `binary`; each byte that is invalid becomes U+DC00 plus its number.

    A text of UCS-2, UTF-16 or UTF-32 that lacks bytes gets zeros before it, as from the server.
    """
    padded = bytes(-len(data) % _WIDE.get(charset, 1)) + data
    if charset == "latin1":
        return decode(padded, charset)
    if charset == "ascii":
        return padded.decode("ascii", f"changefeed.{charset}.marked")
    return _decoded(padded, charset, f"changefeed.{charset}.marked")


def is_marked(character: str) -> bool:
    """Whether a character of `decode_marked` is a byte that is invalid."""
    return _MARK <= ord(character) < _MARK + 256


def _decoded(data: bytes, charset: str, errors: str) -> str:
    text = data.decode(_CODECS[charset], errors)
    return text.translate(_AS_SERVER[charset]) if charset in _AS_SERVER else text


def encode(text: str, charset: str) -> bytes:
    """Encodes text in a MySQL character set.

    Raises:
        UnsupportedError: the character set does not contain one of the characters.
    """
    if charset in _ABSENT:
        if absent := next((character for character in text if character in _ABSENT[charset]), None):
            raise _not_encodable(absent, charset)
        text = text.translate(_AS_CODEC.get(charset, {}))
    try:
        return text.encode(_CODECS[charset], f"changefeed.{charset}")
    except UnicodeEncodeError as error:
        if charset == "latin1":
            return _latin1(text)
        raise _not_encodable(text[error.start], charset) from error


def _handler(charset: str, *, marks: bool) -> Callable[[UnicodeError], tuple[str | bytes, int]]:
    """Returns the handler of characters that Python's codec lacks; `marks`: invalid bytes become marks instead of errors."""

    def handle(error: UnicodeError) -> tuple[str | bytes, int]:
        if isinstance(error, UnicodeEncodeError):
            character = error.object[error.start]
            data = next((data for data, one in added(charset).items() if one == character), None)
            if data is None:
                raise error
            return data, error.start + 1
        assert isinstance(error, UnicodeDecodeError)
        for end in range(error.start + 2, error.start + _LONGEST + 1):
            if (known_character := added(charset).get(error.object[error.start : end])) is not None:
                return known_character, end
        if not marks:
            raise error
        return chr(_MARK + error.object[error.start]), error.start + 1

    return handle


for _name in _CODECS:
    codecs.register_error(f"changefeed.{_name}", _handler(_name, marks=False))
    codecs.register_error(f"changefeed.{_name}.marked", _handler(_name, marks=True))


def _latin1(text: str) -> bytes:
    out = bytearray()
    for character in text:
        try:
            out += bytes((ord(character),)) if ord(character) in _HOLES else character.encode("cp1252")
        except UnicodeEncodeError as error:
            raise _not_encodable(character, "latin1") from error
    return bytes(out)


def _not_encodable(character: str, charset: str) -> UnsupportedError:
    return UnsupportedError(f"{character!r} is not in the character set {charset}")
