"""Images that leave columns out, as MySQL writes them with `binlog_row_image` MINIMAL or NOBLOB.

Rule 1. An update leaves out what did not change. A column of the key that its image after lacks is in its image before.
Rule 2. An insert leaves out what its statement did not name: the column has its default, by the table's definition. Values that
        a function gives (CURRENT_TIMESTAMP, AUTO_INCREMENT) are in the image.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import UnsupportedError
from changefeed.model.definition import Table
from changefeed.model.table import Column, TableShape, image_type
from changefeed.mysql.ddl.defaults import existing_rows
from changefeed.stages.image import DeclaredTypes, Image, named, place


def after_images(rows: pa.RecordBatch, shape: TableShape, table: Table, types: DeclaredTypes) -> Iterator[Image]:
    """Yields the images after of rows: with the key of each update, and with all columns of each insert.

    Args:
        rows: of one shape; none of them is a delete.
        table: the columns and keys of the result.
        types: the declared types of the values.

    Raises:
        UnsupportedError: an insert lacks a column whose default does not follow from the definition.
    """
    if shape.after is None:
        yield Image.of(rows, "after", shape.after_columns, types)
        return
    is_insert = pc.equal(rows.column("op"), "insert")
    inserts, others = rows.filter(is_insert), rows.filter(pc.invert(is_insert))
    if others.num_rows:
        image = Image.of(others, "after", shape.after_columns, types)
        before = Image.of(others, "before", shape.before_columns, types)
        for name in (key.lower() for key in table.keys):
            if name not in image.columns and name in before.columns:
                image.arrays[name], image.columns[name] = before.arrays[name], before.columns[name]
        yield image
    if inserts.num_rows:
        image = Image.of(inserts, "after", shape.after_columns, types)
        for column in shape.columns:
            if column.name.lower() not in image.columns and (own := table.column(column.name)) is not None:
                image.arrays[column.name.lower()] = _default(column, own, table, inserts)
                image.columns[column.name.lower()] = column
        yield image


def _default(column: Column, own: Column, table: Table, rows: pa.RecordBatch) -> pa.Array:
    """The default of a column, as rows carry it; `own`: the column as the table defines it."""
    default = existing_rows(own)
    if default.unknown or default.irregular or own.expression is not None:
        raise UnsupportedError(
            f"{named(table, own.name)}: the insert at {place(rows, 0)} does not carry it, and its default cannot be computed: "
            "SET GLOBAL binlog_row_image = FULL, and name the table in pipeline.exclude to skip what was logged before"
        )
    return pa.array([default.value] * rows.num_rows, image_type((column,)).field(0).type)
