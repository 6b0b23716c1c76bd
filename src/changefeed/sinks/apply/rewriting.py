"""Writes all rows of a table again, with the values of a `Rewrite` or unchanged: without Spark, one file after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from changefeed.frames.types import sink_type
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.sinks.apply import irregular
from changefeed.sinks.apply.files import Added, DataFileReader, DataFileWriter, Limits
from changefeed.sinks.apply.layout import Layout
from changefeed.sinks.expressions import constant, conversion_of, converted
from changefeed.sinks.writes import IRREGULAR, Constant, ConvertedFrom, Expression, IrregularUpdate, Null, Rewrite

Values = Callable[[pa.RecordBatch], pa.Array]
Types = Callable[[ColumnType], pa.DataType]


def values_of(write: Rewrite, old: pa.Schema, new: pa.Schema, types: Types) -> list[Values] | None:
    """Returns a function for each column: old rows -> new values; None if Arrow lacks one of the conversions.

    Args:
        write: the new values of the upstream columns.
        old: the table's columns before.
        new: the table's columns after, metadata columns last.
        types: the format's type of a MySQL type, in Arrow.
    """
    upstream = list(zip(write.table.columns, write.expressions, strict=True))
    made = [_value(column, expression, old, new, types) for column, expression in upstream]
    for field in list(new)[len(upstream) :]:
        has_texts = field.name == IRREGULAR and write.texts is not None and old.get_field_index(IRREGULAR) >= 0
        made.append(_texts(write) if has_texts else _copied(field.name, old, field))
    return None if None in made else [values for values in made if values is not None]


def written(
    source: Layout,
    files: Iterable[Mapping[str, Any]],
    schema: pa.Schema,
    target: Layout,
    columns: pa.Schema,
    values: Sequence[Values],
    limits: Limits,
) -> list[Added]:
    """Writes all rows of a table to new files, of this table or of another one.

    Args:
        source: the layout of the files that are read.
        files: these files, as in `Item.files`.
        schema: their columns.
        target: the layout of the new files.
        columns: their columns.
        values: the values of each of these columns.
        limits: sizes for the files to write.

    Raises:
        SinkError: a data file cannot be read or written.
    """
    out = DataFileWriter(target, columns, limits)
    try:
        for file in files:
            reader = DataFileReader(source, file, schema)
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


def column_values(name: str) -> Values:
    """Returns the function that copies a column."""
    return lambda rows: rows.column(name)


def _texts(write: Rewrite) -> Values:
    columns = zip(write.table.columns, write.expressions, strict=True)
    sources = {column.name: of.column for column, of in columns if isinstance(of, ConvertedFrom)}
    change = write.texts or IrregularUpdate()
    return lambda rows: irregular.rewritten(rows, change, sources)


def _value(column: Column, expression: Expression, old: pa.Schema, new: pa.Schema, types: Types) -> Values | None:
    field = new.field(column.name)
    match expression:
        case Null():
            return lambda rows: pa.nulls(rows.num_rows, field.type)
        case Constant(value=value):
            try:
                scalar = constant(value, column.type).cast(types(column.type))
            except pa.ArrowException:
                return None
            return (lambda rows: pa.repeat(scalar, rows.num_rows)) if scalar.type == field.type else None
        case ConvertedFrom():
            return _converted(column, expression, old, field, types)
    return None


def _converted(
    column: Column, expression: ConvertedFrom, old: pa.Schema, field: pa.Field, types: Types
) -> Values | None:
    name, kind = expression.column, sink_type(expression.type).arrow
    if expression.null is None and conversion_of(expression, column.type).is_copy:
        return _copied(name, old, field)
    has_type = old.get_field_index(name) >= 0 and old.field(name).type == types(expression.type)
    if not has_type or field.type != types(column.type):
        return None
    return lambda rows: converted(rows.column(name).cast(kind), expression, column.type).cast(field.type)


def _copied(name: str, old: pa.Schema, field: pa.Field) -> Values | None:
    if old.get_field_index(name) < 0 or old.field(name).type != field.type:
        return None
    return column_values(name)
