"""Keys and other items of CREATE or ALTER TABLE that are not columns.

CONSTRAINT `c` PRIMARY KEY USING BTREE (`a`, `b` DESC)      a unique key
CONSTRAINT `c` UNIQUE KEY `u` (`a`(10)) COMMENT '…'         a unique key: what is unique in its first characters is unique
UNIQUE (`a`, (`b` + 1))    UNIQUE (`a`) WHERE `b` > 0       an index: expressions and some rows do not identify a row
UNIQUE (`room`, `p` WITHOUT OVERLAPS)                       a unique key whose last part is a period, not a column
INDEX, FULLTEXT, SPATIAL, VECTOR                            an index
FOREIGN KEY                                                 an index that the server makes unless another one serves
PERIOD FOR `p` (`s`, `e`)                                   a period: the names of its two columns
CHECK                                                       skipped

A clause behind the parts of a unique key that is not listed here is an error, because it may limit the rows that it holds for.
"""

from __future__ import annotations

from dataclasses import dataclass

from changefeed.model.definition import PRIMARY, Index, UniqueKey
from changefeed.mysql.ddl.statements import AddIndex, AddKey
from changefeed.mysql.ddl.tokens import Tokens

_KINDS = frozenset({"FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR"})
_OTHERS = frozenset({"INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK"})
_QUALIFIED = {"PERIOD": ("FOR",), "VECTOR": ("INDEX", "KEY"), "COLUMNAR": ("INDEX", "KEY")}
_WORDS = frozenset({"VISIBLE", "INVISIBLE", "IGNORED", "CLUSTERED", "NONCLUSTERED", "GLOBAL", "LOCAL", "NOWAIT"})
_VALUES_TEXT = """
    USING TYPE COMMENT KEY_BLOCK_SIZE ENGINE_ATTRIBUTE SECONDARY_ENGINE_ATTRIBUTE ALGORITHM LOCK WAIT PRE_SPLIT_REGIONS
"""
_VALUES = frozenset(_VALUES_TEXT.split())


def is_key(tokens: Tokens) -> bool:
    """Whether the next item is a key or constraint, not a column."""
    word = tokens.peek().upper
    if word in _QUALIFIED:
        return tokens.peek(1).upper in _QUALIFIED[word]
    return word in _OTHERS or word in ("CONSTRAINT", "PRIMARY", "UNIQUE")


def key(tokens: Tokens) -> AddKey | AddIndex | None:
    """Takes the next item; returns the key or index that it declares, None for another kind of item."""
    name, there = "", False
    if tokens.accept("CONSTRAINT"):
        there = tokens.accept("IF", "NOT", "EXISTS")
        if tokens.peek().upper not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
            name = tokens.name()
    if tokens.accept("PRIMARY"):
        tokens.expect("KEY")
        return _unique(tokens, PRIMARY, there)
    if tokens.accept("UNIQUE"):
        tokens.accept_any("INDEX", "KEY")
        return _unique(tokens, name, there)
    if tokens.accept("FOREIGN"):
        tokens.expect("KEY")
        added = _index(tokens, name, there, implied=True)
    elif tokens.peek().upper == "CHECK":
        added = None
    else:
        tokens.accept_any(*_KINDS)
        tokens.accept_any("INDEX", "KEY")
        added = _index(tokens, name, there)
    tokens.skip_item()
    return added


def _unique(tokens: Tokens, name: str, there: bool) -> AddKey | AddIndex:
    there |= tokens.accept("IF", "NOT", "EXISTS")
    own = _index_name(tokens)
    return unique(tokens, name if name == PRIMARY else own or name, there)


def _index(tokens: Tokens, name: str, there: bool, *, implied: bool = False) -> AddIndex:
    there |= tokens.accept("IF", "NOT", "EXISTS")
    own = _index_name(tokens)
    name = name or own if implied else own or name
    return AddIndex(Index(name, parts(tokens).names, implied), there)


def _index_name(tokens: Tokens) -> str:
    """Takes the index name before the parts, "" if there is none; USING may come before or after it."""
    name = ""
    while tokens.peek().upper != "(":
        if tokens.accept_any("USING", "TYPE"):
            tokens.take()
        else:
            name = tokens.name()
    return name


def unique(tokens: Tokens, name: str, if_not_exists: bool) -> AddKey | AddIndex:
    """Takes the parts of a unique key and the clauses behind them; returns an index if it does not identify every row."""
    columns = parts(tokens)
    partial = _clauses(tokens)
    if not partial and "" not in columns.names:
        return AddKey(UniqueKey(name, columns.names), if_not_exists, columns.period)
    return AddIndex(Index(name, columns.names), if_not_exists)


def _clauses(tokens: Tokens) -> bool:
    """Takes the clauses behind a unique key's parts; returns whether one of them limits the rows that it holds for."""
    partial = False
    while not tokens.ended() and tokens.peek().upper not in (",", ")"):
        if tokens.accept_any(*_WORDS) or tokens.accept("NOT", "IGNORED"):
            continue
        if tokens.accept("WITH", "PARSER"):
            tokens.name()
        elif tokens.accept("WHERE"):
            partial = True
            while not tokens.ended() and tokens.peek().upper not in (",", ")"):
                tokens.skip_group() if tokens.peek().upper == "(" else tokens.take()
        elif tokens.peek().upper in _VALUES or (tokens.peek().kind == "word" and tokens.peek(1).upper == "="):
            tokens.take()
            tokens.accept("=")
            tokens.skip_group() if tokens.peek().upper == "(" else tokens.take()
        else:
            tokens.fail("expected an option of an index")
    return partial


@dataclass(slots=True)
class Parts:
    """The parts of an index.

    Attributes:
        names: its columns; "" for an expression.
        period: the name among them that is a period.
    """

    names: tuple[str, ...]
    period: str | None = None


def parts(tokens: Tokens) -> Parts:
    """Takes the parts of an index in parentheses."""
    tokens.expect("(")
    names: list[str] = []
    period = None
    while True:
        name = ""
        if tokens.peek().upper == "(":
            tokens.skip_group()
        else:
            name = tokens.name()
        if (
            tokens.peek().upper == "("
        ):  # the length of a prefix; an array of values has CAST around it, and is an expression
            tokens.skip_group()
        tokens.accept_any("ASC", "DESC")
        if tokens.accept("WITHOUT", "OVERLAPS"):
            period = name
        names.append(name)
        if not tokens.accept(","):
            break
    tokens.expect(")")
    return Parts(tuple(names), period)


def period(tokens: Tokens) -> tuple[str, tuple[str, str]] | None:
    """Takes PERIOD FOR; returns the period's name, and its columns in the order of keys. None if another item comes next."""
    if not tokens.accept("PERIOD", "FOR"):
        return None
    tokens.accept("IF", "NOT", "EXISTS")
    name = tokens.name()
    tokens.expect("(")
    start = tokens.name()
    tokens.expect(",")
    end = tokens.name()
    tokens.expect(")")
    return name, (end, start)
