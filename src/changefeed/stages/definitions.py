"""definitions: rows with the types of the DDL in the same log, where the rows contain less type information.

In the Open Protocol an ENUM is an index and a DECIMAL has no precision; in JSON without schema a date is a number. To
write another protocol, the members, precision and types are required:

    CREATE TABLE t (id INT PRIMARY KEY, status ENUM('new','paid'))      commit_ts 5
    t {id int, status enum}                    {"id":7,"status":2}      commit_ts 6
    t {id int, status enum('new','paid')}      {"id":7,"status":"paid"}

Rule 1. A row has the definition that was in force at its commit_ts; a row without commit_ts has the newest.
Rule 2. A table whose DDL was not seen or is not supported keeps the types of its rows. So does a column that the
        definition does not contain, or whose values are invalid for the defined type.
Rule 3. A value that the defined type cannot represent is irregular.
Rule 4. A truncate event without SQL (Debezium op `t`) gets `TRUNCATE TABLE …`: no other text is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.frames.convert import defined
from changefeed.frames.reshape import Reshaped
from changefeed.model.batch import Decoded, TableBatch, table_schema
from changefeed.model.definition import Table
from changefeed.model.event import Control, SchemaChange
from changefeed.model.table import Column, TableShape
from changefeed.mysql import ddl
from changefeed.mysql.ddl.definitions import definitions_after
from changefeed.protocols.base import Options, Protocol
from changefeed.stages.image import BEFORE

_NEWEST = 2**64 - 1


def definitions(source: Protocol, options: Options, target: str) -> Callable[[Decoded], Decoded]:
    """Returns the function that converts decoded records before they are encoded in the protocol `target`.

    It must be called in the order of the log. If both protocols are the same, it changes nothing.
    """
    return DefinitionHistory(source, options).put if source.name != target else _unchanged


def _unchanged(decoded: Decoded) -> Decoded:
    return decoded


class DefinitionHistory:
    """The definitions of a log's schema changes; converts its rows to them. Call `put` in the order of the log."""

    def __init__(self, source: Protocol, options: Options) -> None:
        self._restored = source.capabilities.restored_ddl
        self._redefine = None if source.redefine is None else source.redefine(options)
        # (database, table) -> [(commit_ts, definition from there on or None if unknown)], ascending
        self._known: dict[tuple[str, str], list[tuple[int, Table | None]]] = {}
        self._seen: set[tuple[int, str | None, str | None]] = set()

    def put(self, decoded: Decoded) -> Decoded:
        """Returns the decoded records with the rows converted to the definitions of their tables."""
        changes = [event for event in decoded.control if isinstance(event, SchemaChange)]
        for event in sorted(changes, key=lambda e: (e.place.record or 0, e.place.index or 0)):
            self._register(event)
        tables = [part for table in decoded.tables for part in self._parts(table)]
        return replace(decoded, tables=tables, control=[_with_statement(event) for event in decoded.control])

    def _register(self, event: SchemaChange) -> None:
        ts = event.commit_ts if event.commit_ts is not None else event.sequence or 0
        if (ts, event.database, event.ddl) in self._seen:
            return  # every partition contains it
        self._seen.add((ts, event.database, event.ddl))
        try:
            statements = ddl.statements_of(event, restored=self._restored)
        except (SchemaError, UnsupportedError):
            self._define(event.database or "", event.table or "", None, ts)
            return
        for statement in statements:
            for (database, table), definition in definitions_after(statement, self.newest, self._tables_of):
                self._define(database, table, definition, ts)

    def _spelled(self, name: str) -> str:
        return name.lower() if self._restored else name

    def _tables_of(self, database: str) -> list[tuple[str, str]]:
        return [name for name in self._known if name[0] == self._spelled(database)]

    def _versions(self, database: str, table: str) -> list[tuple[int, Table | None]]:
        return self._known.setdefault((self._spelled(database), self._spelled(table)), [])

    def newest(self, database: str, table: str) -> Table | None:
        """The table as the last schema change has left it; None where it is not known, or was dropped."""
        versions = self._versions(database, table)
        return versions[-1][1] if versions else None

    def _define(self, database: str, table: str, made: Table | None, ts: int) -> None:
        versions = self._versions(database, table)
        if versions and versions[-1][0] == ts:
            versions.pop()
        if not versions or versions[-1][0] < ts:
            versions.append((ts, made))

    def _parts(self, batch: TableBatch) -> Iterator[TableBatch]:
        """Splits the batch by definition, and converts each part."""
        versions = self._versions(batch.shape.database, batch.shape.table)
        if not versions:
            yield batch
            return
        ts = pc.fill_null(pc.coalesce(batch.rows.column("commit_ts"), batch.rows.column("sequence")), _NEWEST)
        starts = np.array([start for start, _ in versions], np.uint64)
        counts = np.searchsorted(starts, ts.to_numpy())  # a row of a schema change's own commit_ts lies before it
        for count in np.unique(counts).tolist():
            rows = batch.rows if (counts == count).all() else batch.rows.filter(pa.array(counts == count))
            table = versions[count - 1][1] if count else None
            part = TableBatch(batch.shape, rows)
            yield part if table is None else self._redefined(table, part)

    def _redefined(self, table: Table, batch: TableBatch) -> TableBatch:
        """Converts the rows to a definition: rules 2 and 3."""
        rows, columns = batch.rows, list(batch.shape.columns)
        images = {side: dict(_fields(rows.column(side))) for side in ("before", "after")}
        irregular: dict[int, dict[str, str]] = {}
        for number, column in enumerate(columns):
            declared = table.column(column.name)
            if declared is None or declared.type == column.type:
                continue
            converted = self._columns(images, column, declared)
            if converted is None:
                continue
            columns[number] = replace(column, type=declared.type)
            for side, (array, texts) in converted.items():
                images[side][column.name] = array
                for row, text in texts.items():
                    prefix = BEFORE if side == "before" and rows.column("after")[row].is_valid else ""
                    irregular.setdefault(row, {})[prefix + column.name] = text
        if columns == list(batch.shape.columns):
            return batch
        shape = replace(batch.shape, columns=tuple(columns), wire="")
        return TableBatch(shape, _assembled(rows, shape, images, irregular))

    def _columns(
        self, images: dict[str, dict[str, pa.Array]], column: Column, declared: Column
    ) -> dict[str, Reshaped] | None:
        """Image name -> the converted column, for each image that has it; None if a value is invalid for the declared type."""
        try:
            return {
                side: defined(arrays[column.name], column.type, declared.type, self._redefine, declared.charset)
                for side, arrays in images.items()
                if column.name in arrays
            }
        except SchemaError:
            return None


def _with_statement(event: Control) -> Control:
    if not isinstance(event, SchemaChange) or event.type != "truncate_table" or event.ddl:
        return event
    name = ".".join("`" + (part or "").replace("`", "``") + "`" for part in (event.database, event.table))
    return replace(event, ddl=f"TRUNCATE TABLE {name}")


def _fields(image: pa.StructArray) -> Iterator[tuple[str, pa.Array]]:
    return zip((field.name for field in image.type), image.flatten(), strict=True)


def _assembled(
    rows: pa.RecordBatch,
    shape: TableShape,
    images: dict[str, dict[str, pa.Array]],
    irregular: dict[int, dict[str, str]],
) -> pa.RecordBatch:
    """Returns the rows with these images instead of their own, and with the new irregular texts added."""
    schema = table_schema(shape, rows.schema.field("commit_time").type.unit)
    replaced: dict[str, Any] = {}
    for side, arrays in images.items():
        kind = schema.field(side).type
        mask = pc.is_null(rows.column(side))
        replaced[side] = pa.StructArray.from_arrays([arrays[f.name] for f in kind], fields=list(kind), mask=mask)
    if irregular:
        column = schema.field("irregular").type
        before = [dict(texts or ()) for texts in rows.column("irregular").to_pylist()]
        more = [{n: text.encode() for n, text in irregular.get(row, {}).items()} for row in range(len(rows))]
        replaced["irregular"] = pa.array([list((a | b).items()) for a, b in zip(before, more, strict=True)], column)
    columns = [replaced.get(field.name, rows.column(field.name)) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
