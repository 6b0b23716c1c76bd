"""Names of tables as text: `database.table`, unique for each table.

MySQL allows a dot in a quoted name: table `b.c` of database `a` and table `c` of database `a.b` would have the same text. So a
part with a dot or a backtick is written as in SQL:

    a . b.c      a.`b.c`
    a.b . c      `a.b`.c
    a`b . c      `a``b`.c
"""

from __future__ import annotations

import re
from functools import lru_cache

_PARTS = re.compile(r"(`(?:[^`]|``)*`|[^.`]*)\.(`(?:[^`]|``)*`|[^.`]*)", re.DOTALL)

_NOT_IN_TOPICS = re.compile(r"[^a-zA-Z0-9._-]")


@lru_cache(maxsize=1 << 14)
def full_name(database: str, table: str) -> str:
    """Returns `database.table`; a part with a dot or a backtick is quoted."""
    return f"{_quoted(database)}.{_quoted(table)}"


def names_of(name: str) -> tuple[str, str]:
    """Splits the result of `full_name` into database and table; any other text is split at its first dot."""
    parts = _PARTS.fullmatch(name)
    if parts is None:
        database, _, table = name.partition(".")
        return database, table
    return _plain(parts[1]), _plain(parts[2])


def in_topic(part: str) -> str:
    """The name of a database or table as Debezium writes it in the name of a topic: `_` for characters that no topic has."""
    return _NOT_IN_TOPICS.sub("_", part)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`" if "." in name or "`" in name else name


def _plain(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part
