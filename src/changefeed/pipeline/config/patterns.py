r"""Patterns of `pipeline.include` and `pipeline.exclude`: those of the producers, so that their lists can be copied.

    shop.orders    shop.*    log_?[0-9].*    `a db`."t x"    /^shop_\d+$/.*    !shop.tmp_*      TiCDC's table filter
    shop\.orders   shop\.(orders|items)      .*\.audit_.*                                       Debezium's table.include.list

Rule 1. A pattern that begins with `.`, or has `\.`, `(`, `|`, `+`, `{` or `^` outside a name in quotes or slashes, is a regular
        expression of Debezium. It must match all of `database.table`.
Rule 2. Any other pattern is one of TiCDC's table filter (`ticdc/dispatch/matcher.py`). What that filter refuses without quotes,
        such as `my-db.*`, is a pattern of the shell, which is matched against all of `database.table`.
Rule 3. The last pattern that matches decides. With `!` before it, the table is not selected.
Rule 4. Case is ignored, as both producers do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache

from changefeed.errors import ConfigError
from changefeed.model.names import names_of
from changefeed.ticdc.dispatch.matcher import TableFilter

_QUOTED = re.compile(r'/(?:\\.|[^/])+/|"(?:""|[^"])+"|`(?:``|[^`])+`')
_EXPRESSION = re.compile(r"^!?\.|\\\.|[(|+{^]")
_COMMA = re.compile(r"(?<!\\),")

_Match = Callable[[str, str], bool]  # of a database and a table


@dataclass(frozen=True, slots=True)
class TablePattern:
    """One pattern of a list.

    Attributes:
        text: the pattern as written, without `!`.
        selects: whether the tables that match it are selected; False after `!`.
        matches: whether a database and a table match it.
    """

    text: str
    selects: bool
    matches: _Match

    def matches_name(self, table: str) -> bool:
        """Whether a table, by `database.table`, matches the pattern."""
        return self.matches(*names_of(table))


@dataclass(frozen=True, slots=True)
class TablePatterns:
    """The tables that a list of patterns selects."""

    patterns: tuple[TablePattern, ...]

    def select(self, table: str) -> bool:
        """Whether the list selects a table, by `database.table`: see Rule 3."""
        last = next((p for p in reversed(self.patterns) if p.matches_name(table)), None)
        return last is not None and last.selects


@cache
def table_patterns(texts: tuple[str, ...]) -> TablePatterns:
    """Reads a list of patterns.

    Raises:
        ConfigError: a pattern is invalid.
    """
    return TablePatterns(tuple(_pattern(text.strip()) for text in texts))


def split_list(text: str) -> list[str]:
    """The patterns of a list in one text, as Debezium has it: with commas between them."""
    return [part.strip() for part in _COMMA.split(text) if part.strip()]


def check_patterns(texts: Sequence[str]) -> None:
    """Checks a list of patterns.

    Raises:
        ConfigError: a pattern is invalid, or each of them has a `!`, so that the list selects no table.
    """
    read = table_patterns(tuple(texts)).patterns
    if read and not any(pattern.selects for pattern in read):
        raise ConfigError(
            f"selects no table, because every pattern begins with `!`: write `*.*` before {texts[0]!r} to select all others"
        )


def _pattern(text: str) -> TablePattern:
    selects = not text.startswith("!")
    plain = text if selects else text[1:]
    if not re.search(r"[.*]", plain):
        raise ConfigError(
            f"{text!r} names no table: write `database.table`, as `shop.orders` or `*.{plain or 'orders'}`"
        )
    return TablePattern(plain, selects, _matcher(plain))


def _matcher(text: str) -> _Match:
    if _EXPRESSION.search(_QUOTED.sub("q", text)):
        return _of_whole_name(text)
    try:
        return TableFilter([text]).matches
    except ConfigError:
        if text[0] in '@/`"':
            raise
    return _of_whole_name(translate(text))


def _of_whole_name(expression: str) -> _Match:
    try:
        compiled = re.compile(expression, re.IGNORECASE | re.DOTALL)
    except re.error as error:
        raise ConfigError(f"{expression!r} is not a regular expression: {error}") from error
    return lambda database, table: compiled.fullmatch(f"{database}.{table}") is not None
