"""Images that leave columns out: with `binlog_row_image` MINIMAL or NOBLOB, and in MariaDB 11.8 generated columns of updates.

Rule 1. An update leaves out what did not change. A column of the key that its image after lacks is in its image before.
Rule 2. An insert leaves out what its statement did not name: the column has its default, by the table's definition. Values that
        a function gives (CURRENT_TIMESTAMP, AUTO_INCREMENT) are in the image.
Rule 3. A generated column that an update leaves out is unchanged if the columns are from which it is computed. Otherwise its
        value is unknown, and the update is refused. (MySQL has the column in the image then.)
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import UnsupportedError
from changefeed.model.definition import Table
from changefeed.model.table import Column, TableShape, image_type
from changefeed.mysql.ddl.defaults import existing_rows
from changefeed.mysql.ddl.expressions import names_in
from changefeed.stages.image import DeclaredTypes, Image, named, place


def after_images(rows: pa.RecordBatch, shape: TableShape, table: Table, types: DeclaredTypes) -> Iterator[Image]:
    """Yields the images after of rows: with the key of each update, and with all columns of each insert.

    Args:
        rows: of one shape; none of them is a delete.
        table: the columns and keys of the result.
        types: the declared types of the values.

    Raises:
        UnsupportedError: an insert lacks a column whose default does not follow from the definition; an update lacks a
            generated column, and changes one from which it is computed.
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
        _check_generated(image, before, table)
        yield image
    if inserts.num_rows:
        image = Image.of(inserts, "after", shape.after_columns, types)
        for column in shape.columns:
            if column.name.lower() not in image.columns and (own := table.column(column.name)) is not None:
                image.arrays[column.name.lower()] = _default(column, own, table, inserts)
                image.columns[column.name.lower()] = column
        yield image


def _check_generated(image: Image, before: Image, table: Table) -> None:
    """Checks that generated columns which an image leaves out are unchanged: Rule 3."""
    columns = (*table.columns, *(virtual.column for virtual in table.virtual))
    expressions = {c.name.lower(): c.expression for c in columns if c.expression is not None}
    for column in table.columns:
        if column.name.lower() not in expressions or column.name.lower() in image.columns:
            continue
        for name in sorted(_inputs(column.name.lower(), expressions) & image.columns.keys()):
            row = pc.index(_changed(image, before, name), True).as_py()
            if row >= 0:
                raise UnsupportedError(
                    f"{named(table, column.name)}: the update at {place(image.rows, row)} changes {image.columns[name].name}, "
                    "from which it is computed, and does not carry the new value: the server does not log it. Name the table in "
                    "pipeline.exclude to skip it; then run again"
                )


def _inputs(name: str, expressions: dict[str, str]) -> set[str]:
    """The columns from which a generated column is computed, in lower case, also through other generated columns."""
    inputs, open_names = set[str](), [name]
    while open_names:
        new = names_in(expressions.get(open_names.pop(), "")) - inputs
        inputs |= new
        open_names += new
    return inputs


def _changed(image: Image, before: Image, name: str) -> pa.Array:
    """Whether a column of an image differs from the image before; True where the server did not log that one."""
    count = image.rows.num_rows
    if name not in before.columns:
        return pa.array([True] * count)
    old, new = before.arrays[name], image.arrays[name]
    try:
        differs = pc.fill_null(pc.not_equal(old, new), True)
    except pa.ArrowNotImplementedError:
        return pa.array([True] * count)
    both_null = pc.and_(pc.is_null(old), pc.is_null(new))
    # beside NULL there may be what the column cannot hold
    regular = pa.array([not irregular for irregular in image.rows.column("irregular").to_pylist()], pa.bool_())
    return pc.and_not(differs, pc.and_(both_null, regular))


def _default(column: Column, own: Column, table: Table, rows: pa.RecordBatch) -> pa.Array:
    """The default of a column, as rows carry it; `own`: the column as the table defines it."""
    default = existing_rows(own)
    if own.expression is not None:
        raise UnsupportedError(
            f"{named(table, own.name)}: the insert at {place(rows, 0)} does not carry it, and it is computed from other columns: "
            "the server does not log it. Name the table in pipeline.exclude to skip it; then run again"
        )
    if default.unknown or default.irregular:
        raise UnsupportedError(
            f"{named(table, own.name)}: the insert at {place(rows, 0)} does not carry it, and its default cannot be computed: "
            "SET GLOBAL binlog_row_image = FULL, and name the table in pipeline.exclude to skip what was logged before"
        )
    return pa.array([default.value] * rows.num_rows, image_type((column,)).field(0).type)
