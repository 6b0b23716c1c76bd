"""Table names: `db`.`t`, or `t` in the database of the event."""

from __future__ import annotations

from changefeed.mysql.ddl.tokens import Tokens


def table_name(tokens: Tokens, database: str | None) -> tuple[str, str]:
    """Takes a table name; returns database and table.

    Raises:
        UnsupportedError: the statement names no database, and neither does the event.
    """
    token = tokens.peek()
    first = tokens.name()
    if tokens.accept("."):
        return first, tokens.name()
    if not database:
        tokens.fail(f"table {first} is named without a database", token)
    return database, first
