r"""Table filters in the syntax of TiDB's tools: a list of patterns that select tables; and the same for columns.

    shop.orders    shop.*    log_?[0-9].[!a-c]*    `a db`."a ""b"" c"    /^shop_\d+$/.*    !shop.tmp_*

Rule 1. A pattern is a schema and a table separated by a dot; each is a word, a quoted name or a regular expression.
Rule 2. In a word `*` matches any text, `?` any character, `[a-z]` one of these characters and `[!a-z]` one of the others.
        ASCII letters and digits, `$`, `_` and characters outside ASCII match themselves; any other character must be
        quoted or follow a backslash.
Rule 3. A regular expression may match anywhere in the name. Its syntax is Go's: no look-around, no back-references.
Rule 4. The last matching pattern decides. With `!` before it, the table is excluded.
Rule 5. Case is ignored, unless `case_sensitive` is set.
Rule 6. A column filter has three names: schema, table and column. (TiDB's tools have none.)
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from changefeed.errors import ConfigError

_NAME = re.compile(
    r"""/(?P<regex>(?:\\.|[^/])+)/
      |"(?P<double>(?:""|[^"])+)"
      |`(?P<back>(?:``|[^`])+)`
      |(?P<word>(?:\\[^0-9A-Za-z] | \[(?:\\[^0-9A-Za-z]|[^\\\]])+\] | [*?$_0-9A-Za-z] | [^\x00-\x7f])+)""",
    re.VERBOSE | re.DOTALL,
)
_PIECE = re.compile(r"\\(?P<escaped>.)|\[(?P<set>(?:\\.|[^\]])+)\]|(?P<plain>.)", re.DOTALL)
_MEMBER = re.compile(r"(?P<low>\\.|[^\\])-(?P<high>\\.|[^\\])|(?P<one>\\.|[^\\])", re.DOTALL)
_NOT_IN_GO = re.compile(r"\(\?(?:[=!>(]|<[=!]|P=)|\\[1-9]|\[\[:")
_OPENED = {"/": "a regular expression is not closed", '"': "a quote is not closed", "`": "a quote is not closed"}
_OPENED["["] = "a set of characters is not closed, or empty"


_PARTS = ("the schema", "the table", "the column")


@dataclass(frozen=True, slots=True)
class _Name:
    matches: re.Pattern[str]
    only: str | None  # the one name that it matches, apart from case


@dataclass(frozen=True, slots=True)
class _Pattern:
    text: str
    names: tuple[_Name, ...]
    included: bool


class TableFilter:
    """The tables that a list of patterns selects.

    Raises:
        ConfigError: a pattern is invalid; the message shows the position.
    """

    def __init__(self, patterns: Iterable[str], *, case_sensitive: bool = False) -> None:
        self._lower = not case_sensitive
        self._patterns = _last_first(patterns, 2, case_sensitive)

    def matches(self, schema: str, table: str) -> bool:
        """Whether the table is selected."""
        if self._lower:
            schema, table = schema.lower(), table.lower()
        return _selects(self._patterns, (schema, table))

    def included(self) -> list[tuple[str, str | None, str | None]]:
        """Returns the patterns that select tables: text, schema and table; None for a part that matches several names."""
        return [(p.text, p.names[0].only, p.names[1].only) for p in reversed(self._patterns) if p.included]


class ColumnFilter:
    """The columns that a list of patterns selects.

    Raises:
        ConfigError: a pattern is invalid; the message shows the position.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = _last_first(patterns, 3, case_sensitive=False)

    def matches(self, schema: str, table: str, column: str) -> bool:
        """Whether the column is selected."""
        return _selects(self._patterns, (schema.lower(), table.lower(), column.lower()))


def _last_first(patterns: Iterable[str], parts: int, case_sensitive: bool) -> list[_Pattern]:
    read = [_read(text.strip(" \t"), parts, case_sensitive) for text in patterns]
    return [pattern for pattern in reversed(read) if pattern is not None]


def _selects(patterns: list[_Pattern], names: tuple[str, ...]) -> bool:
    for pattern in patterns:
        if all(part.matches.search(name) for part, name in zip(pattern.names, names, strict=True)):
            return pattern.included
    return False


def _read(text: str, parts: int, case_sensitive: bool) -> _Pattern | None:
    """Parses a pattern; None for an empty line or a comment."""
    if not text or text[0] == "#":
        return None
    if text[0] == "@":
        raise ConfigError(f"pattern {text!r}: files of patterns are not supported; write the patterns into the option")
    start = 1 if text[0] == "!" else 0
    name, at = _name(text, start, case_sensitive)
    names = [name]
    for part in _PARTS[1:parts]:
        if text[at : at + 1] != ".":
            raise _wrong(text, at, f"expected a dot and {part}" if at == len(text) else "expected a dot, found")
        name, at = _name(text, at + 1, case_sensitive)
        names.append(name)
    if at != len(text):
        raise _wrong(text, at, "expected the end, found")
    return _Pattern(text, tuple(names), included=start == 0)


def _name(text: str, at: int, case_sensitive: bool) -> tuple[_Name, int]:
    """Parses the name at `at`; returns it and its end."""
    match = _NAME.match(text, at)
    if match is None:
        raise _wrong(text, at, _OPENED.get(text[at : at + 1], "expected a name" if at == len(text) else "unquoted"))
    flags = re.NOFLAG if case_sensitive else re.IGNORECASE
    if match["regex"] is not None:
        if construct := _NOT_IN_GO.search(match["regex"]):
            where = "by changefeed" if construct[0] == "[[:" else "in Go's regular expressions"
            raise _wrong(text, at, f"{construct[0]} is not supported {where}, in")
        return _Name(_compiled(match["regex"], flags, text), None), match.end()
    if match["word"] is not None:
        pieces = list(_PIECE.finditer(match["word"]))
        expression = "".join(_piece(piece, text) for piece in pieces)
        several = any(piece["set"] is not None or piece["plain"] in ("*", "?") for piece in pieces)
        only = None if several else "".join(piece["escaped"] or piece["plain"] for piece in pieces)
    else:
        only = match["back"].replace("``", "`") if match["double"] is None else match["double"].replace('""', '"')
        expression = re.escape(only)
    return _Name(_compiled(rf"\A(?:{expression})\Z", flags | re.DOTALL, text), only), match.end()


def _piece(piece: re.Match[str], text: str) -> str:
    if piece["set"] is not None:
        return _set(piece["set"], text)
    if piece["escaped"] is not None:
        return re.escape(piece["escaped"])
    return {"*": ".*", "?": "."}.get(piece["plain"]) or re.escape(piece["plain"])


def _set(inside: str, text: str) -> str:
    others = inside[0] == "!"
    members = list(_MEMBER.finditer(inside, 1 if others else 0))
    if not members:
        raise _wrong(text, text.index("[!"), _OPENED["["])
    ranges = [
        _member(m["one"]) if m["one"] is not None else f"{_member(m['low'])}-{_member(m['high'])}" for m in members
    ]
    return f"[{'^' if others else ''}{''.join(ranges)}]"


def _member(character: str) -> str:
    return re.escape(character[-1])


def _compiled(expression: str, flags: re.RegexFlag, text: str) -> re.Pattern[str]:
    if expression.isascii():
        flags |= re.ASCII  # \d and \w are ASCII in Go; case of other letters matters only if the pattern contains some
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(expression, flags)
    except (re.error, FutureWarning) as error:
        raise ConfigError(f"pattern {text!r}: {getattr(error, 'msg', error)}") from error


def _wrong(text: str, at: int, why: str) -> ConfigError:
    rest = f" {text[at:]!r}" if at < len(text) else ""
    hint = "; quote a name with characters other than letters, digits, $ and _" if why.endswith("found") else ""
    return ConfigError(f"pattern {text!r}: {why}{rest} at character {at}{hint}")
