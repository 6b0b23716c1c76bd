"""The values of a column after a `Rewrite`, in Arrow: for sinks with Spark's types."""

from __future__ import annotations

import base64

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.retype import UNKNOWN, Conversion, Details, conversion, widened
from changefeed.frames.types import sink_type
from changefeed.model.types import ColumnType
from changefeed.sinks.writes import ConvertedFrom


def conversion_between(
    old: ColumnType, new: ColumnType, *, widening: bool = False, details: Details = UNKNOWN
) -> Conversion | None:
    """Returns the conversion for `TypeMap.conversion`; None if it is not known."""
    return widened(old, new) if widening else conversion(old, new, details)


def conversion_of(expression: ConvertedFrom, new: ColumnType) -> Conversion:
    """Returns the conversion of the old column, without `null`."""
    made = conversion_between(expression.type, new, widening=expression.widening, details=expression.details)
    assert made is not None, "the planner asks `conversion` first"
    return made


def constant(value: str | dict[str, str], new: ColumnType) -> pa.Scalar:
    """Returns the value of a `Constant` in the sink's type.

    Raises:
        pyarrow.ArrowException: Arrow does not read the text as Spark does.
    """
    kind = sink_type(new).arrow
    if isinstance(value, dict):
        return pa.scalar(base64.b64decode(value["base64"]), kind)
    return pa.scalar(value).cast(kind)


def converted(array: pa.Array, expression: ConvertedFrom, new: ColumnType) -> pa.Array:
    """Converts the values of the old column, in the sink's type for `expression.type`."""
    values = conversion_of(expression, new).values(array)
    return values if expression.null is None else pc.fill_null(values, constant(expression.null, new))
