r"""Statements of sessions with other modes of SQL, as they would be written without them.

mode                     in the log                  without it
NO_BACKSLASH_ESCAPES     'a\b'                       'a\\b'
ANSI_QUOTES              "id"                        `id`
REAL_AS_FLOAT            REAL                        FLOAT
"""

from __future__ import annotations

import re

_REAL_AS_FLOAT, _ANSI_QUOTES, _NO_BACKSLASH_ESCAPES = 1, 1 << 2, 1 << 20
_READ = _REAL_AS_FLOAT | _ANSI_QUOTES | _NO_BACKSLASH_ESCAPES
_OTHER_FRACTIONS = {"mysql": 1 << 32, "mariadb": 1 << 34}  # TIME_TRUNCATE_FRACTIONAL, TIME_ROUND_FRACTIONAL

_OPAQUE = r"--(?=\s|\Z)[^\n]*+|\#[^\n]*+|/\*(?![!MT]).*?(?:\*/|\Z)|`(?:[^`]|``)*+`"
_WORD = r"(?<![\w$.@])[\w$\u0080-\U0010ffff]++"
_ESCAPED, _PLAIN = r"(?:[^{0}\\]|\\.|{0}{0})*+", r"(?:[^{0}]|{0}{0})*+"


def without_modes(text: str, modes: int | None) -> str:
    """Returns what a statement would be without the modes of its session that change its meaning.

    Args:
        text: the statement.
        modes: the server's bitmap of modes; None if it is unknown.
    """
    if modes is None or not modes & _READ:
        return text
    return _tokens(modes & _READ).sub(lambda token: _translated(token, modes), text)


def cuts_other_fractions(modes: int | None, server: str) -> bool:
    """Whether a session cuts fractions of seconds where its server, `mysql` or `mariadb`, rounds them, or the other way round."""
    return bool((modes or 0) & _OTHER_FRACTIONS.get(server, 0))


def _tokens(modes: int) -> re.Pattern[str]:
    single = _PLAIN if modes & _NO_BACKSLASH_ESCAPES else _ESCAPED
    double = _PLAIN if modes & (_NO_BACKSLASH_ESCAPES | _ANSI_QUOTES) else _ESCAPED
    text = f"""'{single.format("'")}'|"{double.format('"')}\""""
    return re.compile(f"(?:{_OPAQUE})|(?P<text>{text})|(?P<word>{_WORD})", re.DOTALL)


def _translated(token: re.Match[str], modes: int) -> str:
    raw = token[0]
    if token["word"] is not None:
        return "FLOAT" if modes & _REAL_AS_FLOAT and raw.upper() == "REAL" else raw
    if token["text"] is None:
        return raw
    if raw[0] == '"' and modes & _ANSI_QUOTES:
        return "`" + raw[1:-1].replace('""', '"').replace("`", "``") + "`"
    return raw.replace("\\", "\\\\") if modes & _NO_BACKSLASH_ESCAPES else raw
