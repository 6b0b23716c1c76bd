r"""`topics-pattern`: a Java regular expression that a topic's whole name must match.

A run lets Java read the pattern. Commands without Spark read it with Python's `re`, after rewriting these:

    Java                    Python
    (?<name>…)              (?P<name>…)
    \Q…\E                   the text, escaped
    \z                      \Z

Patterns that Python reads differently or not at all are left to the run: `\p{…}`, `\h`, `\R`, `\x{…}`, `\k<…>`, `\G`, `\Z`,
classes within classes and their intersections (`[a-z&&[^x]]`), and patterns that Python refuses but Java may accept.
"""

from __future__ import annotations

import re

from changefeed.errors import ConfigError

_JAVA_ALONE = re.compile(r"\\[pPhHRXGZkexN]|\[[^\]]*(?:&&|\[)|\(\?[a-zA-Z]*[dU]")
_PYTHON_ALONE = re.compile(r"\(\?(?:P[<=>]|#|\()")
# Errors in either language; the other errors of Python may be its own.
_WRONG = (
    "missing )",
    "unbalanced parenthesis",
    "unterminated character set",
    "nothing to repeat",
    "bad character range",
)
_PARTS = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\(.)|\(\?<(?=[A-Za-z])", re.DOTALL)


def topics_pattern(pattern: str) -> re.Pattern[str] | None:
    """The pattern in Python's syntax; None if only Java can read it correctly.

    Raises:
        ConfigError: the pattern is not a regular expression.
    """
    if construct := _PYTHON_ALONE.search(pattern):
        raise ConfigError(f"{pattern!r}: Java's regular expressions have no {construct[0]}")
    if _JAVA_ALONE.search(pattern):
        return None
    try:
        return re.compile(_PARTS.sub(_rewritten, pattern))
    except re.error as error:
        if not error.msg.startswith(_WRONG):
            return None
        raise ConfigError(f"{pattern!r} is not a regular expression: {error}") from error


def _rewritten(match: re.Match[str]) -> str:
    quoted, escaped = match.groups()
    if quoted is not None:
        return re.escape(quoted)
    if escaped is not None:
        return r"\Z" if escaped == "z" else match[0]
    return "(?P<"
