"""MySQL's character sets by their names: bytes to Unicode and back.

    latin1              cp1252; the five bytes without a character, 81 8d 8f 90 9d, are control characters of these numbers
    ascii               bytes from 80 on are read as latin1, because MySQL does not refuse them
    ucs2, utf16, utf32  big-endian; utf16le little-endian
    binary              no character set: its bytes are not text

Rule 1. A collation names its character set: `gbk_chinese_ci` is `gbk`. Case does not matter.
Rule 2. Bytes that are invalid in the character set are an error, never a replacement character.
Rule 3. Different bytes may decode to the same text. Code that must write the original bytes again has to keep them.
"""

from __future__ import annotations

from functools import lru_cache

from changefeed.errors import SchemaError, UnsupportedError

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
    "sjis": "cp932",
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
        return data.decode(_CODECS[charset])
    except UnicodeDecodeError as error:
        if charset == "latin1":  # cp1252 fails on the five bytes of _HOLES only
            return "".join(_HOLES.get(byte) or bytes((byte,)).decode("cp1252") for byte in data)
        raise SchemaError(f"byte {error.start} is not {charset}") from error


def encode(text: str, charset: str) -> bytes:
    """Encodes text in a MySQL character set.

    Raises:
        UnsupportedError: the character set does not contain one of the characters.
    """
    try:
        return text.encode(_CODECS[charset])
    except UnicodeEncodeError as error:
        if charset == "latin1":
            return _latin1(text)
        raise _not_encodable(text[error.start], charset) from error


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
