r"""Bytes as text between the quotes of Go's `strconv.Quote`, and back.

    07 08 0c 0a 0d 09 0b       \a \b \f \n \r \t \v
    \ and "                    \\ and \"
    printable rune             itself; what is printable: see `unicode15`
    other rune below U+10000   \uNNNN       other rune above   \UNNNNNNNN
    other byte below 0x20, 0x7f, or a byte that is not UTF-8   \xNN

Reading takes octal \NNN too. \xNN and \NNN are one byte, \u and \U the UTF-8 of a rune.
"""

from __future__ import annotations

import re

from changefeed.errors import SchemaError
from changefeed.ticdc.unicode15 import is_print

_NAMED = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_NAMED |= {"\\": "\\\\", '"': '\\"'}
_BYTES = {named[1]: plain.encode() for plain, named in _NAMED.items()}
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
_PART = re.compile(
    r'(?P<plain>[^\\"\n\ud800-\udfff]+)'
    r'|\\(?:(?P<named>[abfnrtv\\"])'
    r"|x(?P<x>[0-9a-fA-F]{2})|(?P<octal>[0-3][0-7]{2})"
    r"|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8}))"
)


def quote(data: bytes) -> str:
    """Quotes bytes; the result does not include the enclosing quotes."""
    text = data.decode("utf-8", "surrogateescape")
    return text if _PLAIN.fullmatch(text) else "".join(map(_quoted, text))


def _quoted(char: str) -> str:
    code = ord(char)
    if char in _NAMED:
        return _NAMED[char]
    if 0xDC80 <= code <= 0xDCFF:  # surrogateescape: a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if is_print(char):
        return char
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def unquote(text: str) -> bytes:
    """Returns the bytes of a quoted text.

    Raises:
        SchemaError: the text is not valid output of `strconv.Quote`.
    """
    out = bytearray()
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise SchemaError(f"escaped text is broken at {text[at : at + 10]!r}")
        out += _unquoted(match)
        at = match.end()
    return bytes(out)


def _unquoted(match: re.Match[str]) -> bytes:
    kind, value = match.lastgroup, match[match.lastgroup or 0]
    match kind:
        case "plain":
            return value.encode()
        case "named":
            return _BYTES[value]
        case "x":
            return bytes([int(value, 16)])
        case "octal":
            return bytes([int(value, 8)])
    code = int(value, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise SchemaError(f"escaped text has an invalid escape {match[0]}")
    return chr(code).encode()
