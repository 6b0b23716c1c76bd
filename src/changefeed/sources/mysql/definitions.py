"""The tables' definitions while the log is read as a stream: what a table map does not have, and events do.

    SHOW CREATE TABLE ─▶ Table ─ statements of the log ─▶ Table ─ shape of rows ─▶ defaults, key by a unique index, its order

Rule 1. Types and names are those of the table map. A definition whose columns are not those of a shape adds nothing to it: it is
        of another time.
Rule 2. The key is the primary key, else the first unique index whose columns are all NOT NULL, in the order of the index.
Rule 3. A statement that cannot be applied drops the definition of its table: details are not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from changefeed.errors import ChangefeedError, UnsupportedError
from changefeed.model.definition import PRIMARY, Table
from changefeed.model.names import full_name
from changefeed.model.table import TableShape
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl import statements as sql
from changefeed.mysql.ddl.apply import alter


class Definitions:
    """The definitions at a position of the log.

    Attributes:
        tables: `database.table` -> its definition.
    """

    def __init__(self, tables: Mapping[str, Table] | None = None) -> None:
        self.tables = dict(tables or {})

    def apply(self, text: str, database: str | None) -> None:
        """Applies a statement of the log, or the CREATE TABLE that a server shows."""
        try:
            statements = parse(text, database)
        except UnsupportedError:
            return  # shapes do not fit the definitions then: Rule 1
        for statement in statements:
            self._statement(statement)

    def completed(self, shape: TableShape) -> TableShape:
        """Returns a shape with the details of its table's definition."""
        table = self.tables.get(full_name(shape.database, shape.table))
        if table is None:
            return shape
        table = table.carrying(shape.by_name)
        if [column.name for column in table.columns] != list(shape.by_name):
            return shape
        keys = key_of(table)
        columns = tuple(
            replace(own, default=column.default, key=column.name in keys)
            for own, column in zip(shape.columns, table.columns, strict=True)
        )
        return replace(shape, columns=columns, key_order=keys)

    def _statement(self, statement: sql.Statement) -> None:
        match statement:
            case sql.CreateTable(database=database, table=name):
                self._create(statement, database, name)
            case sql.DropTable(database=database, table=name):
                self.tables.pop(full_name(database, name), None)
            case sql.DropDatabase(database=database):
                self.tables = {name: table for name, table in self.tables.items() if table.database != database}
            case sql.RenameTable():
                table = self.tables.pop(full_name(statement.database, statement.table), None)
                if table is not None:
                    renamed = replace(table, database=statement.to_database, name=statement.to_table)
                    self.tables[renamed.full_name] = renamed
            case sql.AlterTable(database=database, table=name):
                self._alter(statement, full_name(database, name))

    def _create(self, statement: sql.CreateTable, database: str, name: str) -> None:
        if statement.if_not_exists and full_name(database, name) in self.tables:
            return
        if statement.like is None:
            table = Table(
                database, name, statement.columns, statement.keys, statement.uniques, statement.virtual, statement.indexes,
                statement.charset,
            )  # fmt: skip
        else:
            template = self.tables.get(full_name(*statement.like))
            if template is None:
                return
            table = replace(template, database=database, name=name)
        self.tables[table.full_name] = table

    def _alter(self, statement: sql.AlterTable, name: str) -> None:
        table = self.tables.pop(name, None)
        if table is None:
            return
        try:
            self.tables[name] = alter(table, statement).table
        except ChangefeedError:  # Rule 3
            return


def key_of(table: Table) -> tuple[str, ...]:
    """Returns the columns of a table's key, in the key's order: Rule 2; empty if it has none."""
    required = {column.name for column in table.columns if column.nullable is False}
    primary = [key.columns for key in table.uniques if key.name == PRIMARY]
    return next(iter(primary or [key.columns for key in table.uniques if required.issuperset(key.columns)]), ())
