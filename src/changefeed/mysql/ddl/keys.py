"""Keys and other items of CREATE or ALTER TABLE that are not columns.

CONSTRAINT `c` PRIMARY KEY USING BTREE (`a`, `b` DESC)      kept
CONSTRAINT `c` UNIQUE KEY `u` (`a`(10)) COMMENT '…'         kept, unless a part is an expression
INDEX, FULLTEXT, SPATIAL, FOREIGN KEY, CHECK, …             skipped
"""

from __future__ import annotations

from changefeed.model.definition import PRIMARY, UniqueKey
from changefeed.mysql.ddl.tokens import Tokens

_OTHERS = frozenset({"INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK"})
_QUALIFIED = {"PERIOD": ("FOR",), "VECTOR": ("INDEX", "KEY"), "COLUMNAR": ("INDEX", "KEY")}


def is_key(tokens: Tokens) -> bool:
    """Whether the next item is a key or constraint, not a column."""
    word = tokens.peek().upper
    if word in _QUALIFIED:
        return tokens.peek(1).upper in _QUALIFIED[word]
    return word in _OTHERS or word in ("CONSTRAINT", "PRIMARY", "UNIQUE")


def key(tokens: Tokens) -> UniqueKey | None:
    """Takes the next item; returns the unique key that it declares, None for another kind of item."""
    name = ""
    if tokens.accept("CONSTRAINT") and tokens.peek().upper not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
        name = tokens.name()
    unique = None
    if tokens.accept("PRIMARY"):
        tokens.expect("KEY")
        _index_name(tokens)
        unique = _key(PRIMARY, parts(tokens))
    elif tokens.accept("UNIQUE"):
        tokens.accept_any("INDEX", "KEY")
        tokens.accept("IF", "NOT", "EXISTS")
        unique = _key(_index_name(tokens) or name, parts(tokens))
    tokens.skip_item()
    return unique


def _key(name: str, columns: tuple[str, ...] | None) -> UniqueKey | None:
    return None if columns is None else UniqueKey(name, columns)


def _index_name(tokens: Tokens) -> str:
    """Takes the index name before the parts, "" if there is none; USING may come before or after it."""
    name = ""
    while tokens.peek().upper != "(":
        if tokens.accept_any("USING", "TYPE"):
            tokens.take()
        else:
            name = tokens.name()
    return name


def parts(tokens: Tokens) -> tuple[str, ...] | None:
    """Takes the columns of a key in parentheses; None if a part is an expression: such a key does not identify rows."""
    tokens.expect("(")
    names: list[str] = []
    expression = False
    while True:
        if tokens.peek().upper == "(":
            tokens.skip_group()
            expression = True
        else:
            names.append(tokens.name())
        tokens.skip_item()  # a prefix length, ASC, DESC
        if not tokens.accept(","):
            break
    tokens.expect(")")
    return None if expression else tuple(names)


def named(keys: list[UniqueKey], new: list[UniqueKey]) -> list[UniqueKey]:
    """Returns all keys; unnamed ones of `new` get MySQL's default names: `column`, then `column_2` and so on."""
    known = list(keys)
    for added in new:
        name, taken, count = added.name, {k.name.lower() for k in known}, 2
        if not name:
            name = added.columns[0]
            while name.lower() in taken:
                name, count = f"{added.columns[0]}_{count}", count + 1
        known.append(UniqueKey(name, added.columns))
    return known
