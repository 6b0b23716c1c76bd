"""Sort orders of Iceberg tables: of new ones, and of tables as they are.

A sort order names its columns by field id. Writers sort the rows of new files by it; readers need it for no row. So, unlike a
partition spec, it loses the fields whose columns are dropped, and the run goes on. If it kept them, Iceberg's own implementation
could not open the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import (
    INITIAL_SORT_ORDER_ID,
    UNSORTED_SORT_ORDER,
    UNSORTED_SORT_ORDER_ID,
    NullOrder,
    SortDirection,
    SortOrder,
)
from pyiceberg.table.sorting import SortField as IcebergField
from pyiceberg.transforms import parse_transform

from changefeed.sinks.iceberg.partition_fields import PartitionField
from changefeed.sinks.iceberg.schema import arrow_type
from changefeed.sinks.iceberg.sort_fields import SortField
from changefeed.sinks.iceberg.sorting import is_sortable


def sortable(fields: Iterable[SortField], columns: pa.Schema) -> tuple[SortField, ...]:
    """Returns the fields by which rows with these columns can be sorted; the others are left out.

    The option is compared with a table after every DDL: a column that is dropped or renamed upstream must not stop the run.
    """
    types = dict(zip(columns.names, columns.types, strict=True))
    return tuple(
        field
        for field in fields
        if field.term.source in types and is_sortable(field.term.transform, types[field.term.source])
    )


def order_of(fields: Sequence[SortField], schema: Schema) -> SortOrder:
    """Returns the sort order of a new table."""
    if not fields:
        return UNSORTED_SORT_ORDER
    return SortOrder(
        *[
            IcebergField(
                source_id=schema.find_field(field.term.source).field_id,
                transform=parse_transform(field.term.transform),
                direction=SortDirection.DESC if field.descends else SortDirection.ASC,
                null_order=NullOrder.NULLS_FIRST if field.nulls_first else NullOrder.NULLS_LAST,
            )
            for field in fields
        ],
        order_id=INITIAL_SORT_ORDER_ID,
    )


def order_after(metadata: TableMetadata, schema: Schema) -> SortOrder:
    """Returns the default sort order of a table after a change of its columns: the same one, while it has its columns.

    A column that got a new field id, because all rows are replaced, is found by its name. The fields of other columns are
    left out.

    Args:
        metadata: the table before.
        schema: the columns after.
    """
    before, order = metadata.schema(), metadata.sort_order()
    if schema is before or order.is_unsorted:
        return order
    fields = [kept for field in order.fields if (kept := _kept(field, before, schema)) is not None]
    if fields == order.fields:
        return order
    if not fields:
        return UNSORTED_SORT_ORDER
    same = next((other for other in metadata.sort_orders if other.fields == fields), None)
    number = max([UNSORTED_SORT_ORDER_ID, *(other.order_id for other in metadata.sort_orders)]) + 1
    return same or SortOrder(*fields, order_id=number)


def _kept(field: IcebergField, before: Schema, after: Schema) -> IcebergField | None:
    """Returns a field of a sort order after a change of columns; None if its column is gone, or has no such transform."""
    names = {column.field_id: column.name for column in before.fields}
    by_id, by_name = ({getattr(column, key): column for column in after.fields} for key in ("field_id", "name"))
    if field.source_id not in names:  # inside of another column: others have sorted by it
        return field if after.find_column_name(field.source_id) is not None else None
    column = by_id.get(field.source_id) or by_name.get(names[field.source_id])
    if column is None or not field.transform.can_transform(column.field_type):
        return None
    return field.model_copy(update={"source_id": column.field_id})


def sort_fields_of(order: SortOrder, schema: Schema) -> tuple[SortField, ...]:
    """Returns the fields of a sort order, by the present names of their columns.

    Without the first field by which changefeed does not sort, and all after it.
    """
    columns, fields = {column.field_id: column for column in schema.fields}, list[SortField]()
    for field in order.fields:
        column = columns.get(field.source_id)
        kind = None if column is None else arrow_type(column.field_type)
        if column is None or kind is None or not is_sortable(str(field.transform), kind):
            break
        term = PartitionField(column.name, str(field.transform))
        nulls_first = field.null_order == NullOrder.NULLS_FIRST
        fields.append(SortField(term, field.direction == SortDirection.DESC, nulls_first))
    return tuple(fields)
