"""Computes the partition of a row.

    table   crc32("shop" 00 "orders") mod n
    pk      crc32("shop" 00 "orders" 00 "7" …) mod n       the text of each key column's value
    cols    the same with the columns that the rule names, in any case

Rule 1. The first custom rule whose two patterns match database and table applies; otherwise the default rule.
Rule 2. For a table without a key, only its name is hashed. NULL and absent values are hashed as empty text.

The hash of the service itself is not published: consumers must not compute a partition to find a row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from changefeed.errors import ConfigError, UnsupportedError, unknown_name

RULES = ("table", "pk", "cols")
_MEMBERS = ("DbPattern", "TablePattern", "RuleType", "Columns")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, and the patterns of the tables to which it applies."""

    database: re.Pattern[str]
    table: re.Pattern[str]
    kind: str
    columns: tuple[str, ...] = ()


def read_rule(members: Mapping[str, Any]) -> Rule:
    """Parses a custom rule of the options.

    Raises:
        ConfigError: the rule is invalid.
    """
    for name in members:
        if name not in _MEMBERS:
            raise unknown_name("member of a custom rule", name, _MEMBERS)
    kind, columns = members.get("RuleType", "table"), members.get("Columns", ())
    if kind not in RULES:
        raise unknown_name("RuleType", str(kind), RULES)
    if isinstance(columns, str) or (kind == "cols") != bool(columns):
        raise ConfigError('RuleType "cols" and a list "Columns" must be used together')
    try:
        patterns = [re.compile(str(members.get(name, ""))) for name in ("DbPattern", "TablePattern")]
    except re.error as error:
        raise ConfigError(f"custom_rules: {error.pattern!r} is not a regular expression: {error}") from error
    return Rule(patterns[0], patterns[1], kind, tuple(map(str, columns)))


def columns_of(
    rules: Sequence[Rule], default: str, database: str, table: str, names: Sequence[str], keys: Sequence[str]
) -> list[str]:
    """Returns the columns whose values choose the partition of a table's rows.

    Raises:
        UnsupportedError: the rule names a column that the table lacks.
    """
    kind, wanted = default, tuple(keys)
    for rule in rules:
        if rule.database.search(database) and rule.table.search(table):
            kind, wanted = rule.kind, rule.columns or wanted
            break
    if kind == "table":
        return []
    by_lower = {name.lower(): name for name in names}
    missing = [name for name in wanted if name.lower() not in by_lower]
    if missing:
        raise UnsupportedError(
            f"tencent-dts: {database}.{table} has no column {missing[0]}, which its partition rule names"
        )
    return [by_lower[name.lower()] for name in wanted]


def partition(database: str, table: str, values: Sequence[bytes], count: int) -> int:
    """Returns the partition of a row, from 0 to `count` - 1."""
    return crc32(b"\0".join((database.encode(), table.encode(), *values))) % count
