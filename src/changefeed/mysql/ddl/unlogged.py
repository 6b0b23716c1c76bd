"""Statements that make a table of which the log has other rows than the table: for every reader of a binary log.

WITH SYSTEM VERSIONING, ADD SYSTEM VERSIONING     MariaDB: the log has a row event for each old row that the table keeps, too, and
                                                  a delete is an update of the row's end
ON DELETE CASCADE, ON UPDATE SET NULL, …          the storage engine changes rows of the child, and logs nothing: MariaDB, and
                                                  MySQL before 9.6
"""

from __future__ import annotations

from changefeed.errors import UnsupportedError
from changefeed.mysql.ddl.tables import table_name
from changefeed.mysql.ddl.tokens import Tokens

VERSIONED = "its log has the rows of the past, too, by system versioning"
_ACTIONS = (("CASCADE",), ("SET", "NULL"), ("SET", "DEFAULT"))


def versioned_by(statement: str, database: str | None) -> tuple[str, str] | None:
    """Returns the table to which a CREATE TABLE or ALTER TABLE gives system versioning; None for another statement.

    Args:
        statement: its text.
        database: of a table that is named without one.
    """
    if "VERSIONING" not in statement.upper():
        return None
    tokens, before = Tokens(statement), ""
    try:
        while not tokens.accept("TABLE"):
            if tokens.take().kind == "end":
                return None
        tokens.accept("IF", "NOT", "EXISTS")
        tokens.accept("IF", "EXISTS")
        name = table_name(tokens, database)
        while not tokens.ended():
            word = tokens.take().upper
            if before in ("WITH", "ADD") and word == "SYSTEM" and tokens.peek().upper == "VERSIONING":
                return name
            before = word
    except UnsupportedError:  # the pipeline reports what cannot be read of it
        return None
    return None


def actions_of(statement: str) -> list[str]:
    """Returns the actions of foreign keys in a statement that change rows of the child, such as `ON DELETE CASCADE`."""
    upper = statement.upper()
    if "REFERENCES" not in upper or not ("CASCADE" in upper or "SET" in upper):
        return []
    tokens, actions = Tokens(statement), dict[str, None]()
    try:
        while tokens.peek().kind != "end":
            event = tokens.peek(1).upper
            if not tokens.accept("ON") or event not in ("DELETE", "UPDATE"):
                tokens.take()
                continue
            tokens.take()
            action = next((words for words in _ACTIONS if tokens.accept(*words)), None)
            if action is not None:
                actions[" ".join(("ON", event, *action))] = None
    except UnsupportedError:
        pass
    return list(actions)
