"""Computes and reads the statistics of a data file in Delta's log: rows, NULLs, and the bounds by which readers skip files.

Most come from the file's footer. A bound that might hide a row is left out:

    text            32 characters; the upper bound of a longer one ends in U+10FFFF
    timestamps      milliseconds, the lower bound rounded down, the upper one up; none outside the years 1 to 9999
    float, double   of the values, not of the footer, which leaves out NaN: to Spark it is the largest number
    binary, boolean, nested   none, as in files of Delta's own writer
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.sinks.apply.layout import Floats

INDEXED = 32  # columns, the default of `delta.dataSkippingNumIndexedCols`
_LENGTH = 32  # characters
_MILLISECOND = 1000  # microseconds by which a timestamp may lie above the bound that another writer gave
_MOST = "\U0010ffff"
_DAYS = (-719_162, 2_932_896)  # 0001-01-01 to 9999-12-31
_LATEST = (_DAYS[1] + 1) * 86_400_000_000 - 1  # microseconds: the end of the year 9999
_MILLISECONDS = (_DAYS[0] * 86_400_000, (_DAYS[1] + 1) * 86_400_000 - 1)
_JSON = msgspec.json.Encoder(decimal_format="number")  # with all their digits
_DIGITS = 15  # of a decimal that floating-point numbers keep
_ROUNDING = Decimal(2) ** -50  # a multiple of the relative error of a floating-point number
_EXACT = Context(prec=100)
_READ = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)


def statistics(footer: Any, schema: pa.Schema, floats: Mapping[str, Floats], indexed: int = INDEXED) -> str:
    """Returns the JSON of a file's statistics.

    Args:
        footer: the file's Parquet metadata.
        schema: the file's columns.
        floats: column -> statistics of its values, for columns of floating-point numbers.
        indexed: number of columns that get statistics; all if it is negative.
    """
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    low, high, nulls = dict[str, Any](), dict[str, Any](), dict[str, int]()
    leaf = 0
    for place, field in enumerate(schema):
        mine, leaf = leaf, leaf + _leaves(field.type)
        if pa.types.is_nested(field.type) or 0 <= indexed <= place:
            continue
        if field.name in floats:
            nulls[field.name], bounds = floats[field.name].nulls, floats[field.name].bounds
        else:
            columns = [group.column(mine).statistics for group in groups]
            if any(column is None or not column.has_null_count for column in columns):
                continue
            nulls[field.name] = sum(column.null_count for column in columns)
            bounds = _bounds(columns, field.type)
        if bounds is not None:
            low[field.name], high[field.name] = bounds
    fields = {"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    return _JSON.encode(fields).decode()


def bounds_of(stats: Sequence[str | None], column: str, kind: pa.DataType) -> tuple[pa.Array, pa.Array] | None:
    """Reads the lower and the upper bounds of a column from the statistics of files; NULL where a file has none.

    delta-rs writes bounds of decimals as floating-point numbers, or as integers of 64 bits at most. So bounds of long decimals
    are widened, and left out where they may be such an integer.

    Args:
        stats: the JSON of each file's statistics.
        column: name of a column.
        kind: its type.

    Returns:
        Two arrays of type `kind`; None if no file has bounds, or they are not of the type.
    """
    if _bound_of(kind) is None:
        return None
    ends = []
    for name, sign in (("minValues", -1), ("maxValues", 1)):
        try:
            values = [((_READ.decode(one) or {}).get(name) or {}).get(column) if one else None for one in stats]
            if all(value is None for value in values):
                return None
            ends.append(_read_bounds(values, kind, sign))
        except (msgspec.MsgspecError, pa.ArrowException, AttributeError, TypeError, ValueError):
            return None
    return ends[0], ends[1]


def _read_bounds(values: Sequence[Any], kind: pa.DataType, sign: int) -> pa.Array:
    """Converts lower (`sign` -1) or upper bounds (1) from JSON to the type of their column."""
    if pa.types.is_decimal(kind):
        return pa.array(
            [None if value is None else _read_decimal(Decimal(value), kind, sign) for value in values], kind
        )
    bounds = pa.array(values, pa.int64() if pa.types.is_integer(kind) else pa.string()).cast(kind)
    if not pa.types.is_timestamp(kind) or sign < 0:
        return bounds
    wider = pc.add(bounds.cast(pa.int64()), _MILLISECOND)
    return pc.min_element_wise(wider, _LATEST, skip_nulls=False).cast(kind)


def _read_decimal(bound: Decimal, kind: pa.DataType, sign: int) -> Decimal | None:
    if kind.precision <= _DIGITS:
        return bound
    wide = bound + sign * abs(bound) * _ROUNDING
    fits = abs(bound) < 2**63 - 1 and wide.adjusted() < kind.precision - kind.scale
    return (
        wide.quantize(Decimal(1).scaleb(-kind.scale), ROUND_CEILING if sign > 0 else ROUND_FLOOR, _EXACT)
        if fits
        else None
    )


def _leaves(kind: pa.DataType) -> int:
    return sum(_leaves(kind.field(i).type) for i in range(kind.num_fields)) if pa.types.is_nested(kind) else 1


def _bounds(columns: Sequence[Any], kind: pa.DataType) -> tuple[Any, Any] | None:
    written = _bound_of(kind)
    filled = [column for column in columns if column.num_values]
    if written is None or not filled or not all(column.has_min_max for column in filled):
        return None
    low = written(min(_values(filled, "min", kind)), False)
    high = written(max(_values(filled, "max", kind)), True)
    return None if low is None or high is None else (low, high)


def _values(columns: Iterable[Any], end: str, kind: pa.DataType) -> list[Any]:
    """Returns bounds of columns from the footer: strings and decimals as Python values, dates and timestamps as numbers."""
    return [getattr(column, f"{end}_raw" if pa.types.is_temporal(kind) else end) for column in columns]


def _bound_of(kind: pa.DataType) -> Callable[[Any, bool], Any] | None:
    """Returns the function that writes a bound of a column of this type; None if bounds are not written."""
    if pa.types.is_integer(kind):
        return lambda value, upper: int(value)
    if pa.types.is_decimal(kind):
        return lambda value, upper: Decimal(value)
    if pa.types.is_string(kind):
        return lambda value, upper: _text(value, upper=upper)
    if pa.types.is_date32(kind):
        return lambda value, upper: _day(value)
    if pa.types.is_timestamp(kind):
        return lambda value, upper: _instant(value, "Z" if kind.tz else "", upper=upper)
    return None


def _text(value: str, *, upper: bool) -> str | None:
    if len(value) <= _LENGTH:
        return value
    if not upper:
        return value[:_LENGTH]
    return None if value[_LENGTH] == _MOST else value[:_LENGTH] + _MOST


def _instant(value: int, zone: str, *, upper: bool) -> str | None:
    rounded = -(-value // 1000) if upper else value // 1000
    return str(np.datetime64(rounded, "ms")) + zone if _MILLISECONDS[0] <= rounded <= _MILLISECONDS[1] else None


def _day(value: int) -> str | None:
    return str(np.datetime64(value, "D")) if _DAYS[0] <= value <= _DAYS[1] else None
