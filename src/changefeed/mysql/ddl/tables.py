"""Names of tables and columns, and the character set of a table or database.

`db`.`t`  .`t`  t            a table; without a database, of that of the event
`c`  `t`.`c`  `db`.`t`.`c`   a column
"""

from __future__ import annotations

from changefeed.mysql.ddl.tokens import Tokens


def table_name(tokens: Tokens, database: str | None) -> tuple[str, str]:
    """Takes a table name; returns database and table.

    Raises:
        UnsupportedError: the statement names no database, and neither does the event.
    """
    tokens.accept(".")
    token = tokens.peek()
    first = tokens.table()
    if tokens.accept("."):
        return first, tokens.table()
    if not database:
        tokens.fail(f"table {first} is named without a database", token)
    return database, first


def column_name(tokens: Tokens) -> str:
    """Takes a column name, and the names of table and database before it."""
    tokens.accept(".")
    name = tokens.name()
    while tokens.accept("."):
        name = tokens.name()
    return name


def charset_option(tokens: Tokens) -> str | None:
    """Takes a CHARACTER SET or COLLATE option; returns the character set in lower case, None if the next option is another."""
    if tokens.accept("CHARSET") or tokens.accept("CHARACTER", "SET") or tokens.accept("CHAR", "SET"):
        tokens.accept("=")
        return tokens.take().value.lower()
    if tokens.accept("COLLATE"):
        tokens.accept("=")
        return tokens.take().value.lower().partition("_")[0]
    return None
