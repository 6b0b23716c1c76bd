"""The data files of Iceberg tables: names, and the metrics that manifests have of them.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import msgspec
import pyarrow as pa

from changefeed.sinks.apply.layout import Floats, RowNumbers
from changefeed.storage import Folder

_LENGTH = 16  # characters or bytes of a bound
_EXACT = Context(prec=100)
_LAST_CHARACTER, _SURROGATES = 0x10FFFF, range(0xD800, 0xE000)


class Metrics(msgspec.Struct, frozen=True):
    """The metrics of one data file: field id -> value.

    Attributes:
        sizes: bytes in the file.
        counts: number of values, NULLs included.
        nulls: number of NULLs.
        lower, upper: bounds, in Iceberg's encoding of single values, as base64.
        offsets: where row groups begin, in bytes.
    """

    sizes: dict[int, int]
    counts: dict[int, int]
    nulls: dict[int, int]
    lower: dict[int, str]
    upper: dict[int, str]
    offsets: list[int]


@dataclass(frozen=True, slots=True)
class IcebergLayout:
    """See `Layout`.

    Attributes:
        folder: the folder of the table.
        schema: the columns of new files, with field ids.
    """

    folder: Folder
    schema: pa.Schema
    footer: Mapping[str, str] = field(default_factory=dict)

    def new_name(self, number: int) -> str:
        """See `Layout`."""
        return f"data/{number:05d}-{uuid.uuid4()}.parquet"

    def statistics(self, footer: Any, schema: pa.Schema, floats: Mapping[str, Floats]) -> str:
        """See `Layout`: `Metrics` as JSON."""
        return msgspec.json.encode(metrics(footer, self.schema, floats)).decode()

    def deleted(self, vector: str) -> RowNumbers:
        """See `Layout`."""
        raise AssertionError("tables with delete files are refused")


def metrics(footer: Any, schema: pa.Schema, floats: Mapping[str, Floats]) -> Metrics:
    """Returns the metrics of a file.

    Args:
        footer: the file's Parquet metadata.
        schema: the file's columns, with field ids.
        floats: column -> statistics of its values, for columns of floating-point numbers.
    """
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    made = Metrics({}, {}, {}, {}, {}, [_start(group) for group in groups])
    floats_by_id = {int(schema.field(name).metadata[b"PARQUET:field_id"]): floats[name] for name in floats}
    for place, (number, kind) in enumerate(leaves(schema)):
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
        add((int(field.metadata[b"PARQUET:field_id"]), kind if top else None))
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
