"""Columns from the decoder's Arrow type to the sink's, and from there to canonical values.

Two steps. `reshape` takes a column from the type of the record (`decimal`, an enum's index) to the type that the
table has (`decimal(12,2)`, `enum('a','b')`), both in the core's Arrow types; where the two agree it costs nothing.
`to_sink` then applies the sink's type map, which every value of a type fits by construction.

The type of a record may be less specific than that of the column: in Debezium's JSON without schemas a date is a number of
days, and an unsigned
bigint may have wrapped. If DDL declares the type, the protocol converts its values to it (`redefine`).

A value that the table's type cannot hold is NULL and its text is kept under its row: never wrapped, never rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.columnar.conversions import ByColumn
from changefeed.frames.reshape import Reshaped, family, plain_text, reshape
from changefeed.frames.types import SPARK_DIGITS, sink_type
from changefeed.model.types import ColumnType
from changefeed.model.values import IrregularError, writer
from changefeed.protocols.base import Redefine


@dataclass(frozen=True, slots=True)
class ConvertedColumn:
    """A column in the sink's type.

    Attributes:
        array: of the Arrow type `sink_type(target).arrow`.
        irregular: row -> text of the value that the target could not hold; the row is NULL in `array`.
    """

    array: pa.Array
    irregular: dict[int, str]


def convert(
    array: pa.Array,
    source: ColumnType,
    target: ColumnType,
    redefine: Redefine | None = None,
    charset: str | None = None,
) -> ConvertedColumn:
    """A decoded column of type `source` as the sink's column of type `target`; `charset`: as in `model.table.Column`.

    Raises:
        SchemaError: no value of `source` means anything in `target`, as an integer in a geometry column.
    """
    core, irregular = defined(array, source, target, redefine, charset)
    return ConvertedColumn(to_sink(core, target), irregular)


def defined(
    array: pa.Array,
    source: ColumnType,
    target: ColumnType,
    redefine: Redefine | None = None,
    charset: str | None = None,
) -> Reshaped:
    """A decoded column of type `source` as the core's column of type `target`, and row -> text of what that cannot hold.

    Raises:
        SchemaError: as `convert`.
    """
    if redefine is None or source == target or source.name == "null":
        return reshape(array, source, target)
    if family(source) == family(target) and not _mended(array, source, target):
        core, irregular = reshape(array, source, target)
        if not irregular:  # else it may have another form, such as an unsigned bigint that wrapped
            return core, irregular
    return _redefined(array, redefine(source, target, charset), source, target)


def _mended(array: pa.Array, source: ColumnType, target: ColumnType) -> bool:
    """Whether values of the target's kind may have to be mended: a bigint that wrapped, a BINARY that lost its zeros."""
    if target.name == "binary":
        shortest = pc.min(pc.binary_length(array)).as_py()
        return shortest is not None and shortest < (target.length or 1)
    return target.name == source.name == "bigint" and target.unsigned


def _redefined(array: pa.Array, change: Callable[[Any], Any], source: ColumnType, target: ColumnType) -> Reshaped:
    """The whole column at once if the protocol supports it; otherwise value by value, each distinct one once."""
    write = writer(source)
    whole = change.column(array) if isinstance(change, ByColumn) else None
    if whole is not None:
        return whole, {}
    plain = pa.types.is_nested(array.type)
    encoded = None if plain else array.dictionary_encode()
    results: list[Any] = []
    texts: dict[int, str] = {}
    for number, value in enumerate(ready(array if encoded is None else encoded.dictionary)):
        try:
            results.append(None if value is None else change(value))
        except IrregularError:
            results.append(None)
            texts[number] = str(write(value))
    values = pa.array(results, target.arrow)
    if encoded is None:
        return values, texts
    rows = encoded.indices.to_pylist() if texts else []
    return values.take(encoded.indices), {row: texts[n] for row, n in enumerate(rows) if n in texts}


def to_sink(array: pa.Array, t: ColumnType) -> pa.Array:
    """Converts a column from the core's Arrow type for `t` to the sink's Arrow type."""
    wanted = sink_type(t).arrow
    if array.type == wanted:
        return array
    if t.name == "decimal" and t.length is not None and t.length > SPARK_DIGITS:
        return plain_text(array)
    return array.cast(wanted)


def from_sink(array: pa.Array | pa.ChunkedArray, t: ColumnType) -> pa.Array:
    """A column of the sink's Arrow type for `t`, in the core's; the way back of `to_sink`.

    Arrow types that other Delta readers return for the same column (large strings, other time zones) are taken too.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.type == t.arrow:
        return array
    if pa.types.is_struct(array.type):
        fields = [array.field(f.name).cast(f.type) for f in t.arrow]
        return pa.StructArray.from_arrays(fields, fields=list(t.arrow), mask=pc.is_null(array))
    return array.cast(t.arrow)


def to_canonical(array: pa.Array | pa.ChunkedArray, t: ColumnType) -> list[Any]:
    """The canonical values of a column that lies in the sink as `t`; None for NULL."""
    core = from_sink(array, t)
    write = writer(t)
    return [None if value is None else write(value) for value in ready(core)]


def ready(array: pa.Array) -> list[Any]:
    """The column's values as `model.values` takes them: days and microseconds as integers."""
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    values: list[Any] = array.to_pylist()
    return values
