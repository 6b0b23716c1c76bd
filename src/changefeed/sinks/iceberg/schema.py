"""Schemas of Iceberg tables: to and from Arrow, and after a change of columns.

Iceberg finds a column in a data file by its field id. So a column may get another name or place, or a wider type, while its
values stay where they are. A column that is dropped and added again gets a new id, and is NULL in old rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

_PRIMITIVES: dict[pa.DataType, PrimitiveType] = {
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.bool_(): BooleanType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.timestamp("us"): TimestampType(),
    pa.timestamp("us", "UTC"): TimestamptzType(),
}
_ARROW = {kind: arrow for arrow, kind in _PRIMITIVES.items()}


def new_schema(
    columns: pa.Schema, last_id: int = 0, schema_id: int = 0, kept: Mapping[str, int] | None = None
) -> Schema:
    """Returns a schema with new field ids after `last_id`, except for the columns whose ids are in `kept`."""
    ids, kept = count(last_id + 1), kept or {}
    fields = [_field(column, iter([kept[column.name]]) if column.name in kept else ids) for column in columns]
    return Schema(*fields, schema_id=schema_id)


def clash_with_part(columns: pa.Schema) -> str | None:
    """Returns the clash of a column's name with a part of another column, as of `place.srid` with a point `place`, if any."""
    dotted = {name for name in columns.names if "." in name}
    for column in columns if dotted else ():
        for part in Schema(_field(column, count(1))).column_names:
            if part in dotted and part != column.name:
                return f"column {part} has the name that Iceberg gives to a part of column {column.name}"
    return None


def evolved(
    schema: Schema, columns: pa.Schema, sources: Mapping[str, str], last_id: int, schema_id: int
) -> Schema | None:
    """Returns a schema with other columns, for rows that stay as they are; columns keep the comments that others gave them.

    Args:
        schema: the columns before.
        columns: the columns after.
        sources: column after -> the column before with its values; a column without one is NULL in every row.
        last_id: the highest field id that the table has given.
        schema_id: the id of the new schema.

    Returns:
        The schema; None if the values of a column cannot stay, because Iceberg does not read its old type as the new one.
    """
    ids, before, fields = count(last_id + 1), {field.name: field for field in schema.fields}, list[NestedField]()
    for column in columns:
        source = before.get(sources.get(column.name, ""))
        if source is None:
            fields.append(_field(column, ids))
            continue
        kind = kept_type(source.field_type, column.type)
        if kind is None:
            return None
        fields.append(NestedField(source.field_id, column.name, kind, required=False, doc=source.doc))
    return Schema(*fields, schema_id=schema_id)


def kept_type(old: IcebergType, new: pa.DataType) -> IcebergType | None:
    """Returns the type of a column whose values stay; None if Iceberg does not read the old type as the new one."""
    arrow = arrow_type(old)
    if arrow == new:
        return old
    if pa.types.is_decimal(new) and arrow is not None and pa.types.is_decimal(arrow):
        return (
            DecimalType(new.precision, new.scale)
            if arrow.scale == new.scale and arrow.precision < new.precision
            else None
        )
    return _PRIMITIVES[new] if (arrow, new) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64())) else None


def _field(column: pa.Field, ids: Iterator[int]) -> NestedField:
    return NestedField(next(ids), column.name, _type(column.type, ids), required=not column.nullable)


def _type(kind: pa.DataType, ids: Iterator[int]) -> IcebergType:
    if pa.types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return StructType(*[_field(kind.field(i), ids) for i in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return ListType(next(ids), _type(kind.value_type, ids), element_required=False)
    if pa.types.is_map(kind):
        key_id, value_id = next(ids), next(ids)
        return MapType(key_id, _type(kind.key_type, ids), value_id, _type(kind.item_type, ids), value_required=False)
    return _PRIMITIVES[kind]


def arrow_schema(schema: Schema) -> pa.Schema:
    """Returns the columns in Arrow, with field ids for Parquet; types that changefeed does not write are of type null."""
    return pa.schema([_arrow_field(field) for field in schema.fields])


def unknown_type(schema: Schema) -> str | None:
    """Returns a column whose type changefeed does not write; None if there is none."""
    return next((field.name for field in schema.fields if arrow_type(field.field_type) is None), None)


def _arrow_field(field: NestedField) -> pa.Field:
    kind = arrow_type(field.field_type)
    return _numbered(field.name, pa.null() if kind is None else kind, field.field_id, nullable=field.optional)


def _numbered(name: str, kind: pa.DataType, field_id: int, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {"PARQUET:field_id": str(field_id)})


def arrow_type(kind: IcebergType) -> pa.DataType | None:
    """Returns a type in Arrow, with field ids inside; None if changefeed does not write it."""
    match kind:
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case StructType():
            types = [arrow_type(field.field_type) for field in kind.fields]
            return None if None in types else pa.struct([_arrow_field(field) for field in kind.fields])
        case ListType():
            element = arrow_type(kind.element_type)
            return None if element is None else pa.list_(_numbered("element", element, kind.element_id))
        case MapType():
            key, value = arrow_type(kind.key_type), arrow_type(kind.value_type)
            if key is None or value is None:
                return None
            key_field = _numbered("key", key, kind.key_id, nullable=False)
            return pa.map_(key_field, _numbered("value", value, kind.value_id))
    return _ARROW.get(kind) if isinstance(kind, PrimitiveType) else None


def type_name(kind: pa.DataType) -> str:
    """Returns Iceberg's name of a type, without field ids: `decimal(20,0)`, `list<float>`."""
    match _type(kind, count(1)):
        case StructType(fields=fields):
            return f"struct<{', '.join(f'{field.name}: {field.field_type}' for field in fields)}>"
        case ListType(element_type=element):
            return f"list<{element}>"
        case made:
            return str(made).replace(" ", "")
