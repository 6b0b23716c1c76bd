"""The tables' definitions while the log is read as a stream: what a table map does not have, and events do.

    SHOW CREATE TABLE ─▶ Table ─ statements of the log ─▶ Table ─┬─ shape of rows ─▶ defaults, key by a unique index, its order
                                                                 └─ `Effect` ─▶ schema changes with the whole table

Rule 1. Types and names of rows are those of the table map, but for the digits of FLOAT(m,d), which it does not have. A definition
        whose columns are not those of a shape adds nothing to it: it is of another time.
Rule 2. The key is the primary key, else the first unique index whose columns are all NOT NULL, in the order of the index.
Rule 3. A statement that cannot be read or applied ends the definitions of the tables that it mentions: nothing is guessed.
Rule 4. Texts have the character set of their column, else of their table, else that of the database when the table was made.
Rule 5. A server with `lower_case_table_names` has names of tables and databases in lower case, however a statement spells them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any

from changefeed.errors import UnsupportedError
from changefeed.model.definition import PRIMARY, Table
from changefeed.model.names import full_name
from changefeed.model.table import Column, TableShape, canonical
from changefeed.model.types import ColumnType
from changefeed.mysql import charsets
from changefeed.mysql.binlog import collations
from changefeed.mysql.binlog.table_map import TableMap
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl import statements as sql
from changefeed.mysql.ddl.create import in_charset, virtual_column
from changefeed.mysql.ddl.definitions import definitions_after
from changefeed.mysql.ddl.mentions import mentioned
from changefeed.mysql.ddl.tables import database_charset
from changefeed.sources.mysql import statement_text
from changefeed.sources.mysql.naming import is_named, named, named_sequence
from changefeed.sources.mysql.tables import quoted
from changefeed.sources.mysql.unlogged import sequence_of

_NAMES = ("database", "table", "to_database", "to_table")  # in statements
_UNKNOWN_CHARSETS = re.compile(
    rf"\b({'|'.join(sorted(set(collations.CHARSETS) - set(charsets.NAMES)))})(_\w+)?\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a statement on one table or database.

    Attributes:
        kind: `CREATE`, `ALTER`, `DROP` or `TRUNCATE`; empty for a database.
        table: None for a database.
        text: the statement; of one that drops or renames several tables, that of this table.
        tables: the tables of this database that the statement concerns, joined, where they are not `table` alone.
        is_passed_over: it changes an index that is not the key: Debezium's connector sees no change of the table.
    """

    kind: str
    database: str
    table: str | None
    text: str
    tables: str | None = None
    is_passed_over: bool = False


class Definitions:
    """The definitions at a position of the log.

    Attributes:
        tables: `database.table` -> its definition.
        charsets: database -> its default character set.
        sequences: the names of MariaDB's sequences, which have row events like tables.
        lower_case: the server has all names in lower case: Rule 5.
    """

    def __init__(
        self,
        tables: Mapping[str, Table] | None = None,
        charsets: Mapping[str, str] | None = None,
        server_charset: str | None = None,
        sequences: Iterable[str] = (),
        *,
        lower_case: bool = False,
    ) -> None:
        """Begins with definitions; `server_charset`: that of new databases, None if it is not known."""
        self.tables = dict(tables or {})
        self.charsets = dict(charsets or {})
        self.sequences = set(sequences)
        self.lower_case = lower_case
        self._server_charset = server_charset

    def apply(self, text: str, database: str | None) -> list[Effect]:
        """Applies a statement of the log, or the CREATE TABLE that a server shows; returns its effects, in order."""
        if (sequence := sequence_of(text, database)) is not None:
            self.sequences.add(self.cased(sequence))
            return []
        if (altered := database_charset(text, database)) is not None:
            self.charsets[self.cased(altered[0])] = altered[1]
            return [Effect("", self.cased(altered[0]), None, statement_text.whole(text), tables="")]
        try:
            statements = [self._in_case(statement) for statement in parse(text, database)]
        except UnsupportedError:
            self.forget(text, database)
            return []
        if all(isinstance(statement, sql.Passed) for statement in statements):
            altered_table = statement_text.altered_table(text, database)
            if altered_table is None:
                return []
            owner, table = map(self.cased, altered_table)
            return [Effect("ALTER", owner, table, statement_text.whole(text))]
        texts = _texts(statements, text)
        effects = [effect for each, its in zip(statements, texts, strict=True) for effect in self._statement(each, its)]
        if [type(statement) for statement in statements[:2]] == [sql.AlterTable, sql.RenameTable]:
            del effects[0]  # ALTER TABLE a …, RENAME b changes b
        return _with_tables(effects)

    def cased(self, name: str) -> str:
        """Returns a name as the server has it: Rule 5."""
        return name.lower() if self.lower_case else name

    def forget(self, text: str, database: str | None) -> None:
        """Ends the definitions of the tables that a statement mentions: Rule 3."""
        for name in mentioned(text, [(table.database, table.name) for table in self.tables.values()], database):
            self.tables.pop(full_name(*name), None)

    def named(self, table: TableMap) -> TableMap:
        """Returns a table map with what its definition adds; the same one if nothing is missing, or nothing fits."""
        if is_named(table):
            return table
        name = self.cased(full_name(table.database, table.table))
        definition = self.tables.get(name)
        if definition is not None:
            return named(table, definition) or table
        return named_sequence(table) if name in self.sequences else table

    def completed(self, shape: TableShape) -> TableShape:
        """Returns a shape with the details of its table's definition."""
        table = self._table(shape.database, shape.table)
        if table is None:
            return shape
        table = table.carrying(shape.by_name)
        if [column.name for column in table.columns] != list(shape.by_name):
            return shape
        keys = key_of(table)
        columns = tuple(
            replace(own, type=_precise(own.type, column.type), default=column.default, key=column.name in keys)
            for own, column in zip(shape.columns, table.columns, strict=True)
        )
        return replace(shape, columns=columns, key_order=keys, wire=_wire(table, shape))

    def columns(self, database: str, name: str) -> tuple[Column, ...] | None:
        """Returns all columns of a table; None if it is not known."""
        table = self._table(database, name)
        return None if table is None else table.carrying([column.name for column in table.virtual]).columns

    def described(self, database: str, name: str) -> dict[str, Any]:
        """Returns what a schema change carries of a table, beside its columns; empty if it is not known."""
        table = self._table(database, name)
        if table is None:
            return {}
        return {
            "keys": list(key_of(table)),
            "charset": table.charset or self.charsets.get(database),
            "comment": table.comment,
        }

    def _statement(self, statement: sql.Statement, text: str) -> list[Effect]:
        match statement:
            case sql.CreateDatabase(database=database):
                charset = statement.charset or self._server_charset
                if charset is not None and not (statement.if_not_exists and database in self.charsets):
                    self.charsets[database] = charset
                return [Effect("", database, None, text)]
            case sql.DropDatabase(database=database):
                self._define(statement, text)
                return [Effect("", database, None, text)]
            case sql.CreateTable(database=database, table=name):
                kind = "CREATE"
            case sql.DropTable(database=database, table=name):
                kind = "DROP"
            case sql.RenameTable(to_database=database, to_table=name):
                kind = "ALTER"
            case sql.AlterTable(database=database, table=name):
                kind = "ALTER"
            case sql.TruncateTable(database=database, table=name):
                kind = "TRUNCATE"
            case _:
                return []
        before = self._table(database, name)
        self._define(statement, text)
        if isinstance(statement, sql.AlterTable) and statement_text.is_of_index(text):
            may_make_key = any(isinstance(change, sql.AddKey) for change in statement.changes)
            if not may_make_key or (before is not None and key_of(before)):
                return [Effect(kind, database, name, statement_text.without_line_comments(text), is_passed_over=True)]
        return [Effect(kind, database, name, text)]

    def _define(self, statement: sql.Statement, text: str) -> None:
        for (database, name), table in definitions_after(statement, self._table, self._tables_of):
            self.tables.pop(full_name(database, name), None)
            if table is not None:
                declares = isinstance(statement, sql.CreateTable | sql.AlterTable)
                self.tables[full_name(database, name)] = self._in_charset(table, text) if declares else table

    def _table(self, database: str, name: str) -> Table | None:
        return self.tables.get(self.cased(full_name(database, name)))

    def _in_case(self, statement: sql.Statement) -> sql.Statement:
        """A statement with the names that the server has: Rule 5."""
        if not self.lower_case:
            return statement
        names = {f.name: getattr(statement, f.name) for f in fields(statement) if f.name in _NAMES}
        lowered = {field: name.lower() for field, name in names.items() if name is not None}
        if isinstance(statement, sql.CreateTable) and statement.like is not None:
            database, table = statement.like
            return replace(statement, like=(database.lower(), table.lower()), **lowered)
        return replace(statement, **lowered)

    def _tables_of(self, database: str) -> list[tuple[str, str]]:
        return [(table.database, table.name) for table in self.tables.values() if table.database == database]

    def _in_charset(self, table: Table, text: str) -> Table:
        """A table that declares no character set, with that of its database: Rule 4."""
        charset = self.charsets.get(table.database)
        if table.charset is not None or charset is None:
            return table
        if _UNKNOWN_CHARSETS.search(text):  # such a column looks like one that declares none
            return replace(table, charset=charset)
        columns = tuple(c if c.charset is not None else in_charset(c, None, charset) for c in table.columns)
        virtual = tuple(
            v if v.charset is not None else virtual_column(v.place, in_charset(v.column, None, charset))
            for v in table.virtual
        )
        return replace(table, columns=columns, virtual=virtual, charset=charset)


def _texts(statements: list[sql.Statement], text: str) -> list[str]:
    """The text of each of the statements that a text has."""
    if statement_text.is_rename(text):
        return statement_text.renamed(text)
    is_drop = all(isinstance(statement, sql.DropTable) for statement in statements)
    texts = list[str]()
    for statement in statements:
        if isinstance(statement, sql.DropTable):
            database, table = statement.database, statement.table
            plain = f"DROP TABLE {quoted(database)}.{quoted(table)}"  # of CREATE OR REPLACE
            texts.append(statement_text.dropped(text, database, table) if is_drop else plain)
        elif isinstance(statement, sql.AlterTable) and statement_text.is_of_index(text):
            texts.append(text)
        else:
            texts.append(statement_text.whole(text))
    return texts


def _with_tables(effects: list[Effect]) -> list[Effect]:
    """The effects; those next to each other on tables of one database name all these tables."""
    result = list[Effect]()
    for (database, is_table), its in groupby(effects, key=lambda effect: (effect.database, effect.table is not None)):
        group = list(its)
        names = dict.fromkeys(effect.table for effect in group if effect.table is not None)
        tables = statement_text.in_hash_order(database, names) if is_table and len(names) > 1 else None
        result += [replace(effect, tables=tables) for effect in group]
    return result


def key_of(table: Table) -> tuple[str, ...]:
    """Returns the columns of a table's key, in the key's order: Rule 2; empty if it has none."""
    required = {column.name for column in table.columns if column.nullable is False}
    primary = [key.columns for key in table.uniques if key.name == PRIMARY]
    return next(iter(primary or [key.columns for key in table.uniques if required.issuperset(key.columns)]), ())


def _wire(table: Table, shape: TableShape) -> str:
    """The details of a shape's columns that no type has, as JSON: comments, and UUID and JSON of MariaDB; empty without any."""
    declared = {column.name: column.declared for column in table.columns if column.declared is not None}
    comments = {name: details.comment for name, details in declared.items() if details.comment is not None}
    written = {name: details.type.lower() for name, details in declared.items()}
    types = {
        name: kind
        for name, kind in written.items()
        if kind == "uuid" or (kind == "json" and shape.by_name[name].type.name != "json")
    }
    details = {"comments": comments, "types": types}
    return canonical({name: content for name, content in details.items() if content}) if comments or types else ""


def _precise(mapped: ColumnType, declared: ColumnType) -> ColumnType:
    """A type of a table map, with the digits that its declaration has: Rule 1."""
    fits = mapped.name == declared.name and mapped.name in ("float", "double")
    return replace(mapped, length=declared.length, scale=declared.scale) if fits else mapped
