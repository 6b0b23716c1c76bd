"""The definitions of tables at a position of the log, for servers whose table maps do not name the columns.

    SHOW CREATE TABLE ─▶ Table ─ statements of the log ─▶ Table ─┬─ `named` ─▶ table map with names, signs, members, …
                                                                 └─ `text`  ─▶ source offset

`binlog_row_metadata=FULL` makes a history needless, and nothing can be missing from a log that has it. Without, as by default, a
table map has the kinds and sizes of its columns (`NO_LOG`), or the signs and character sets of some, too (`MINIMAL`).

Rule 1. The first definitions are those of the position at which the copy begins. From there on the statements of the log change
        them, of tables that are not captured, too: a table may be renamed to a captured one.
Rule 2. A table map counts: see `naming.py`. What does not fit is not named, and the reader of its rows stops.
Rule 3. A statement that cannot be read or applied ends the definitions of the tables that it mentions.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from zlib import compress, decompress

import msgspec

from changefeed.errors import UnsupportedError
from changefeed.model.definition import Table
from changefeed.mysql.binlog import collations
from changefeed.mysql.binlog.events import Query
from changefeed.mysql.binlog.table_map import TableMap
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.modes import without_modes
from changefeed.mysql.ddl.statements import DropDatabase
from changefeed.mysql.ddl.tables import database_charset
from changefeed.sources.mysql.definitions import Definitions
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.statements import done_by_failed
from changefeed.sources.mysql.tables import (
    BrokenTableError,
    CopiedTable,
    database_charsets,
    list_tables,
    sequences,
    show_create,
)
from changefeed.ticdc.dispatch.matcher import TableFilter


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """The definitions at a position of the log.

    Attributes:
        tables: `database.table` -> its definition.
        charsets: database -> its default character set.
        sequences: the names of MariaDB's sequences, which have row events like tables.
        lower_case: the server has all names in lower case, see `Definitions`.
        written: its text, if that is known.
    """

    tables: Mapping[str, Table] = field(default_factory=dict)
    charsets: Mapping[str, str] = field(default_factory=dict)
    sequences: frozenset[str] = frozenset()
    lower_case: bool = False
    written: str | None = field(default=None, compare=False, repr=False)

    def with_tables(self, creations: Iterable[tuple[str, str]]) -> SchemaHistory:
        """Returns the history with the tables of some statements CREATE TABLE, as the server shows them.

        Args:
            creations: for each table, its database and the statement.
        """
        definitions = self._definitions()
        for database, create in creations:
            definitions.apply(create, database)
        return replace(self, tables=definitions.tables, written=None)

    def after(self, query: Query) -> SchemaHistory:
        """Returns the history after a statement of the log; the same one if the statement changes no definition."""
        database, definitions = query.database or None, self._definitions(_server_charset(query))
        statement = without_modes(query.text, query.status.sql_mode)
        text = statement if not query.error else done_by_failed(statement, database)
        if text is None:
            definitions.forget(statement, database)
        else:
            definitions.apply(text, database)
        sequences = frozenset(definitions.sequences)
        after = SchemaHistory(definitions.tables, definitions.charsets, sequences, self.lower_case)
        return self if after == self else after

    def before(self, query: Query) -> SchemaHistory:
        """Returns what this history has of the tables before a statement: nothing of those that the statement mentions."""
        database, definitions = query.database or None, self._definitions()
        definitions.forget(query.text, database)
        dropped = definitions.cased(_dropped_database(query.text) or "")
        tables = {name: table for name, table in definitions.tables.items() if table.database != dropped}
        altered = database_charset(query.text, database)
        recoded = "" if altered is None else definitions.cased(altered[0])
        charsets = {name: charset for name, charset in self.charsets.items() if name != recoded}
        same = len(tables) == len(self.tables) and len(charsets) == len(self.charsets)
        return self if same else replace(self, tables=tables, charsets=charsets, written=None)

    def named(self, table: TableMap) -> TableMap:
        """Returns a table map with all that the definition of its table adds; the same one if nothing is missing or fits."""
        return self._definitions().named(table)

    def _definitions(self, server_charset: str | None = None) -> Definitions:
        return Definitions(self.tables, self.charsets, server_charset, self.sequences, lower_case=self.lower_case)

    def text(self) -> str:
        """The history for a source offset: compressed JSON, in base64."""
        if self.written is not None:
            return self.written
        document = {
            "tables": list(self.tables.values()),
            "charsets": self.charsets,
            "sequences": sorted(self.sequences),
            "lower_case": self.lower_case,
        }
        return b64encode(compress(msgspec.json.encode(document))).decode()


def begin_history(server: Server, tables: Sequence[CopiedTable]) -> SchemaHistory:
    """Returns the history at the position where a copy of these tables begins.

    It has the other tables of their databases, too: they may be renamed, or be the model of others. Those that the server cannot
    open are unknown.
    """
    databases, copied = {table.name[0] for table in tables}, {table.name for table in tables}
    others = [
        (database, create)
        for database, name in list_tables(server, TableFilter(["*.*"]))
        if database in databases and (database, name) not in copied
        if (create := _shown(server, database, name)) is not None
    ]
    history = SchemaHistory(
        charsets=database_charsets(server), sequences=frozenset(sequences(server)),
        lower_case=server.lower_case_table_names > 0,
    )  # fmt: skip
    return with_copied(history.with_tables(others), tables)


def _shown(server: Server, database: str, name: str) -> str | None:
    try:
        return show_create(server, database, name)
    except BrokenTableError:
        return None


def with_copied(history: SchemaHistory, tables: Sequence[CopiedTable]) -> SchemaHistory:
    """Returns a history with the tables of a copy, as they are where it begins."""
    return history.with_tables([(table.name[0], table.create) for table in tables])


def _dropped_database(statement: str) -> str | None:
    """Returns the database that a statement drops, or replaces; None for another statement."""
    try:
        statements = parse(statement, None)
    except UnsupportedError:
        return None
    return next((each.database for each in statements if isinstance(each, DropDatabase)), None)


class _Document(msgspec.Struct):
    tables: list[Table]
    charsets: dict[str, str]
    sequences: list[str]
    lower_case: bool = False


@lru_cache(maxsize=2)
def read_history(text: str) -> SchemaHistory:
    """Reads the text of a history; each batch asks for the same one."""
    document = msgspec.json.decode(decompress(b64decode(text)), type=_Document)
    tables = {table.full_name: table for table in document.tables}
    return SchemaHistory(tables, document.charsets, frozenset(document.sequences), document.lower_case, text)


def _server_charset(query: Query) -> str | None:
    """The character set of new databases."""
    return None if query.status.server is None else collations.charset(query.status.server)
