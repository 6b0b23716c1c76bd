"""The data files of Iceberg tables: names, partitions, and the metrics that manifests have of them.

A data file has the rows of one partition. Its name does not show which: readers know it from the manifest.

Most metrics come from a file's footer. Bounds are those by which readers skip files:

    text, binary      the first 16 characters or bytes; the upper bound of a longer value ends in the next character or byte
    float, double     of the values, not of the footer, which leaves out NaN; none with NaN
    inside others     no bounds

Tasks import this module: it needs Arrow alone, because PyIceberg takes a second to import.
"""

from __future__ import annotations

import base64
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from changefeed.errors import SinkError
from changefeed.sinks.apply.layout import Floats, KeyFilter, RowNumbers
from changefeed.sinks.apply.partitioning import by_values
from changefeed.sinks.iceberg.delete_files import deleted_rows
from changefeed.sinks.iceberg.partition_fields import NO_FIELD, PartitionField
from changefeed.sinks.iceberg.sort_fields import SortField
from changefeed.sinks.iceberg.sorting import sorted_rows
from changefeed.sinks.iceberg.transforms import transformed
from changefeed.sinks.ways_out import TABLE_DAMAGED
from changefeed.storage import Folder

ROW_ID, UPDATED = "_row_id", "_last_updated_sequence_number"
# Columns of files with rows that were in another file before, for tables of format version 3.
ROW_COLUMNS = (
    pa.field(ROW_ID, pa.int64(), metadata={"PARQUET:field_id": "2147483540"}),
    pa.field(UPDATED, pa.int64(), metadata={"PARQUET:field_id": "2147483539"}),
)
_FIELD_ID = b"PARQUET:field_id"  # in the metadata of an Arrow field
_LAST_FIELD_ID = 2147483447  # above are columns that are not in a table's schema
_LENGTH = 16  # characters or bytes of a bound
_EXACT = Context(prec=100)
_LAST_CHARACTER, _SURROGATES = 0x10FFFF, range(0xD800, 0xE000)


class Metrics(msgspec.Struct, frozen=True):
    """The metrics of one data file: field id -> value; and its partition.

    Attributes:
        sizes: bytes in the file.
        counts: number of values, NULLs included.
        nulls: number of NULLs.
        lower, upper: bounds, in Iceberg's encoding of single values, as base64.
        offsets: where row groups begin, in bytes.
        partition: the text of its partition, see `partition_text`.
        order_id: the sort order of all of its rows; 0 for none.
    """

    sizes: dict[int, int]
    counts: dict[int, int]
    nulls: dict[int, int]
    lower: dict[int, str]
    upper: dict[int, str]
    offsets: list[int]
    partition: str = ""
    order_id: int = 0


@dataclass(frozen=True, slots=True)
class IcebergLayout:
    """See `Layout`.

    Attributes:
        folder: the folder of the table.
        schema: the columns of new files, with field ids.
        specs: id -> fields of each partition spec of the table.
        spec_id: the spec of new files.
        order: the fields by which the rows of new files are sorted.
        order_id: the sort order of new files; 0 if the rows are not sorted by all of its fields.
        names: see `name_mapping.other_names`.
    """

    folder: Folder
    schema: pa.Schema
    specs: Mapping[int, tuple[PartitionField, ...]] = field(default_factory=dict)
    spec_id: int = 0
    order: tuple[SortField, ...] = ()
    order_id: int = 0
    footer: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, int] = field(default_factory=dict)

    @property
    def kept(self) -> tuple[str, ...]:
        """See `Layout`: a row of a table of format version 3 has one id for life."""
        return (ROW_ID,) if ROW_ID in self.schema.names else ()

    def stored(self, schema: pa.Schema) -> pa.Schema:
        """See `Layout`: files have all columns."""
        return schema

    def file_name(self, path: str) -> str:
        """See `Layout`."""
        return path

    def new_path(self, number: int, partition: str) -> str:
        """See `Layout`."""
        return f"data/{number:05d}-{uuid.uuid4()}.parquet"

    def divided(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """See `Layout`: for the text see `partition_text`.

        Raises:
            SinkError: a number is truncated to one that its type does not have.
        """
        fields = self.specs.get(self.spec_id, ())
        if not fields:
            yield "", rows
            return
        values = [self._values(of, rows.column(of.source)) for of in fields]
        for partition, its_rows in by_values(rows, values):
            yield partition_text(partition), its_rows

    def _values(self, of: PartitionField, column: pa.Array) -> pa.Array:
        try:
            return transformed(column, of.transform)
        except pa.ArrowInvalid as error:
            raise SinkError(
                f"{self.folder.path}: the partition field {of} has no value of type {column.type} for a row: {error}. {NO_FIELD}"
            ) from error

    def ordered(self, rows: pa.Table) -> pa.Table:
        """See `Layout`: by the table's sort order."""
        return sorted_rows(rows, self.order) if self.order else rows

    def key_filter(self, names: Sequence[str], keys: Sequence[pa.ChunkedArray]) -> KeyFilter:
        """See `Layout`: a bucket holds some of the keys. Other partitions show in the bounds of their files."""
        columns = dict(zip(names, keys, strict=True))
        buckets_of = dict[tuple[str, str], npt.NDArray[np.int64]]()

        def bucket_of(of: PartitionField) -> npt.NDArray[np.int64]:
            name = (of.source, of.transform)
            if name not in buckets_of:
                buckets = transformed(columns[of.source].combine_chunks(), of.transform)
                buckets_of[name] = buckets.fill_null(-1).to_numpy().astype(np.int64)
            return buckets_of[name]

        def inside(file: Mapping[str, Any]) -> npt.NDArray[np.bool_] | None:
            if not (text := file.get("partition")):
                return None
            mask: npt.NDArray[np.bool_] | None = None
            for of, value in zip(self.specs[file["spec"]], partition_values(text), strict=True):
                if of.source in columns and of.transform.startswith("bucket"):
                    number = -1 if value is None else struct.unpack("<i", value)[0]
                    mine = bucket_of(of) == number
                    mask = mine if mask is None else mask & mine
            return mask

        return inside

    def statistics(self, footer: Any, schema: pa.Schema, floats: Mapping[str, Floats], partition: str) -> str:
        """See `Layout`: `Metrics` as JSON."""
        made = metrics(footer, self.schema, floats)
        order_id = self.order_id if footer.num_row_groups == 1 else 0
        return msgspec.json.encode(msgspec.structs.replace(made, partition=partition, order_id=order_id)).decode()

    def constants(self, file: Mapping[str, Any]) -> Mapping[str, pa.Scalar]:
        """See `Layout`: the columns by whose values a file's partition is chosen; files of Hive leave them out.

        Raises:
            SinkError: the file has no field ids, and its columns have other names.
        """
        if self.names:
            self._check_names(file)
        if not (text := file.get("partition")):
            return {}
        fields = zip(self.specs[file["spec"]], partition_values(text), strict=True)
        return {
            of.source: _scalar(value, self.schema.field(of.source).type)
            for of, value in fields
            if of.transform == "identity" and of.source in self.schema.names
        }

    def _check_names(self, file: Mapping[str, Any]) -> None:
        """Checks that a file without field ids has the columns by the names of the table: see `name_mapping`."""
        path = f"{self.folder.path}/{file['path']}"
        try:
            with self.folder.open(file["path"], file["size"]) as source:
                stored = pq.read_schema(source)
        except (OSError, pa.ArrowInvalid) as error:
            raise SinkError(f"{path}: a data file of the table cannot be read: {error}. {TABLE_DAMAGED}") from error
        if any(_FIELD_ID in (column.metadata or {}) for column in stored):
            return
        mapped = {self.names[name]: name for name in stored.names if name in self.names}
        for column in self.schema:
            name = mapped.get(int(column.metadata[_FIELD_ID]))
            if name != (column.name if column.name in stored.names else None):
                raise SinkError(
                    f"{path}: the file has no field ids, and column {column.name} of the table is {name or 'none'} in it. "
                    "Write the table's files again by another program (rewrite_data_files with `rewrite-all`)"
                )

    def completed(self, rows: pa.RecordBatch, start: int, file: Mapping[str, Any]) -> pa.RecordBatch:
        """See `Layout`: rows keep their id in another file, and if they are not changed the number of their last snapshot."""
        first = file.get("first_row_id")
        if first is None or ROW_ID not in rows.schema.names:
            return rows
        ids = pa.array(np.arange(first + start, first + start + rows.num_rows))
        filled = {ROW_ID: ids, UPDATED: pa.scalar(file["sequence_number"], pa.int64())}
        columns = [
            pc.coalesce(column, filled[name]) if name in filled else column
            for name, column in zip(rows.schema.names, rows.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)

    def deleted(self, vector: str) -> RowNumbers:
        """See `Layout`: for the text see `Deletes.to_text`."""
        return deleted_rows(self.folder, vector)


def partition_text(values: Sequence[pa.Scalar]) -> str:
    """Returns the text of a partition: JSON of a value for each field, in Iceberg's encoding as base64, or null."""
    return values_text([_whole(value) for value in values])


def values_text(values: Sequence[bytes | None]) -> str:
    """Returns the text of a partition of encoded values."""
    return msgspec.json.encode(values).decode()


def partition_values(text: str) -> list[bytes | None]:
    """Returns the values of a partition's text, in Iceberg's encoding of single values."""
    return msgspec.json.decode(text or "[]", type=list[bytes | None])


def _whole(scalar: pa.Scalar) -> bytes | None:
    """Encodes a value of a partition, as a bound that is not shortened."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    value = scalar.value if pa.types.is_temporal(kind) else scalar.as_py()
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return value.encode() if isinstance(value, str) else bytes(value)
    return _encoded(value, kind, upper=False)


def _scalar(value: bytes | None, kind: pa.DataType) -> pa.Scalar:
    """Decodes a value of a partition: the inverse of `_whole`."""
    if value is None or pa.types.is_binary(kind):
        return pa.scalar(value, kind)
    if pa.types.is_string(kind):
        return pa.scalar(value.decode(), kind)
    number = int.from_bytes(value, "big" if pa.types.is_decimal(kind) else "little", signed=True)
    if pa.types.is_decimal(kind):
        return pa.scalar(Decimal(number).scaleb(-kind.scale, _EXACT), kind)
    if pa.types.is_boolean(kind):
        return pa.scalar(number != 0, kind)
    return pa.scalar(number, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)


def metrics(footer: Any, schema: pa.Schema, floats: Mapping[str, Floats]) -> Metrics:
    """Returns the metrics of a file.

    Args:
        footer: the file's Parquet metadata.
        schema: the file's columns, with field ids.
        floats: column -> statistics of its values, for columns of floating-point numbers.
    """
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    made = Metrics({}, {}, {}, {}, {}, [_start(group) for group in groups])
    floats_by_id = {int(schema.field(name).metadata[_FIELD_ID]): floats[name] for name in floats}
    for place, (number, kind) in enumerate(leaves(schema)):
        if number > _LAST_FIELD_ID:
            continue
        columns = [group.column(place) for group in groups]
        made.sizes[number] = sum(column.total_compressed_size for column in columns)
        made.counts[number] = sum(column.num_values for column in columns)
        if kind is None:
            continue
        if (values := floats_by_id.get(number)) is not None:
            made.nulls[number], bounds = values.nulls, values.bounds
        else:
            statistics = [column.statistics for column in columns]
            if any(of is None or not of.has_null_count for of in statistics):
                continue
            made.nulls[number] = sum(of.null_count for of in statistics)
            bounds = _footer_bounds(statistics, kind)
        if bounds is not None:
            _add_bounds(made, number, bounds, kind)
    return made


def leaves(schema: pa.Schema) -> list[tuple[int, pa.DataType | None]]:
    """Returns field id and type of each column of a Parquet file with this schema; None for a column inside another."""
    columns = list[tuple[int, pa.DataType | None]]()
    for column in schema:
        _add_leaves(column, columns.append, top=True)
    return columns


def _add_leaves(field: pa.Field, add: Callable[[tuple[int, pa.DataType | None]], None], *, top: bool) -> None:
    kind = field.type
    if pa.types.is_map(kind):
        inner = [kind.key_field, kind.item_field]
    elif pa.types.is_nested(kind):
        inner = [kind.field(i) for i in range(kind.num_fields)]
    else:
        add((int(field.metadata[_FIELD_ID]), kind if top else None))
        return
    for child in inner:
        _add_leaves(child, add, top=False)


def _start(group: Any) -> int:
    first = group.column(0)
    pages: int = first.data_page_offset
    return min(pages, first.dictionary_page_offset) if first.has_dictionary_page else pages


def _footer_bounds(statistics: list[Any], kind: pa.DataType) -> tuple[Any, Any] | None:
    filled = [of for of in statistics if of.num_values]
    if not filled or not all(of.has_min_max for of in filled):
        return None
    low, high = ("min_raw", "max_raw") if pa.types.is_temporal(kind) else ("min", "max")
    return min(getattr(of, low) for of in filled), max(getattr(of, high) for of in filled)


def _add_bounds(made: Metrics, number: int, bounds: tuple[Any, Any], kind: pa.DataType) -> None:
    low, high = _encoded(bounds[0], kind, upper=False), _encoded(bounds[1], kind, upper=True)
    for of, bound in ((made.lower, low), (made.upper, high)):
        if bound is not None:
            of[number] = base64.b64encode(bound).decode()


def _encoded(value: Any, kind: pa.DataType, *, upper: bool) -> bytes | None:
    """Encodes a bound as Iceberg does; None if there is no such bound."""
    if pa.types.is_string(kind):
        return _text(value, upper=upper)
    if pa.types.is_binary(kind):
        return _bytes(bytes(value), upper=upper)
    if pa.types.is_decimal(kind):
        unscaled = int(Decimal(value).scaleb(kind.scale, _EXACT))
        return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)
    if pa.types.is_boolean(kind):
        return b"\x01" if value else b"\x00"
    if pa.types.is_floating(kind):
        return struct.pack("<f" if pa.types.is_float32(kind) else "<d", value)
    return struct.pack("<i" if pa.types.is_int32(kind) or pa.types.is_date32(kind) else "<q", value)


def _text(value: str, *, upper: bool) -> bytes | None:
    if len(value) <= _LENGTH or not upper:
        return value[:_LENGTH].encode()
    kept = value[:_LENGTH].rstrip(chr(_LAST_CHARACTER))
    if not kept:
        return None
    last = ord(kept[-1]) + 1
    return (kept[:-1] + chr(_SURROGATES.stop if last in _SURROGATES else last)).encode()


def _bytes(value: bytes, *, upper: bool) -> bytes | None:
    if len(value) <= _LENGTH or not upper:
        return value[:_LENGTH]
    kept = value[:_LENGTH].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
