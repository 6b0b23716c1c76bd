"""Partition specs of Iceberg tables: of new ones, and of tables as they are.

A spec names its columns by field id, so a column may be renamed, or widened. While files of the spec are in the table, it cannot
be dropped, or get a type that changes its values: no reader could tell the types of the partitions in the manifests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.partitioning import PartitionField as IcebergField
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import parse_transform

from changefeed.sinks.iceberg.partition_fields import PartitionField, field_name
from changefeed.sinks.iceberg.schema import arrow_type
from changefeed.sinks.iceberg.transforms import result_type

_FIRST_ID = 1000  # of partition fields


def spec_of(fields: Sequence[PartitionField], schema: Schema) -> PartitionSpec:
    """Returns the spec of a new table."""
    if not fields:
        return UNPARTITIONED_PARTITION_SPEC
    columns = [field.name for field in schema.fields]
    return PartitionSpec(
        *[
            IcebergField(
                source_id=schema.find_field(of.source).field_id, field_id=_FIRST_ID + place,
                transform=parse_transform(of.transform), name=field_name(of, columns),
            )
            for place, of in enumerate(fields)
        ],
        spec_id=0,
    )  # fmt: skip


def spec_after(
    metadata: TableMetadata, schema: Schema, fields: Sequence[PartitionField], used: Iterable[int] = ()
) -> PartitionSpec | None:
    """Returns the default spec of a table after all of its files were replaced; None if it stays.

    Args:
        metadata: the table before.
        schema: the columns after.
        fields: the partition fields of a new table with these columns.
        used: ids of the specs of the new files, if there are such specs already.
    """
    specs, columns = metadata.specs(), {field.field_id for field in schema.fields}
    if all(of.source_id in columns for of in metadata.spec().fields):
        return None
    candidates = [specs[number] for number in sorted(used, reverse=True)]
    wanted = spec_of([of for of in fields if of.source in {field.name for field in schema.fields}], schema)
    candidates += [spec for spec in specs.values() if _parts(spec) == _parts(wanted)]
    if candidates:
        return candidates[0]
    first = max(metadata.last_partition_id or 0, _FIRST_ID - 1) + 1
    parts = [part.model_copy(update={"field_id": first + place}) for place, part in enumerate(wanted.fields)]
    return PartitionSpec(*parts, spec_id=max(specs) + 1)


def _parts(spec: PartitionSpec) -> list[tuple[int, str]]:
    return [(of.source_id, str(of.transform)) for of in spec.fields]


def fields_of(spec: PartitionSpec, schema: Schema) -> tuple[PartitionField, ...]:
    """Returns the fields of a spec, by the present names of their columns."""
    names = {field.field_id: field.name for field in schema.fields}
    return tuple(PartitionField(names.get(of.source_id, ""), str(of.transform)) for of in spec.fields)


def unknown_partition(spec: PartitionSpec, schema: Schema) -> str | None:
    """Returns the field of a spec that changefeed does not write; None if there is none."""
    columns = {field.field_id: field for field in schema.fields}
    for of in spec.fields:
        column = columns.get(of.source_id)
        if column is None:
            return f"partition field {of.name}, whose column is not a column of its own"
        kind = arrow_type(column.field_type)
        if kind is None or result_type(str(of.transform), kind) is None:
            return f"partition field {of.name}: {of.transform} of {column.field_type}"
    return None


def kept_ids(spec: PartitionSpec, before: Schema, columns: pa.Schema) -> dict[str, int]:
    """Returns the columns of a spec that keep their field ids when all rows are replaced: their partitions keep their type."""
    kept = dict[str, int]()
    for field in before.fields:
        of = [part for part in spec.fields if part.source_id == field.field_id]
        old = arrow_type(field.field_type)
        if not of or old is None or field.name not in columns.names:
            continue
        new = columns.field(field.name).type
        if all(_has_type(result_type(str(part.transform), old), result_type(str(part.transform), new)) for part in of):
            kept[field.name] = field.field_id
    return kept


def _has_type(old: pa.DataType | None, new: pa.DataType | None) -> bool:
    """Whether partition values of one type are values of another."""
    if old == new or old is None or new is None:
        return old is not None and new is not None
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(old.scale == new.scale and old.precision < new.precision)
    return (old, new) == (pa.int32(), pa.int64())


def lost_field(spec: PartitionSpec, before: Schema, after: Schema) -> str | None:
    """Returns the field of a spec whose column is gone after a change of columns, or has a new id, because its type changed."""
    old, new = ({field.field_id: field.name for field in schema.fields} for schema in (before, after))
    lost = (of for of in spec.fields if of.source_id in old and of.source_id not in new)
    return next((f"{of.name} without its column {old[of.source_id]}" for of in lost), None)
