"""Names of tables and columns, and the character set of a table or database.

`db`.`t`  .`t`  t            a table; without a database, of that of the event
`c`  `t`.`c`  `db`.`t`.`c`   a column
"""

from __future__ import annotations

from changefeed.errors import UnsupportedError
from changefeed.mysql.ddl.tokens import Tokens

_DATABASE_OPTIONS = frozenset(
    {"DEFAULT", "CHARACTER", "CHARSET", "CHAR", "COLLATE", "COMMENT", "ENCRYPTION", "READ", "UPGRADE"}
)


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


def database_charset(text: str, database: str | None) -> tuple[str, str] | None:
    """Returns the database and the character set of an ALTER DATABASE; None for another statement, or without a character set.

    Args:
        text: the statement.
        database: that of the event, for a statement that names none.
    """
    tokens = Tokens(text)
    try:
        if not (tokens.accept("ALTER") and tokens.accept_any("DATABASE", "SCHEMA")):
            return None
        named = tokens.peek().kind == "name" or tokens.peek().upper not in _DATABASE_OPTIONS
        name, charset = tokens.table() if named else database, None
        while not tokens.ended():
            declared = charset_option(tokens)
            charset = charset if declared is None else declared
            if declared is None:
                tokens.take()
    except UnsupportedError:
        return None
    return None if name is None or charset is None else (name, charset)


def charset_option(tokens: Tokens) -> str | None:
    """Takes a CHARACTER SET or COLLATE option; returns the character set in lower case, None if the next option is another."""
    if tokens.accept("CHARSET") or tokens.accept("CHARACTER", "SET") or tokens.accept("CHAR", "SET"):
        tokens.accept("=")
        return tokens.take().value.lower()
    if tokens.accept("COLLATE"):
        tokens.accept("=")
        return tokens.take().value.lower().partition("_")[0]
    return None
