"""What a DDL statement does, in one word of the canonical text: `create_table`, `add_column`, … `other`."""

from __future__ import annotations

from changefeed.errors import UnsupportedError
from changefeed.mysql.ddl import statements as said
from changefeed.mysql.ddl.parser import parse

_WORDS: dict[type, str] = {
    said.CreateDatabase: "create_database",
    said.DropDatabase: "drop_database",
    said.CreateTable: "create_table",
    said.DropTable: "drop_table",
    said.RenameTable: "rename_table",
    said.TruncateTable: "truncate_table",
    said.AddColumn: "add_column",
    said.DropColumn: "drop_column",
    said.ModifyColumn: "modify_column",
    said.RenameColumn: "rename_column",
    said.SetDefault: "set_default_value",
    said.AddKey: "add_index",
    said.DropKey: "drop_index",
    said.RenameKey: "rename_index",
}


def kind(text: str, database: str | None) -> str:
    """The word for a statement; `other` for one that is not understood, or that concerns no table."""
    try:
        found = parse(text, database)
    except UnsupportedError:
        return "other"
    words: list[str] = []
    for statement in found:
        if isinstance(statement, said.AlterTable):
            words += [_WORDS[type(change)] for change in statement.changes] or ["alter_table"]
        elif not isinstance(statement, said.Passed | said.Unapplied):
            words.append(_WORDS[type(statement)])
    distinct = set(words)
    if not distinct:
        return "other"
    return words[0] if len(distinct) == 1 else "multi_schema_change"
