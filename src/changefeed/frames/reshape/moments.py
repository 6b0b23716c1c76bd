"""Dates, times and both: midnights, and fractions of other lengths."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.reshape.parts import Reshaped, blank
from changefeed.model.types import ColumnType
from changefeed.model.values import writer


def temporal(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts datetime(p) to datetime(q), and timestamp(p) to timestamp(q)."""
    if (source.length or 0) <= (target.length or 0):
        return array, {}
    unit = 10 ** (6 - (target.length or 0))
    us = array.cast(pa.int64())
    finer = pc.not_equal(pc.multiply(pc.divide(us, unit), unit), us)
    write, kept = writer(source), blank(array, finer)[0]
    rows = pc.indices_nonzero(pc.fill_null(finer, False))
    texts = [write(value) for value in us.take(rows).to_pylist()]
    return kept, dict(zip(rows.to_pylist(), texts, strict=True))


def time(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts texts of TIME to another precision; those that would lose a digit other than 0 are irregular."""
    if source.length == target.length:
        return array, {}
    digits = target.length or 0
    dotted = pc.replace_substring_regex(array, r"^([^.]*)$", r"\1.")
    parts = pc.extract_regex(
        pc.binary_join_element_wise(dotted, "000000", ""), rf"^(?P<kept>[^.]*\.[0-9]{{{digits}}})(?P<rest>.*)$"
    )
    finer = pc.match_substring_regex(pc.struct_field(parts, "rest"), "[1-9]")
    kept = pc.utf8_rtrim(pc.struct_field(parts, "kept"), ".")
    return pc.if_else(finer, pa.scalar(None, pa.string()), kept), blank(array, finer)[1]


def date_to_datetime(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts DATE to DATETIME: the midnight at which the day begins."""
    return array.cast(pa.timestamp("us")), {}
