r"""JSON as bytes from elsewhere: exact numbers, no other exception than `ProtocolError`.

Rule 1. A number stays text (`Number`) until its column's type is known: 18446744073709551615 and -0 survive.
Rule 2. Of duplicate members, which TiCDC writes, the last one wins; `pairs=True` shows them all, `unique=True` refuses them.
Rule 3. Bytes that are not UTF-8 become U+DC80 … U+DCFF, one a byte (surrogateescape), so that they can be given back.
        A surrogate that was written as an escape is refused: the two could not be told apart.
Rule 4. `\ufffd` is read as `REPLACED`: Go's encoding/json writes it for a byte that is not UTF-8, and U+FFFD as it is.
Rule 5. Trailing data, NaN, Infinity and nesting beyond Python's own limit are refused.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from changefeed.errors import ProtocolError

# Escapes from left to right: `\\ud800` is a backslash, then text. Group 1: half of a surrogate pair, alone.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u([dD][89a-fA-F]..)|.)", re.DOTALL)


_REPLACEMENT = re.compile(r"\\(?:ufffd|.)", re.DOTALL)
REPLACED = "\udc00"


class Number(str):
    """The text of a JSON number."""

    __slots__ = ()


def read(data: bytes, what: str, *, pairs: bool = False, unique: bool = False) -> Any:
    """The value that `data` holds: dict, list, str, `Number`, bool or None.

    Args:
        data: all of the text; white space around it is allowed.
        what: the subject of errors, as `row`.
        pairs: objects become tuples of (name, value) in which duplicate members are all there.
        unique: there must be no duplicate members.

    Raises:
        ProtocolError: reason `bad-json`; `byte` counts from the start of `data`.
    """
    text = data.decode("utf-8", "surrogateescape")
    if "\\u" in text:
        _refuse_lone_surrogates(text, what)
        text = _REPLACEMENT.sub(lambda found: REPLACED if found[0] == "\\ufffd" else found[0], text)
    try:
        return (_PAIRS if pairs else _UNIQUE if unique else _PLAIN).decode(text)
    except json.JSONDecodeError as error:
        message = error.msg[0].lower() + error.msg[1:].removesuffix(" at")
        raise _bad(f"{what} is not JSON: {message}", text, error.pos) from error
    except _NoNumber as error:
        raise _bad(f"{what} is not JSON: {error} is not a number", text, 0) from error
    except _Twice as error:
        raise _bad(f"{what} has the member {error} twice", text, 0) from error
    except RecursionError as error:
        raise _bad(f"{what} is nested too deeply", text, 0) from error


def unmarked(text: str) -> tuple[str, list[int]]:
    r"""The text with U+FFFD for each `\ufffd` that the producer escaped, and which of its U+FFFD those are, from 0."""
    found = [char for char in text if char in (REPLACED, "\ufffd")]
    return text.replace(REPLACED, "\ufffd"), [place for place, char in enumerate(found) if char == REPLACED]


def marked(text: str, places: list[int]) -> str:
    """The way back: the U+FFFD at these places as bytes that are not UTF-8."""
    parts = text.split("\ufffd")
    joints = (REPLACED if place in places else "\ufffd" for place in range(len(parts)))
    return "".join(part + joint for part, joint in zip(parts, joints, strict=True)).removesuffix("\ufffd")


class _NoNumber(Exception):
    """NaN or Infinity, on the way out of the standard library."""


class _Twice(Exception):
    """A member that is there twice, on the way out of the standard library."""


def _refuse_constant(name: str) -> Any:
    raise _NoNumber(name)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise _Twice(next(f"{name!a:.60}" for name, count in counts.items() if count > 1))
    return found


def _decoder(members: Callable[[list[tuple[str, Any]]], Any] | None) -> json.JSONDecoder:
    return json.JSONDecoder(
        parse_int=Number, parse_float=Number, parse_constant=_refuse_constant, object_pairs_hook=members
    )


_PLAIN, _PAIRS, _UNIQUE = _decoder(None), _decoder(tuple), _decoder(_unique)


def _refuse_lone_surrogates(text: str, what: str) -> None:
    for found in _ESCAPE.finditer(text):
        if found[1] is not None:
            raise _bad(f"{what} has half of a surrogate pair: {found[0]}", text, found.start())


def _bad(message: str, text: str, at: int) -> ProtocolError:
    before = text[:at].replace(REPLACED, "\\ufffd").encode("utf-8", "surrogateescape")
    return ProtocolError(message, reason="bad-json", byte=len(before))
