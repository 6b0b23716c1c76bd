r"""JSON as Kafka Connect's converter reads and prints it.

    string       \" \\ \b \t \n \f \r; other characters below 0x20 \u00XX; above U+FFFF as a surrogate pair \uD83D\uDC1F
                 (upper-case digits); all other characters unchanged
    float        Float.toString and Double.toString: 0.001 to 1e7 plain with a fraction digit, else 1.5E-7
    white space  none

A value is a *tree*: dict, list, str, bool, None, and `Number` with the text of a number, so that 18446744073709551615,
0E-30 and 1.0E100 are written as they were read.
"""

from __future__ import annotations

import math
import re
from typing import Any

from changefeed.errors import ProtocolError
from changefeed.wire import strict_json
from changefeed.wire.floats import shortest
from changefeed.wire.strict_json import REPLACED, Number

_DEEPEST = 64
_ESCAPED = {chr(c): f"\\u{c:04X}" for c in range(0x20)}
_ESCAPED |= {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_NEEDS = re.compile('[\x00-\x1f"\\\\\U00010000-\U0010ffff]')


def read(data: bytes, what: str) -> Any:
    """Parses JSON to dicts, lists, texts, booleans and `Number`s, which keep their digits; a member may occur only once.

    Raises:
        ProtocolError: reason `bad-json`: the bytes are not JSON, not UTF-8, or nested too deeply.
    """
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{what} is not UTF-8", reason="bad-json", byte=error.start) from error
    tree = strict_json.read(data, what, unique=True)
    if data.count(b"[") + data.count(b"{") > _DEEPEST:
        _check_depth(tree, what, 0)
    return _unmarked(tree) if b"\\ufffd" in data else tree


def _check_depth(tree: Any, what: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise ProtocolError(f"{what} is nested more than {_DEEPEST} deep", reason="bad-json")
    below = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for item in below:
        if isinstance(item, dict | list):
            _check_depth(item, what, depth + 1)


def _unmarked(tree: Any) -> Any:
    r"""Returns the tree with U+FFFD for `REPLACED`, by which `strict_json` marks the escape `\ufffd` of Go's writer."""
    if type(tree) is str:
        return tree.replace(REPLACED, "\ufffd")
    if isinstance(tree, dict):
        return {_unmarked(name): _unmarked(value) for name, value in tree.items()}
    return [_unmarked(item) for item in tree] if isinstance(tree, list) else tree


def write(tree: Any) -> str:
    """Formats a tree as JSON, with the bytes that Kafka Connect writes."""
    kind = type(tree)
    if kind is Number:
        return str(tree)
    if kind is str:
        return string(tree)
    if tree is None:
        return "null"
    if kind is bool:
        return "true" if tree else "false"
    if kind is int:
        return str(tree)
    if kind is list:
        return "[" + ",".join(map(write, tree)) + "]"
    return "{" + ",".join(f"{string(name)}:{write(value)}" for name, value in tree.items()) + "}"


def string(text: str) -> str:
    """Formats a JSON string, with its quotes."""
    return '"' + _NEEDS.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if char in _ESCAPED:
        return _ESCAPED[char]
    high, low = divmod(ord(char) - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


def number(value: float, bits: int) -> Number | str:
    """Formats a float32 or float64: a number, or a string for NaN and Infinity, which JSON lacks."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return Number(sign + "0.0")
    digits, exponent = _digits(abs(value), bits)
    if not -3 <= exponent < 7:
        return Number(f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}")
    if exponent < 0:
        return Number(f"{sign}0.{'0' * (-exponent - 1)}{digits}")
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return Number(f"{sign}{whole}.{digits[exponent + 1 :] or '0'}")


def _digits(value: float, bits: int) -> tuple[str, int]:
    """Returns the shortest digits and the exponent; at least two digits, the nearest ones: 4.9E-324, not 5.0E-324."""
    digits, exponent = shortest(value, bits)
    if len(digits) > 1:
        return digits, exponent
    mantissa, _, power = f"{value:.1e}".partition("e")
    return mantissa.replace(".", "").rstrip("0"), int(power)
