"""Columns that the section excludes: `exclude-columns`.

    log    ─▶ decoder ─▶ table batch ─▶ `without` ─▶ chunks, events
    server ─▶ SELECT of the other columns ────────▶ chunks, events

Rule 1. Statements have all columns. A pipeline into tables knows the patterns, too (`pipeline/planning/excluded_columns.py`); the
        schema changes of an event pipeline show the tables as the server has them, as Debezium's do.
Rule 2. A column that identifies rows cannot be excluded.
Rule 3. If the patterns change between two runs, the tables of which they exclude other columns are copied again. The log before
        that copy is read with the earlier patterns (`planning.py`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from changefeed.errors import ConfigError, UnsupportedError
from changefeed.model.batch import IRREGULAR, TableBatch
from changefeed.model.names import full_name
from changefeed.model.table import Column, TableShape, canonical
from changefeed.mysql.binlog.table_map import TableMap
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.tables import Name, all_keys, is_captured
from changefeed.ticdc.dispatch.matcher import ColumnFilter, TableFilter

_COLUMNS = "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS"


class ExcludedColumns:
    """Removes the columns that some patterns exclude from the rows of tables."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._filter = ColumnFilter(patterns)
        self._shapes: dict[TableShape, TableShape] = {}

    def among(self, database: str, table: str, columns: Iterable[str]) -> frozenset[str]:
        """Returns those of a table's columns that are excluded."""
        return frozenset(column for column in columns if self._filter.matches(database, table, column))

    def shape(self, shape: TableShape) -> TableShape:
        """Returns a shape without them; the same one if it has none.

        Raises:
            UnsupportedError: Rule 2.
        """
        known = self._shapes.get(shape)
        if known is None:
            names = self.among(shape.database, shape.table, shape.by_name)
            known = self._shapes[shape] = _shape_without(shape, names) if names else shape
        return known

    def batch(self, batch: TableBatch) -> TableBatch:
        """Returns rows without them; the same ones if they have none.

        Raises:
            UnsupportedError: Rule 2.
        """
        shape = self.shape(batch.shape)
        return batch if shape is batch.shape else _batch_without(batch, shape)

    def table(self, table: TableMap) -> TableMap:
        """Returns a table without them, as a SELECT reads it; the same one if it has none."""
        names = self.among(table.database, table.table, (column.name or "" for column in table.columns))
        if not names:
            return table
        kept = [index for index, column in enumerate(table.columns) if column.name not in names]
        primary = None
        if table.primary_key is not None:
            primary = tuple((kept.index(index), prefix) for index, prefix in table.primary_key if index in kept)
        return replace(table, columns=tuple(table.columns[index] for index in kept), primary_key=primary)


def _shape_without(shape: TableShape, names: Collection[str]) -> TableShape:
    if keys := [name for name in shape.keys if name in names]:
        raise UnsupportedError(_refusal(shape.database, shape.table, keys))
    before, after = (
        None if image is None else tuple(name for name in image if name not in names)
        for image in (shape.before, shape.after)
    )
    columns = tuple(column for column in shape.columns if column.name not in names)
    wire = shape.wire and _details_without(shape.wire, names)
    return replace(shape, columns=columns, before=before, after=after, wire=wire)


def _details_without(wire: str, names: Collection[str]) -> str:
    """The details of a shape, see `definitions.py`, without those of some columns."""
    details = {
        kind: kept
        for kind, of_columns in json.loads(wire).items()
        if (kept := {name: detail for name, detail in of_columns.items() if name not in names})
    }
    return canonical(details) if details else ""


def _batch_without(batch: TableBatch, shape: TableShape) -> TableBatch:
    rows = batch.rows
    columns = {name: rows.column(name) for name in rows.schema.names}
    columns["before"] = _image(columns["before"], shape.before_columns, shape.before_type)
    columns["after"] = _image(columns["after"], shape.after_columns, shape.after_type)
    irregular = columns["irregular"]
    if len(irregular.keys):
        kept = [[pair for pair in row or () if pair[0] in shape.by_name] for row in irregular.to_pylist()]
        columns["irregular"] = pa.array(kept, IRREGULAR)
    schema = pa.schema([pa.field(name, array.type) for name, array in columns.items()])
    return TableBatch(shape, pa.RecordBatch.from_arrays(list(columns.values()), schema=schema))


def _image(image: pa.StructArray, columns: Sequence[Column], kind: pa.StructType) -> pa.StructArray:
    if image.null_count == len(image):
        return pa.nulls(len(image), kind)
    absent = image.is_null()
    if not columns:  # an update that changes excluded columns alone, with binlog_row_image=MINIMAL
        return pa.array([None if is_absent else {} for is_absent in absent.to_pylist()], kind)
    arrays = [image.field(image.type.get_field_index(column.name)) for column in columns]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=absent)


def check_columns(server: Server, selector: TableFilter, patterns: Sequence[str]) -> list[str]:
    """Checks what the patterns exclude of the captured tables; returns a sentence for each pattern that matches nothing.

    Raises:
        ConfigError: Rule 2, or no column of a table is left.
    """
    if not patterns:
        return []
    columns, keys, excluded = _captured_columns(server, selector), all_keys(server), ExcludedColumns(patterns)
    for name, of_table in columns.items():
        names = excluded.among(*name, of_table)
        if wrong := [key for key in keys.get(name, ()) if key in names]:
            raise ConfigError(_refusal(*name, wrong))
        if len(names) == len(of_table):
            raise ConfigError(
                f"source.exclude-columns leaves no column of {full_name(*name)}: leave the table out of source.tables"
            )
    return [
        f"source.exclude-columns: {pattern!r} matches no column of a captured table. Correct it, unless the column is still to "
        "come"
        for pattern in patterns
        if not any(
            ColumnFilter([pattern.removeprefix("!")]).matches(*name, c) for name, of in columns.items() for c in of
        )
    ]


def tables_between(server: Server, selector: TableFilter, one: Sequence[str], other: Sequence[str]) -> list[Name]:
    """Returns the captured tables of which two lists of patterns exclude different columns."""
    first, second = ExcludedColumns(one), ExcludedColumns(other)
    columns = _captured_columns(server, selector)
    return [name for name, of_table in columns.items() if first.among(*name, of_table) != second.among(*name, of_table)]


def _captured_columns(server: Server, selector: TableFilter) -> dict[Name, list[str]]:
    columns: dict[Name, list[str]] = {}
    for database, table, column in server.texts(_COLUMNS):
        if is_captured(selector, database, table):
            columns.setdefault((database, table), []).append(column)
    return dict(sorted(columns.items()))


def _refusal(database: str, table: str, keys: Sequence[str]) -> str:
    names = ", ".join(keys)
    return (
        f"source.exclude-columns excludes {names} of {full_name(database, table)}, which identifies the table's rows: add "
        f"`!{database}.{table}.{keys[0]}` behind the other patterns"
    )
