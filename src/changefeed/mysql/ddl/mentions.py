"""The tables that a statement mentions, whatever the statement is: for a warning about one that is skipped.

A token that is the table's name, in any case, is a mention, unless it is qualified by the name of another database:
`t`, `db`.`t` and db.t mention db.t in a statement of database db; x.t does not. Comments and texts mention nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from changefeed.errors import UnsupportedError
from changefeed.mysql.ddl.tokens import Token, Tokens

TableName = tuple[str, str]  # database and table


def mentioned(text: str, tables: Iterable[TableName], database: str | None) -> list[TableName]:
    """Returns the tables that the statement mentions, sorted.

    Args:
        text: any statement; after a place that is not MySQL, nothing more is read.
        tables: the names to look for.
        database: the database of names without one; None if unknown: then they may be of any database.
    """
    by_name: dict[str, list[TableName]] = {}
    for table in tables:
        by_name.setdefault(table[1].lower(), []).append(table)
    mentions: set[TableName] = set()
    for name, qualifier in _names(text):
        own = qualifier or database
        mentions |= {t for t in by_name.get(name.lower(), ()) if own is None or t[0].lower() == own.lower()}
    return sorted(mentions)


def _names(text: str) -> Iterable[tuple[str, str | None]]:
    """Yields every token that can be a name, and the name before it with a dot between."""
    try:
        tokens = Tokens(text)
        before: tuple[Token, Token] | None = None
        while (token := tokens.take()).kind != "end":
            if _is_name(token):
                yield token.value, before[0].value if before is not None and before[1].upper == "." else None
            previous = before[1] if before is not None else token
            before = previous, token
    except UnsupportedError:
        return


def _is_name(token: Token) -> bool:
    return token.kind in ("name", "word") or (token.kind == "text" and token.raw[0] == '"')
