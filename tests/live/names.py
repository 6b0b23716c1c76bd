"""Names of tables, columns and keys: mostly plain ones, and odd ones."""

from __future__ import annotations

from random import Random

from tests.live.schema import quoted

_TABLES = ["t1", "t2", "t3", "t4", "orders", "items", "s"]
_ODD_TABLES = ["my table", "it's", "größe", "select", "a.b", "Mixed", "x-1", "table", "t1$", "_t1_new", "~t", 'a"b']
_COLUMNS = ["a", "b", "c", "d", "e", "f", "g", "k2", "value", "name", "n1", "n2", "amount", "note"]
_ODD_COLUMNS = [
    "x y", "select", "first", "after", "key", "größe", "Ab", "it's", "a.b", "order", "column", "index", "_x", "1a", "to", "c-1",
    "primary", "default", "position", "comment", "a\"b", "ts_ms", "op", "before", "table",
]  # fmt: skip


def table_name(random: Random, taken: set[str]) -> str:
    """A name that no table of the database has."""
    return _draw(random, _TABLES, _ODD_TABLES, 0.12, taken)


def column_name(random: Random, taken: set[str]) -> str:
    """A name that no column of the table has."""
    return _draw(random, _COLUMNS, _ODD_COLUMNS, 0.12, taken)


def key_name(random: Random) -> str:
    """A name for a key."""
    return random.choice(["k1", "k2", "u1", "u2", "idx", "a", "b", "my key", "PRIMARY2"])


def written(random: Random, name: str) -> str:
    """A name as a statement has it: between backticks, or bare where it may be."""
    bare = name.isascii() and name.isidentifier() and name.lower() not in _RESERVED
    return name if bare and random.random() < 0.6 else quoted(name)


def in_any_case(random: Random, name: str) -> str:
    """The name in lower, upper or mixed case."""
    return random.choice([name, name, name.upper(), name.capitalize()])


def _draw(random: Random, plain: list[str], strange: list[str], share: float, taken: set[str]) -> str:
    lower = {name.lower() for name in taken}
    for _ in range(40):
        name = random.choice(strange if random.random() < share else plain)
        if name.lower() not in lower:
            return name
    return f"z{len(taken)}"


_RESERVED = frozenset({"select", "key", "order", "column", "index", "to", "primary", "default", "table", "before"})
