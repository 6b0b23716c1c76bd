"""The kind of a DDL statement, one word of the canonical text: `create_table`, `add_column`, … `other`."""

from __future__ import annotations

from changefeed.errors import UnsupportedError
from changefeed.mysql.ddl import statements as sql
from changefeed.mysql.ddl.parser import parse

_WORDS: dict[type, str] = {
    sql.CreateDatabase: "create_database",
    sql.DropDatabase: "drop_database",
    sql.CreateTable: "create_table",
    sql.DropTable: "drop_table",
    sql.RenameTable: "rename_table",
    sql.TruncateTable: "truncate_table",
    sql.AddColumn: "add_column",
    sql.DropColumn: "drop_column",
    sql.ModifyColumn: "modify_column",
    sql.RenameColumn: "rename_column",
    sql.SetDefault: "set_default_value",
    sql.AddKey: "add_index",
    sql.DropKey: "drop_index",
    sql.RenameKey: "rename_index",
}


def kind(text: str, database: str | None) -> str:
    """The word for a statement; `other` if it is not supported, or changes neither tables nor columns nor unique keys."""
    try:
        statements = parse(text, database)
    except UnsupportedError:
        return "other"
    words: list[str] = []
    for statement in statements:
        if isinstance(statement, sql.AlterTable):
            named = [_WORDS[type(change)] for change in statement.changes if type(change) in _WORDS]
            words += named if statement.changes else ["alter_table"]
        elif not isinstance(statement, sql.Passed | sql.Unapplied):
            words.append(_WORDS[type(statement)])
    distinct = set(words)
    if not distinct:
        return "other"
    return words[0] if len(distinct) == 1 else "multi_schema_change"
