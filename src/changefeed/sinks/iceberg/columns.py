"""Changes the columns of an Iceberg table: by field id, without touching a row, wherever the rows may stay.

AddColumns   new columns with new ids
Rewrite      columns dropped, renamed, moved, added with NULL, or widened as Iceberg can read it: by id;
             with values that must be computed: new files that replace all
Create       other columns and no files
Copy         new files with the rows of another table, which replace all
"""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.schema import Schema

from changefeed.errors import SinkError
from changefeed.sinks.apply.files import Added, Limits
from changefeed.sinks.apply.layout import Layout
from changefeed.sinks.apply.rewriting import column_values, values_of, written
from changefeed.sinks.base import IRREGULAR, AddColumns, ConvertedFrom, Null, Rewrite
from changefeed.sinks.expressions import conversion_of
from changefeed.sinks.iceberg.commit import next_schema_id
from changefeed.sinks.iceberg.layout import IcebergLayout
from changefeed.sinks.iceberg.manifests import Change
from changefeed.sinks.iceberg.opened import Opened
from changefeed.sinks.iceberg.schema import arrow_schema, evolved, new_schema
from changefeed.sinks.iceberg.types import iceberg_type


def with_columns(opened: Opened, write: AddColumns, columns: pa.Schema) -> Change:
    """Returns the change that adds the columns which the table lacks, at their places."""
    has = opened.columns
    lacking = [field for field in has if columns.get_field_index(field.name) < 0]
    wanted = [field if (place := has.get_field_index(field.name)) < 0 else has.field(place) for field in columns]
    fields = pa.schema([*wanted, *lacking])
    schema = _evolved(opened, fields, {name: name for name in has.names})
    assert schema is not None, "no type changes"
    return Change(schema=schema)


def rewritten(opened: Opened, write: Rewrite, columns: pa.Schema, limits: Limits) -> Change:
    """Returns the change that gives all rows their new values.

    Raises:
        SinkError: a data file cannot be read or written, or a conversion does not exist.
    """
    sources = _sources(write, columns)
    if sources is not None and (schema := _evolved(opened, columns, sources)) is not None:
        return Change(schema=schema)
    schema = new_columns(opened, columns)
    values = values_of(write, opened.columns, columns, lambda kind: iceberg_type(kind).arrow)
    if values is None:
        raise SinkError(f"{opened.location}: the table's columns do not have the types that the pipeline gave them")
    layout = IcebergLayout(opened.folder, arrow_schema(schema))
    files = opened.stored().to_pylist()
    added = written(opened.layout, files, opened.columns, layout, layout.schema, values, limits)
    return Change(added=added, replaces=True, schema=schema)


def new_columns(opened: Opened, columns: pa.Schema) -> Schema:
    """Returns a schema for a table whose rows are all replaced: the table's own if it has these columns, or new ids."""
    if opened.columns.names == columns.names and opened.columns.types == columns.types:
        return opened.schema
    return new_schema(columns, opened.metadata.last_column_id, next_schema_id(opened))


def copied(source: Opened, target: Layout, schema: pa.Schema, limits: Limits) -> list[Added]:
    """Copies all rows of a table to new files with the same columns.

    Raises:
        SinkError: a data file cannot be read or written.
    """
    values = [column_values(name) for name in schema.names]
    return written(source.layout, source.stored().to_pylist(), source.columns, target, schema, values, limits)


def _evolved(opened: Opened, columns: pa.Schema, sources: dict[str, str]) -> Schema | None:
    return evolved(opened.schema, columns, sources, opened.metadata.last_column_id, next_schema_id(opened))


def _sources(write: Rewrite, columns: pa.Schema) -> dict[str, str] | None:
    """Returns new column -> old column with its values, for a `Rewrite` that computes none; None if it computes some."""
    sources = dict[str, str]()
    for column, expression in zip(write.table.columns, write.expressions, strict=True):
        match expression:
            case Null():
                continue
            case ConvertedFrom(null=None) if conversion_of(expression, column.type).is_cast:
                sources[column.name] = expression.column
            case _:
                return None
    own = columns.names[len(write.table.columns) :]
    if IRREGULAR in own and write.texts is not None:
        return None
    return sources | {name: name for name in own}
