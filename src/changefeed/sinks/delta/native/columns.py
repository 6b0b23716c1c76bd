"""Changes a table's columns without Spark: commits new metadata, and rewrites the rows of a small table.

    AddColumns   metadata
    Rewrite      metadata, and new files that replace all: columns dropped, renamed, moved, converted, or filled with one value
    Create       metadata, and removal of all files
    Copy         metadata, and new files with the rows of another table that replace all

Spark makes the write if the table is large enough for a Spark job, or if Arrow lacks a conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from changefeed.frames.types import sink_type
from changefeed.model.table import Column
from changefeed.sinks.apply import irregular
from changefeed.sinks.apply.files import Added, DataFileReader, DataFileWriter, Limits
from changefeed.sinks.apply.layout import Layout
from changefeed.sinks.base import (
    IRREGULAR,
    AddColumns,
    Constant,
    ConvertedFrom,
    Create,
    Expression,
    IrregularUpdate,
    Null,
    Rewrite,
    WriteId,
)
from changefeed.sinks.delta.native.commit import change_columns
from changefeed.sinks.delta.native.log_file import NTZ_TYPE
from changefeed.sinks.delta.native.opened import Opened, delta_fields
from changefeed.sinks.expressions import constant, conversion_of, converted

_Field = Mapping[str, Any]
_Values = Callable[[pa.RecordBatch], pa.Array]


def changed(
    opened: Opened,
    write: AddColumns | Rewrite | Create,
    columns: pa.Schema,
    limits: Limits,
    write_id: WriteId,
    note: str,
) -> bool:
    """Changes the columns of a table; returns False, and does nothing, if Spark must make the write.

    Args:
        opened: the table; `Opened.refused` must be None.
        write: the write, which may have values for the columns.
        columns: the table's columns after the write, including metadata columns.
        limits: sizes for the files to write.
        write_id: the write id of the commit.
        note: the note of the commit, for people.

    Raises:
        FencedError: a newer run writes this table.
        SinkError: a data file cannot be read or written, or the commit cannot be made (transient).
    """
    fields: Sequence[_Field] = delta_fields(columns)
    if _has_ntz(fields) and not opened.takes_ntz():
        return False
    added: list[Added] | None = None
    if isinstance(write, AddColumns):
        fields = with_missing(opened.state.fields, fields)
    elif isinstance(write, Rewrite):
        values = _values(write, opened.schema(), columns)
        if values is None:
            return False
        added = _written(opened, opened.layout, columns, values, limits)
    else:
        added = []
    change_columns(opened, fields, added, write_id, note)
    return True


def replaced(opened: Opened, source: Opened, limits: Limits, write_id: WriteId, note: str) -> bool:
    """Replaces columns and rows of a table by those of another; returns False if Spark must make the write.

    Arguments and errors are those of `changed`.
    """
    fields = delta_fields(source.schema())
    if _has_ntz(fields) and not opened.takes_ntz():
        return False
    change_columns(opened, fields, copied(source, opened.layout, limits), write_id, note)
    return True


def copied(source: Opened, layout: Layout, limits: Limits) -> list[Added]:
    """Copies all rows of a table to new files of another table.

    Raises:
        SinkError: a data file cannot be read or written.
    """
    columns = source.schema()
    return _written(source, layout, columns, [_column(name) for name in columns.names], limits)


def _has_ntz(fields: Iterable[_Field]) -> bool:
    return any(field["type"] == NTZ_TYPE for field in fields)


def with_missing(has: Iterable[_Field], wanted: Iterable[_Field]) -> list[_Field]:
    """Returns the fields of a table, with the missing ones of `wanted` added at their places."""
    there = {field["name"]: field for field in has}
    fields = {field["name"]: there.get(field["name"], field) for field in wanted}
    return list((fields | there).values())


def _values(write: Rewrite, old: pa.Schema, new: pa.Schema) -> list[_Values] | None:
    """Returns a function for each column: old rows -> new values; None if Spark must compute one."""
    upstream = list(zip(write.table.columns, write.expressions, strict=True))
    made = [_value(column, expression, old, new) for column, expression in upstream]
    for field in list(new)[len(upstream) :]:
        has_texts = field.name == IRREGULAR and write.texts is not None and old.get_field_index(IRREGULAR) >= 0
        made.append(_texts(write) if has_texts else _copied(field.name, old, field))
    return None if None in made else [values for values in made if values is not None]


def _texts(write: Rewrite) -> _Values:
    columns = zip(write.table.columns, write.expressions, strict=True)
    sources = {column.name: of.column for column, of in columns if isinstance(of, ConvertedFrom)}
    change = write.texts or IrregularUpdate()
    return lambda rows: irregular.rewritten(rows, change, sources)


def _value(column: Column, expression: Expression, old: pa.Schema, new: pa.Schema) -> _Values | None:
    field = new.field(column.name)
    match expression:
        case Null():
            return lambda rows: pa.nulls(rows.num_rows, field.type)
        case Constant(value=value):
            try:
                scalar = constant(value, column.type)
            except pa.ArrowException:
                return None
            return (lambda rows: pa.repeat(scalar, rows.num_rows)) if scalar.type == field.type else None
        case ConvertedFrom():
            return _converted(column, expression, old, field)
    return None


def _converted(column: Column, expression: ConvertedFrom, old: pa.Schema, field: pa.Field) -> _Values | None:
    name, kind = expression.column, sink_type(expression.type).arrow
    if expression.null is None and conversion_of(expression, column.type).is_copy:
        return _copied(name, old, field)
    if old.get_field_index(name) < 0 or old.field(name).type != kind or field.type != sink_type(column.type).arrow:
        return None
    return lambda rows: converted(rows.column(name), expression, column.type)


def _copied(name: str, old: pa.Schema, field: pa.Field) -> _Values | None:
    if old.get_field_index(name) < 0 or old.field(name).type != field.type:
        return None
    return _column(name)


def _column(name: str) -> _Values:
    return lambda rows: rows.column(name)


def _written(
    opened: Opened, layout: Layout, columns: pa.Schema, values: Iterable[_Values], limits: Limits
) -> list[Added]:
    """Writes all rows of the table with other columns to new files, of this table or another one."""
    schema, values = opened.schema(), list(values)
    out = DataFileWriter(layout, columns, limits)
    try:
        for file in opened.files().to_pylist():
            reader = DataFileReader(opened.layout, file, schema)
            try:
                for start, batch in reader.pieces(limits.batch_rows):
                    rows = reader.live(batch, start)
                    out.write(pa.RecordBatch.from_arrays([of(rows) for of in values], schema=columns))
            finally:
                reader.close()
        return out.close()
    except BaseException:
        out.discard()
        raise


def size(opened: Opened) -> int:
    """Returns the total size of the table's data files, in bytes."""
    return sum(file["size"] for file in opened.state.files.values())
