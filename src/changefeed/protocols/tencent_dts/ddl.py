"""Derives kind and table of a DDL statement from its text, because the protocol sends only the text.

A statement that is not understood has kind `other` and no table; its text is kept unchanged.
"""

from __future__ import annotations

from typing import Any

from changefeed.errors import UnsupportedError
from changefeed.model.event import Instant, SchemaChange
from changefeed.model.position import Place
from changefeed.mysql.ddl import statements as ddl
from changefeed.mysql.ddl.parser import parse

_LONGEST = 262_144  # characters that are looked into
_CHANGES: dict[type, str] = {
    ddl.AddColumn: "add_column",
    ddl.DropColumn: "drop_column",
    ddl.ModifyColumn: "modify_column",
    ddl.RenameColumn: "modify_column",
    ddl.SetDefault: "set_default_value",
    ddl.AddKey: "add_index",
    ddl.DropKey: "drop_index",
    ddl.RenameKey: "rename_index",
}


def schema_change(
    header: dict[str, Any], body: dict[str, Any], origin: dict[str, Any], time: Instant | None, place: Place
) -> SchemaChange:
    """Returns the schema change of a DDL entry, and completes its origin."""
    database = body.get("schemaName") or header.get("schemaName") or None
    if body.get("schemaName", "") != (database or ""):
        origin["ddlEvent"] = {"schemaName": ""}
    if body.get("executionTime"):
        origin["executionTime"] = body["executionTime"]
    text, sequence = body.get("sql", ""), header.get("seqId") or None
    kind, table = describe(text, database)
    return SchemaChange(kind, database, table, text, place, instant=time, origin=origin, sequence=sequence)


def describe(text: str, database: str | None) -> tuple[str, str | None]:
    """Returns kind and table of a statement; for RENAME TABLE, the new name."""
    if len(text) > _LONGEST:
        return "other", None
    try:
        statements = parse(text, database)
    except UnsupportedError:
        return "other", None
    match statements[-1] if isinstance(statements[-1], ddl.CreateTable | ddl.CreateDatabase) else statements[0]:
        case ddl.CreateDatabase():
            return "create_database", None
        case ddl.DropDatabase():
            return "drop_database", None
        case ddl.CreateTable(table=table):
            return "create_table", table
        case ddl.DropTable(table=table):
            return "drop_table", table
        case ddl.TruncateTable(table=table):
            return "truncate_table", table
        case ddl.AlterTable(table=table, changes=changes):
            named = [_CHANGES[type(change)] for change in changes if type(change) in _CHANGES]
            return (_alter(named), table) if named else (_internal(text, changes), None)
        case ddl.RenameTable(to_table=table):
            return "rename_table", table
        case ddl.Unapplied(kind=kind, tables=tables):
            return kind, tables[0][1] if tables else None
        case ddl.Passed(kind=kind):
            return kind, None


def _internal(text: str, changes: tuple[ddl.ColumnChange, ...]) -> str:
    """Returns the kind of a statement that changes neither columns nor unique keys."""
    if text.lstrip()[:6].upper() == "CREATE":
        return "create_index"
    return "add_index" if isinstance(changes[0], ddl.AddIndex) else "alter_table"


def _alter(changes: list[str]) -> str:
    """Returns the kind of an ALTER TABLE with one change, or the kind for several changes."""
    kinds = set(changes)
    if len(changes) == 1:
        return changes[0]
    several = {"add_column": "add_columns", "drop_column": "drop_columns"}
    return several.get(changes[0], "multi_schema_change") if len(kinds) == 1 else "multi_schema_change"
