r"""Strict JSON reader for untrusted bytes: numbers stay exact, and the only exception is `ProtocolError`.

Rule 1. A number stays text (`Number`) until its column's type is known: 18446744073709551615 and -0 are preserved.
Rule 2. Of duplicate members, which TiCDC writes, the last one wins; `pairs=True` returns all of them, `unique=True`
        refuses them.
Rule 3. Bytes that are not UTF-8 become U+DC80 … U+DCFF, one per byte (surrogateescape), so that they can be written again.
        A surrogate that is written as an escape is refused: it would be indistinguishable from such a byte.
Rule 4. The escape `\ufffd` is read as `REPLACED`: Go's encoding/json writes it for a byte that is not UTF-8, but writes the
        character U+FFFD unescaped.
Rule 5. Trailing data, NaN, Infinity and nesting deeper than Python's own limit are refused.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from changefeed.errors import ProtocolError

# Escapes from left to right: `\\ud800` is a backslash, then text. Group 1: a lone half of a surrogate pair.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u([dD][89a-fA-F]..)|.)", re.DOTALL)


_REPLACEMENT = re.compile(r"\\(?:ufffd|.)", re.DOTALL)
REPLACED = "\udc00"


class Number(str):
    """The text of a JSON number."""

    __slots__ = ()


def read(data: bytes, what: str, *, pairs: bool = False, unique: bool = False) -> Any:
    """Reads a value: dict, list, str, `Number`, bool or None.

    Args:
        data: the whole text; surrounding white space is allowed.
        what: the subject of errors, such as `row`.
        pairs: objects become tuples of (name, value), with all duplicate members.
        unique: duplicate members are an error.

    Raises:
        ProtocolError: reason `bad-json`; `byte` counts from the start of `data`.
    """
    text = data.decode("utf-8", "surrogateescape")
    if "\\u" in text:
        _refuse_lone_surrogates(text, what)
        text = _REPLACEMENT.sub(lambda match: REPLACED if match[0] == "\\ufffd" else match[0], text)
    try:
        return (_PAIRS if pairs else _UNIQUE if unique else _PLAIN).decode(text)
    except json.JSONDecodeError as error:
        message = error.msg[0].lower() + error.msg[1:].removesuffix(" at")
        raise _bad(f"{what} is not JSON: {message}", text, error.pos) from error
    except _NotFiniteError as error:
        raise _bad(f"{what} is not JSON: {error} is not allowed", text, 0) from error
    except _DuplicateError as error:
        raise _bad(f"{what} has the member {error} twice", text, 0) from error
    except RecursionError as error:
        raise _bad(f"{what} is nested too deeply", text, 0) from error


def unmarked(text: str) -> tuple[str, list[int]]:
    r"""Replaces `REPLACED` by U+FFFD; returns the text, and which of its U+FFFD the producer had escaped, from 0."""
    replacements = [char for char in text if char in (REPLACED, "\ufffd")]
    return text.replace(REPLACED, "\ufffd"), [place for place, char in enumerate(replacements) if char == REPLACED]


def marked(text: str, places: list[int]) -> str:
    """Reverses `unmarked`: replaces the U+FFFD with these numbers by `REPLACED`."""
    parts = text.split("\ufffd")
    joints = (REPLACED if place in places else "\ufffd" for place in range(len(parts)))
    return "".join(part + joint for part, joint in zip(parts, joints, strict=True)).removesuffix("\ufffd")


class _NotFiniteError(Exception):
    """NaN or Infinity; raised through the standard library's decoder."""


class _DuplicateError(Exception):
    """A member that occurs twice; raised through the standard library's decoder."""


def _refuse_constant(name: str) -> Any:
    raise _NotFiniteError(name)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise _DuplicateError(next(f"{name!a:.60}" for name, count in counts.items() if count > 1))
    return members


def _decoder(members: Callable[[list[tuple[str, Any]]], Any] | None) -> json.JSONDecoder:
    return json.JSONDecoder(
        parse_int=Number, parse_float=Number, parse_constant=_refuse_constant, object_pairs_hook=members
    )


_PLAIN, _PAIRS, _UNIQUE = _decoder(None), _decoder(tuple), _decoder(_unique)


def _refuse_lone_surrogates(text: str, what: str) -> None:
    for match in _ESCAPE.finditer(text):
        if match[1] is not None:
            raise _bad(f"{what} has half of a surrogate pair: {match[0]}", text, match.start())


def _bad(message: str, text: str, at: int) -> ProtocolError:
    before = text[:at].replace(REPLACED, "\\ufffd").encode("utf-8", "surrogateescape")
    return ProtocolError(message, reason="bad-json", byte=len(before))
