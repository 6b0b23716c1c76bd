"""Gives rows the column names of their table, where records carry them adjusted to Avro: see `model.adjusted_names`."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from changefeed.model.adjusted_names import adjusted
from changefeed.model.batch import TableBatch
from changefeed.model.definition import Table
from changefeed.stages.image import BEFORE


def named_as(table: Table, batch: TableBatch) -> TableBatch:
    """Returns the rows with the names of the table's columns.

    Raises:
        UnsupportedError: a name is ambiguous.
    """
    shape = adjusted(batch.shape, table.columns)
    if shape is batch.shape:
        return batch
    names = {old.name: new.name for old, new in zip(batch.shape.columns, shape.columns, strict=True)}
    rows = batch.rows
    for side in ("before", "after"):
        at = rows.schema.get_field_index(side)
        column = _renamed(rows.column(at), names)
        rows = rows.set_column(at, rows.schema.field(at).with_type(column.type), column)
    at = rows.schema.get_field_index("irregular")
    rows = rows.set_column(at, rows.schema.field(at), _texts(rows.column(at), names))
    return TableBatch(shape, rows)


def _renamed(structs: pa.StructArray, names: Mapping[str, str]) -> pa.StructArray:
    fields = [field.with_name(names.get(field.name, field.name)) for field in structs.type]
    if not fields:
        return structs
    children = [structs.field(i) for i in range(structs.type.num_fields)]
    mask = structs.is_null() if structs.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _texts(column: pa.MapArray, names: Mapping[str, str]) -> pa.MapArray:
    """Returns irregular texts under the new names; those of the image before an update have a prefix."""
    if column.null_count == len(column):
        return column
    prefixed = {BEFORE + old: BEFORE + new for old, new in names.items()} | dict(names)
    texts = [texts and [(prefixed.get(name, name), text) for name, text in texts] for texts in column.to_pylist()]
    return pa.array(texts, column.type)
