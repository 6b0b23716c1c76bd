"""Keys and other items in a CREATE or ALTER TABLE that are not columns.

CONSTRAINT `c` PRIMARY KEY USING BTREE (`a`, `b` DESC)      kept
CONSTRAINT `c` UNIQUE KEY `u` (`a`(10)) COMMENT '…'         kept, unless a part is an expression
INDEX, FULLTEXT, SPATIAL, FOREIGN KEY, CHECK, …             passed over
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
    """The unique key that the next item declares, or None for another kind of item; it is taken as a whole."""
    name = ""
    if tokens.accept("CONSTRAINT") and tokens.peek().upper not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
        name = tokens.name()
    found = None
    if tokens.accept("PRIMARY"):
        tokens.expect("KEY")
        _index_name(tokens)
        found = _key(PRIMARY, parts(tokens))
    elif tokens.accept("UNIQUE"):
        tokens.accept_any("INDEX", "KEY")
        tokens.accept("IF", "NOT", "EXISTS")
        found = _key(_index_name(tokens) or name, parts(tokens))
    tokens.skip_item()
    return found


def _key(name: str, columns: tuple[str, ...] | None) -> UniqueKey | None:
    return None if columns is None else UniqueKey(name, columns)


def _index_name(tokens: Tokens) -> str:
    """The index name in front of the parts, "" for none; USING may come on either side of it."""
    name = ""
    while tokens.peek().upper != "(":
        if tokens.accept_any("USING", "TYPE"):
            tokens.take()
        else:
            name = tokens.name()
    return name


def parts(tokens: Tokens) -> tuple[str, ...] | None:
    """The columns of a key in parentheses; None when a part is an expression, for then no columns identify a row."""
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
    """All the keys; the unnamed ones of `new` get the names that MySQL gives: the first column's, then with _2."""
    known = list(keys)
    for added in new:
        name, taken, count = added.name, {k.name.lower() for k in known}, 2
        if not name:
            name = added.columns[0]
            while name.lower() in taken:
                name, count = f"{added.columns[0]}_{count}", count + 1
        known.append(UniqueKey(name, added.columns))
    return known
