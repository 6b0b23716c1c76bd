"""Finds the schema changes and the columns of a table before its rows are read.

A DataFrame has one schema, but the schema of a table changes in the course of a log. So the log is scanned once, when the
DataFrame is created:

Rule 1. The columns are those of the table's last definition, in its order; then columns of earlier definitions, then columns
        that only rows have.
Rule 2. A column's type is the smallest type that holds all types of its definitions; without a definition, all types of its
        rows.
Rule 3. Every task gets all schema changes of the scan. So a row is read with the definition that was in force at its
        commit_ts, wherever the task begins.
Rule 4. A schema change that was not in the scan and changes a column's type ends the read, with its position: other tasks
        may have read later rows already. A new read includes it in its scan. A row with a column that the schema lacks also
        ends the read, unless the user has set the schema: then other columns are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from changefeed.errors import ConfigError, unknown_name
from changefeed.frames.types import widen
from changefeed.model.batch import Decoded
from changefeed.model.definition import Table
from changefeed.model.event import SchemaChange
from changefeed.model.names import full_name, names_of
from changefeed.model.table import Column
from changefeed.protocols import protocol
from changefeed.stages.decode import RecordReader
from changefeed.stages.definitions import DefinitionHistory
from changefeed.stages.transcode import Language

_Identity = tuple[int | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Known:
    """The schema changes and tables that a scan of records has shown.

    Attributes:
        changes: the schema changes of all tables, in order: a table may be renamed.
        tables: the tables that have rows or a definition.
        table: the table that was searched for; None if it does not occur.
    """

    changes: tuple[SchemaChange, ...] = ()
    tables: frozenset[str] = frozenset()
    table: Table | None = None

    def required(self, name: str) -> Table:
        """Returns the table that was searched for.

        Raises:
            ConfigError: the table does not occur in the records.
        """
        if self.table is not None:
            return self.table
        if not self.tables:
            raise ConfigError(
                f"{name}: the scanned records contain no table. Set the columns with a schema, or wait until there are rows"
            )
        raise unknown_name("table", name, self.tables)

    def definitions(self, language: Language) -> DefinitionHistory:
        """Returns the history of definitions that results from the schema changes."""
        return _last(_learned(language, self.changes))


def split_name(table: str) -> tuple[str, str]:
    """Splits `database.table` into database and name.

    Raises:
        ConfigError: the text does not have this form.
    """
    database, name = names_of(table)
    if not (database and name):
        raise ConfigError(f"changefeed: option table: expected `database.table`, not {table!r}")
    return database, name


@dataclass(slots=True)
class Look:
    """Scans records for one table. The scans of several parts of a log are combined by `join`.

    Attributes:
        name: the name of the table.
        changes: the schema changes that were read.
        tables: the names of all tables that occur.
        columns: the columns in rows of the table, by lower-case name.
    """

    name: str
    changes: dict[_Identity, SchemaChange] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)
    columns: dict[str, Column] = field(default_factory=dict)

    def read(self, batches: Iterable[pa.RecordBatch], language: Language) -> Look:
        """Decodes and scans batches of records; returns itself."""
        read = RecordReader(language.name, language.options)
        for batch in batches:
            self.add(read(batch))
        return self

    def add(self, decoded: Decoded) -> None:
        """Scans decoded records."""
        for event in decoded.control:
            if isinstance(event, SchemaChange):
                self.changes.setdefault(identity(event), event)
                if event.table:
                    self.tables.add(full_name(event.database, event.table))
        for batch in decoded.tables:
            self.tables.add(batch.name)
            if (batch.shape.database, batch.shape.table) == names_of(self.name):
                for column in batch.shape.columns:
                    _meet(self.columns, column)

    def join(self, other: Look) -> None:
        """Adds the result of another scan."""
        self.changes = other.changes | self.changes
        self.tables |= other.tables
        for column in other.columns.values():
            _meet(self.columns, column)

    def known(self, language: Language) -> Known:
        """Returns the result of the scan."""
        database, name = split_name(self.name)
        changes = tuple(in_order(self.changes.values()))
        defined, last = dict[str, Column](), None
        for definitions in _learned(language, changes):
            last = definitions.newest(database, name) or last
            for column in last.columns if last is not None else ():
                _meet(defined, column)
        order = [c.name.lower() for c in last.columns] if last is not None else []
        columns = [(self.columns | defined)[c] for c in dict.fromkeys([*order, *defined, *self.columns])]
        keys = last.keys if last is not None else tuple(c.name for c in columns if c.key)
        columns = [replace(c, key=c.name in keys) for c in columns]
        table = Table(database, name, tuple(columns), keys) if columns else None
        return Known(changes, frozenset(self.tables), table)


def identity(event: SchemaChange) -> _Identity:
    """Returns a key that is equal for copies of one schema change, which may be sent to every partition."""
    return event.commit_ts, event.database, event.ddl


def in_order(changes: Iterable[SchemaChange]) -> list[SchemaChange]:
    """Sorts schema changes of any batches and partitions in the order in which they happened."""
    return sorted(
        changes, key=lambda e: (e.commit_ts or 0, e.place.topic, e.place.partition, e.place.offset, e.place.index or 0)
    )


def _learned(language: Language, changes: Iterable[SchemaChange]) -> Iterator[DefinitionHistory]:
    """Yields the definitions before the first of the changes, and after each of them."""
    protocol_of_log = protocol(language.name)
    definitions = DefinitionHistory(protocol_of_log, protocol_of_log.read_options(language.options))
    yield definitions
    for event in changes:
        definitions.put(Decoded(control=[event]))
        yield definitions


def _last(many: Iterator[DefinitionHistory]) -> DefinitionHistory:
    *_, last = many
    return last


def _meet(columns: dict[str, Column], column: Column) -> None:
    before = columns.get(column.name.lower())
    kind = column.type if before is None else widen(before.type, column.type)
    key = column.key if before is None or column.key else before.key
    columns[column.name.lower()] = Column(column.name, kind, key=key)
