"""The definitions of tables after a statement, where only definitions count and not the rows.

    CREATE TABLE t (…)          t is defined
    CREATE TABLE u LIKE t       u is defined like t
    RENAME TABLE t TO v         t is unknown, v has its definition
    DROP TABLE u                u is unknown

What becomes of rows is planned in `pipeline.planning`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from changefeed.errors import ChangefeedError
from changefeed.model.definition import Table
from changefeed.mysql.ddl import statements as sql
from changefeed.mysql.ddl.apply import alter

Name: TypeAlias = tuple[str, str]


def definitions_after(
    statement: sql.Statement, table: Callable[[str, str], Table | None], tables_of: Callable[[str], Iterable[Name]]
) -> list[tuple[Name, Table | None]]:
    """Returns the tables whose definition a statement changes, in the order of the changes.

    Args:
        statement: one statement; those of a text are applied one after the other.
        table: database and name -> the definition before the statement, None if it is not known.
        tables_of: database -> the database and name of each of its tables that has a definition.

    Returns:
        Database and name with the definition after the statement; None if the table is gone, or not known from there on.
    """
    match statement:
        case sql.CreateTable():
            return _created(statement, table)
        case sql.DropTable():
            return [((statement.database, statement.table), None)]
        case sql.DropDatabase(database=database):
            return [(name, None) for name in tables_of(database)]
        case sql.RenameTable(to_database=database, to_table=name):
            old = table(statement.database, statement.table)
            renamed = None if old is None else replace(old, database=database, name=name)
            return [((statement.database, statement.table), None), ((database, name), renamed)]
        case sql.AlterTable():
            return [((statement.database, statement.table), _altered(statement, table))]
    return []


def _created(statement: sql.CreateTable, table: Callable[[str, str], Table | None]) -> list[tuple[Name, Table | None]]:
    database, name = statement.database, statement.table
    if statement.if_not_exists and table(database, name) is not None:
        return []
    if statement.like is None:
        created: Table | None = replace(statement.definition, comment=statement.comment)
    else:
        template = table(*statement.like)
        created = None if template is None else replace(template, database=database, name=name)
    return [((database, name), created if created is not None and created.columns else None)]


def _altered(statement: sql.AlterTable, table: Callable[[str, str], Table | None]) -> Table | None:
    old = table(statement.database, statement.table)
    if old is None:
        return None
    try:
        return replace(alter(old, statement).table, comment=old.comment)
    except ChangefeedError:  # the statement does not fit the definition, which is not that of the server
        return None
