"""Definitions of tables, as statements leave them."""

from __future__ import annotations

from dataclasses import replace

from changefeed.model.definition import Table
from changefeed.mysql.ddl.apply import alter
from changefeed.mysql.ddl.statements import AlterTable, CreateTable, DropDatabase, DropTable, RenameTable, Statement

Tables = dict[tuple[str, str], Table]


def follow(tables: Tables, statement: Statement) -> None:
    match statement:
        case CreateTable(database=database, table=table, like=None):
            tables[database, table] = statement.definition
        case CreateTable(database=database, table=table, like=(_, _) as like):
            tables[database, table] = replace(tables[like], database=database, name=table)
        case AlterTable(database=database, table=table):
            tables[database, table] = alter(tables[database, table], statement).table
        case RenameTable(database, table, to_database, to_table):
            tables[to_database, to_table] = tables.pop((database, table))
        case DropTable(database=database, table=table):
            tables.pop((database, table), None)
        case DropDatabase(database=database):
            for name in [n for n in tables if n[0] == database]:
                del tables[name]
