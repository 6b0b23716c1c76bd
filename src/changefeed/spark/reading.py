"""Decodes records to rows, of all tables or of one table: the work of a task of the data source and of `decode`.

records ─▶ RecordReader ─▶ AllTables                                ─▶ Arrow batches
                    └────▶ definitions of the log's DDL ─▶ OneTable ─┘

Rows of all tables contain the values that the records carry, so they do not depend on where a task begins. Rows of one table
are converted to the definition that was in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from changefeed.errors import ConfigError, SchemaError
from changefeed.frames.chunks import Dated
from changefeed.frames.reshape import family
from changefeed.frames.types import widen
from changefeed.model.batch import Decoded
from changefeed.model.definition import Table
from changefeed.model.event import SchemaChange
from changefeed.model.types import ColumnType
from changefeed.protocols import protocol
from changefeed.spark.known import Known, identity, in_order
from changefeed.spark.options import ReadOptions
from changefeed.spark.shapes import AllTables, OneTable
from changefeed.spark.types import OWN, spark_schema, table_of
from changefeed.stages.changes import Redefinition
from changefeed.stages.decode import RecordReader
from changefeed.stages.transcode import Language

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Plan for decoding records to rows. Pickled and sent to the tasks.

    Attributes:
        language: the protocol and its options.
        shape: the columns of the rows: those of all tables, or of one.
        known: schema changes and columns that the scan of the log has found.
    """

    language: Language
    shape: AllTables | OneTable
    known: Known = field(default_factory=Known)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self.shape.schema

    @property
    def in_order(self) -> bool:
        """Whether the meaning of a record depends on earlier records of its partition, apart from schema changes."""
        can = protocol(self.language.name).capabilities
        return can.fragments or can.missing_commit_ts

    def start(self) -> Rows:
        """Creates the reader of a task; its first records must not depend on earlier ones."""
        return Rows(self)


def one_table(options: ReadOptions, known: Known, schema: StructType | None) -> OneTable:
    """Returns the columns for the changes of one table.

    Args:
        options: the options of the read.
        known: the result of the scan for the table.
        schema: the schema that the user has set; None for the columns found in the log.

    Raises:
        ConfigError: the table does not occur in the log, or the schema lacks a column that an option needs.
    """
    assert options.table is not None
    letters = options.dead_letters == "rows"
    if schema is None:
        return OneTable(_free(known.required(options.table)), options.before, options.irregular, letters)
    names = {name.lower() for name in schema.names}
    if letters and "_dead_letter" not in names:
        raise ConfigError("changefeed: dead-letters is `rows`, but the schema has no column `_dead_letter`: add it")
    table, irregular = table_of(options.table, schema), options.irregular
    if irregular == "keep" and "_irregular" not in names:
        raise ConfigError("changefeed: irregular is `keep`, but the schema has no column `_irregular`: add it")
    shape = OneTable(table, "_before" in names, irregular, letters, strict=False, wanted=tuple(schema.names))
    for own, user in zip(spark_schema(shape.schema), schema, strict=True):
        if (wanted := own.dataType.simpleString()) != user.dataType.simpleString():
            raise ConfigError(f"changefeed: column {user.name} of the schema must be {wanted}")
    return shape


def _free(table: Table) -> Table:
    taken = [c.name for c in table.columns if c.name.lower() in OWN]
    if taken:
        raise ConfigError(
            f"{table.database}.{table.name} has a column {taken[0]}, a name that is reserved for metadata. Pass the columns "
            "that you need as a schema"
        )
    return table


class Rows:
    """Decodes records to rows, batch by batch, in the process that calls it."""

    def __init__(self, reading: ReadPlan, dated: Dated | None = None) -> None:
        language = reading.language
        self._language = language
        self._read = RecordReader(language.name, language.options, dated or {})
        self._definitions = reading.known.definitions(language)
        self._seen = {identity(event) for event in reading.known.changes}
        self._shape = reading.shape
        if isinstance(self._shape, OneTable):
            self._shape = replace(self._shape, redefine=Redefinition(language.name, language.options).redefine())

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """Decodes records; converts rows of one table to its definitions."""
        decoded = self._read(records)
        if not isinstance(self._shape, OneTable):
            return decoded
        table = self._shape.table
        changes = [e for e in decoded.control if isinstance(e, SchemaChange) and identity(e) not in self._seen]
        for event in in_order(changes):
            before = self._definitions.newest(table.database, table.name)
            self._definitions.put(Decoded(control=[event]))
            self._seen.add(identity(event))
            _check_types(table, before, self._definitions.newest(table.database, table.name), event)
        wanted = (table.database, table.name)
        tables = [batch for batch in decoded.tables if (batch.shape.database, batch.shape.table) == wanted]
        return self._definitions.put(replace(decoded, tables=tables))

    def rows(self, decoded: Decoded) -> Iterator[pa.RecordBatch]:
        """Converts decoded records to rows of the result."""
        return self._shape.batches(decoded)

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of these records."""
        for records in batches:
            yield from self.rows(self.decode(records))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Ends the input: records of incomplete events become dead letters."""
        return self._shape.batches(Decoded(dead=self._read.unfinished()))

    def waiting(self) -> pa.RecordBatch:
        """The records of incomplete events."""
        return self._read.waiting()

    def dated(self) -> Dated:
        """See `RecordReader.dated`."""
        return self._read.dated()


def _check_types(table: Table, before: Table | None, after: Table | None, event: SchemaChange) -> None:
    """Refuses a schema change that gives a column's values another meaning and that other tasks do not have."""
    if after is None:
        return
    for column in after.columns:
        old = before.column(column.name) if before is not None else None
        pinned = table.column(column.name)
        if pinned is not None and (old is None or old.type != column.type) and not _holds(pinned.type, column.type):
            raise SchemaError(
                f"{table.database}.{table.name}.{column.name} becomes {column.type} at {event.place}, but the columns of this "
                "read are fixed. Start the read again: it then finds the schema changes in the first `schema-records` records "
                "of the log"
            )


def _holds(pinned: ColumnType, other: ColumnType) -> bool:
    """Whether values of type `other` have the same meaning in a column of type `pinned`."""
    return family(pinned) == family(other) and widen(pinned, other) == pinned
