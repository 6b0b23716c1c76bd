r"""Formats JSON strings as the two producers do.

    character                 TiCDC (easyjson)     Canal (fastjson)
    " \ LF CR TAB             \" \\ \n \r \t       the same
    BS FF                     \u0008 \u000c        \b \f
    other < 0x20              \u00xx               \u00XX
    < > &                     \u003c \u003e \u0026 as they are
    U+2028 U+2029             \u2028 \u2029        the same
    0x7f … 0x9f               as they are          \u00XX
    U+FFFD for a byte that
    is not UTF-8              \ufffd               as it is

Rule 1. What was read as a byte that is not UTF-8 (surrogateescape) is written as that byte.
Rule 2. `strict_json.REPLACED` stands for a `\ufffd` that was read, and is written as one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from changefeed.wire.strict_json import REPLACED

String = Callable[[str], str]

_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", REPLACED: "\\ufffd"}
_TICDC = {chr(c): f"\\u{c:04x}" for c in (*range(0x20), *b"<>&", 0x2028, 0x2029)} | _SHORT
_CANAL = {chr(c): f"\\u{c:04X}" for c in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)} | _SHORT
_CANAL |= {"\b": "\\b", "\f": "\\f"}
_NEEDS_TICDC = re.compile('[\x00-\x1f"\\\\<>&\u2028\u2029\udc00]')
_NEEDS_CANAL = re.compile('[\x00-\x1f"\\\\\x7f-\x9f\u2028\u2029\udc00]')


def ticdc(text: str) -> str:
    """Formats a JSON string, with its quotes, as TiCDC does."""
    return '"' + _NEEDS_TICDC.sub(lambda match: _TICDC[match[0]], text) + '"'


def canal(text: str) -> str:
    """Formats a JSON string, with its quotes, as Canal does."""
    return '"' + _NEEDS_CANAL.sub(lambda match: _CANAL[match[0]], text) + '"'


def encoded(text: str) -> bytes:
    """Encodes JSON text as bytes."""
    return text.encode("utf-8", "surrogateescape")
