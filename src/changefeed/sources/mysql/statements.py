"""The meaning of the statements in a log to a reader of rows.

Of a statement in the log, its first word decides:

    BEGIN, COMMIT, SAVEPOINT, XA …      transactions
    CREATE, ALTER, DROP, RENAME, …      schema changes, if they concern a captured table
    INSERT, UPDATE, DELETE, …           changes that the server did not log as rows
    GRANT, ANALYZE, CREATE VIEW, …      nothing
"""

from __future__ import annotations

import re
from typing import Literal

from changefeed.errors import UnsupportedError
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl import statements as sql
from changefeed.mysql.ddl.unlogged import versioned_by
from changefeed.sources.mysql.tables import SYSTEM, is_captured, quoted
from changefeed.ticdc.dispatch.matcher import TableFilter

Meaning = Literal["begin", "commit", "rollback", "xa", "change", "rows", "history", "none"]
_COMMENT = re.compile(r"^(?:\s|/\*(?!M?!).*?\*/|#[^\n]*|--\s[^\n]*)+", re.DOTALL)
_WORD = re.compile(r"\w+")
_ALL = TableFilter(["*.*"])
_PLAIN: dict[str, Meaning] = {
    "BEGIN": "begin", "COMMIT": "commit", "SAVEPOINT": "none", "RELEASE": "none", "ROLLBACK": "rollback", "XA": "xa",
}  # fmt: skip


def meaning(text: str, database: str | None, selector: TableFilter, *, all_changes: bool = False) -> Meaning:
    """Returns the meaning of a statement; `change`: a schema change that concerns captured tables.

    `history`: it gives a captured table system versioning. A statement that cannot be read is a schema change: the pipeline
    decides what to do with it.

    Args:
        text: the statement.
        database: that of tables that are named without one.
        selector: selects the captured tables.
        all_changes: whether schema changes of other tables are a `change`, too.
    """
    uncommented = _COMMENT.sub("", text, count=1)
    if not uncommented:
        return "none"  # a comment, by which MariaDB replaces an event that it does not send
    word = _WORD.match(uncommented)
    plain = _PLAIN.get(word.group().upper() if word else "")
    if plain is not None:
        return plain
    try:
        statements = parse(text, database)
    except UnsupportedError:
        return "change" if (database or "").lower() not in SYSTEM else "none"
    versioned = versioned_by(text, database)
    if versioned is not None and is_captured(selector, *versioned):
        return "history"
    is_row_change = any(isinstance(s, sql.Unapplied) and _is_dml(s.kind) for s in statements)
    if any(_concerns(statement, selector) for statement in statements):
        return "rows" if is_row_change else "change"
    if not all_changes or is_row_change or versioned is not None:
        return "none"
    return "change" if any(_concerns(statement, _ALL) for statement in statements) else "none"


def done_by_failed(text: str, database: str | None) -> str | None:
    """Returns the statement for what one that failed has done, if the log has it nevertheless; None if that is not known.

    MariaDB drops the table of a CREATE OR REPLACE TABLE first, and logs the whole statement with its error.
    """
    try:
        statements = parse(text, database)
    except UnsupportedError:
        return None
    match statements:
        case [sql.DropTable(database=of, table=table), sql.CreateTable()]:
            return f"DROP TABLE IF EXISTS {quoted(of)}.{quoted(table)}"
    return None


def begins_transaction(text: str) -> bool:
    """Whether a CREATE TABLE … SELECT begins a transaction, whose rows follow."""
    return text.rstrip().upper().endswith("START TRANSACTION")


def _is_dml(kind: str) -> bool:
    return kind in ("insert", "update", "delete", "replace", "load")


def _concerns(statement: sql.Statement, selector: TableFilter) -> bool:
    """Whether a statement concerns a captured table."""
    match statement:
        case sql.Passed():
            return False
        case sql.CreateDatabase() | sql.DropDatabase():
            return statement.database.lower() not in SYSTEM
        case sql.RenameTable():
            names = [(statement.database, statement.table), (statement.to_database, statement.to_table)]
        case sql.Unapplied():
            names = list(statement.tables)
            if not names:
                return True
        case _:
            names = [(statement.database, statement.table)]
    return any(is_captured(selector, database, table) for database, table in names)
