r"""JSON as TiCDC's two writers print it.

    aspect              W-html (encoding/json)            W-raw (json-iterator)
    < > &               \u003c \u003e \u0026              unchanged
    U+2028 U+2029       \u2028 \u2029                     unchanged
    " \ LF CR TAB       \" \\ \n \r \t                    the same
    BS FF               \b \f                             \u0008 \u000c
    other < 0x20        \u00xx                            \u00xx
    0x7f, not ASCII     unchanged                         unchanged
    not UTF-8           \ufffd                            the byte itself
    1e-7                1e-7                              1e-07
    both                an exponent below 1e-6 and from 1e21 on; the shortest digits

In the text, a byte that is not UTF-8 is a surrogate U+DC80 … U+DCFF; encode the result with `surrogateescape`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from changefeed.wire.floats import fixed, scientific

_COMMON = {chr(c): f"\\u{c:04x}" for c in range(0x20)}
_COMMON |= {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_HTML = _COMMON | {"\b": "\\b", "\f": "\\f", "<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
_HTML |= {"\u2028": "\\u2028", "\u2029": "\\u2029"}
_NEEDS_RAW = re.compile(r'[\x00-\x1f"\\]')
_NEEDS_HTML = re.compile(r'[\x00-\x1f"\\<>&\u2028\u2029\ud800-\udfff]')


# Go compares in the number's own width: the float32 nearest to 1e-6 counts as 0.000001, although it is slightly less.
_LEAST_FIXED = {32: 9.999999974752427e-07, 64: 1e-6}


def _float(value: float, bits: int, exponent_digits: int) -> str:
    if value == 0 or _LEAST_FIXED[bits] <= abs(value) < 1e21:
        return fixed(value, bits)
    return scientific(value, bits, exponent_digits=exponent_digits if value and abs(value) < 1 else 2)


def _html_string(text: str) -> str:
    return '"' + _NEEDS_HTML.sub(lambda match: _HTML.get(match[0], "\\ufffd"), text) + '"'


def _raw_string(text: str) -> str:
    return '"' + _NEEDS_RAW.sub(lambda match: _COMMON[match[0]], text) + '"'


@dataclass(frozen=True, slots=True)
class JsonDialect:
    """The formatting functions of one of the two writers.

    Attributes:
        string: text -> JSON string with its quotes.
        float: (value, 32 or 64) -> JSON number.
    """

    string: Callable[[str], str]
    float: Callable[[float, int], str]


W_HTML = JsonDialect(_html_string, lambda value, bits: _float(value, bits, 1))
W_RAW = JsonDialect(_raw_string, lambda value, bits: _float(value, bits, 2))
