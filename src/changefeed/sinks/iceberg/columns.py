"""Changes the columns of an Iceberg table: by field id, without touching a row, wherever the rows may stay.

AddColumns   new columns with new ids
Rewrite      columns dropped, renamed, moved, added with NULL, or widened as Iceberg can read it: by id;
             with values that must be computed: new files that replace all
             and where files may have no field ids, see `name_mapping`
Create       other columns and no files
Copy         new files with the rows of another table, which replace all
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from changefeed.errors import SinkError
from changefeed.sinks.apply.files import Added, Limits
from changefeed.sinks.apply.layout import Layout
from changefeed.sinks.apply.rewriting import Values, column_values, values_of, written
from changefeed.sinks.expressions import conversion_of
from changefeed.sinks.iceberg.commit import next_schema_id
from changefeed.sinks.iceberg.layout import ROW_COLUMNS
from changefeed.sinks.iceberg.manifests import Change
from changefeed.sinks.iceberg.name_mapping import is_mapped
from changefeed.sinks.iceberg.opened import Opened
from changefeed.sinks.iceberg.partition_fields import NO_FIELD
from changefeed.sinks.iceberg.partitions import kept_ids, lost_field
from changefeed.sinks.iceberg.schema import evolved, kept_type, new_schema
from changefeed.sinks.iceberg.types import iceberg_type
from changefeed.sinks.writes import IRREGULAR, AddColumns, ConvertedFrom, Null, Rewrite


def with_columns(opened: Opened, write: AddColumns, columns: pa.Schema, limits: Limits) -> Change:
    """Returns the change that adds the columns which the table lacks, at their places.

    Raises:
        SinkError: a data file cannot be read or written.
    """
    has = opened.columns
    lacking = [field for field in has if columns.get_field_index(field.name) < 0]
    wanted = [field if (place := has.get_field_index(field.name)) < 0 else has.field(place) for field in columns]
    fields = pa.schema([*wanted, *lacking])
    sources = {name: name for name in has.names}
    schema = _evolved(opened, fields, sources)
    assert schema is not None, "no type changes"
    return _by_id(opened, schema, sources, limits)


def rewritten(opened: Opened, write: Rewrite, columns: pa.Schema, limits: Limits) -> Change:
    """Returns the change that gives all rows their new values.

    Raises:
        SinkError: a data file cannot be read or written, a conversion does not exist, or a column of a partition would be gone.
    """
    sources = _sources(write, columns)
    if sources is not None and (schema := _evolved(opened, columns, sources)) is not None:
        return _by_id(opened, schema, sources, limits)
    schema = _checked(opened, new_columns(opened, columns), [opened.metadata.spec()])
    values = values_of(write, opened.columns, columns, lambda kind: iceberg_type(kind).arrow)
    if values is None:
        raise SinkError(f"{opened.location}: the table's columns do not have the types that the pipeline gave them")
    source, layout = opened.layout, opened.layout_of(schema, moves=True)
    values += [column_values(name) for name in layout.schema.names[len(values) :]]
    added = written(source, opened.stored().to_pylist(), source.schema, layout, layout.schema, values, limits)
    return Change(added=added, replaces=True, schema=schema)


def _by_id(opened: Opened, schema: Schema, sources: Mapping[str, str], limits: Limits) -> Change:
    """Returns the change to other columns for rows that stay: to new files if there may be some without field ids."""
    if not is_mapped(opened.metadata):
        return Change(schema=schema)
    source, layout = opened.layout, opened.layout_of(schema, moves=True)
    sources = {**sources, **{field.name: field.name for field in ROW_COLUMNS}}
    values = [_kept_values(sources.get(field.name), field.type) for field in layout.schema]
    added = written(source, opened.stored().to_pylist(), source.schema, layout, layout.schema, values, limits)
    return Change(added=added, replaces=True, schema=schema)


def _kept_values(source: str | None, kind: pa.DataType) -> Values:
    """Returns the values of a column by the name that it had; NULL without one."""
    if source is None:
        return lambda rows: pa.nulls(rows.num_rows, kind)
    return lambda rows: rows.column(source).cast(kind)


def new_columns(opened: Opened, columns: pa.Schema) -> Schema:
    """Returns a schema for a table whose rows are all replaced: the table's own if it has these columns, or new ids.

    Columns of partitions keep their ids if they are there, and their partitions keep their type. So do columns of a table with a
    mapping of names: its old snapshots may have files whose columns are found by it.
    """
    if opened.columns.names == columns.names and opened.columns.types == columns.types:
        return opened.schema
    kept = kept_ids(opened.metadata.spec(), opened.schema, columns)
    if is_mapped(opened.metadata):
        for field in opened.schema.fields:
            place = columns.get_field_index(field.name)
            if place >= 0 and field.field_type.is_primitive and kept_type(field.field_type, columns.field(place).type):
                kept[field.name] = field.field_id
    return new_schema(columns, opened.metadata.last_column_id, next_schema_id(opened), kept)


def copied(source: Opened, target: Layout, schema: pa.Schema, limits: Limits) -> list[Added]:
    """Copies all rows of a table to new files with the same columns.

    Raises:
        SinkError: a data file cannot be read or written.
    """
    values = [column_values(name) for name in schema.names]
    return written(source.layout, source.stored().to_pylist(), source.columns, target, schema, values, limits)


def _evolved(opened: Opened, columns: pa.Schema, sources: dict[str, str]) -> Schema | None:
    schema = evolved(opened.schema, columns, sources, opened.metadata.last_column_id, next_schema_id(opened))
    numbers = {opened.metadata.default_spec_id, *(file.spec_id for file in opened.all_files())}
    specs = opened.metadata.specs()
    return None if schema is None else _checked(opened, schema, [specs[number] for number in sorted(numbers)])


def _checked(opened: Opened, schema: Schema, specs: Iterable[PartitionSpec]) -> Schema:
    """Returns the schema if it has the columns of partition specs."""
    for spec in specs:
        if field := lost_field(spec, opened.schema, schema):
            raise SinkError(
                f"{opened.location}: a change of columns would leave the partition field {field}. {NO_FIELD}"
            )
    return schema


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
