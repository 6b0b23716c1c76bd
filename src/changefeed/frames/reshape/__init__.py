"""A column from one MySQL type to another, in the core's Arrow types, whole columns at a time.

A value that the new type cannot hold exactly is NULL in the result, and its text is returned under its row. Exactly
means with the same canonical meaning: `1.50` fits decimal(10,1), `1.55` does not; a datetime(6) fits datetime(3) when
its last three digits are zero; index 2 of an enum fits two members, index 3 does not.

    from           to                       how
    integers       integers                 range check, cast
    integers       decimal, float, double   exact ones only
    decimal, text  integers, decimal        by the digits of their text
    double         float                    when the shortest text stays the same
    date           datetime                 midnight
    datetime(p)    datetime(q)              what is finer than q digits must be zero; so timestamps and times
    enum, set      enum(…), set(…)          index and bits to members
    text           enum(…), set(…)          members only
    text           binary and back          UTF-8
    anything       text                     canonical text
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from changefeed.errors import SchemaError
from changefeed.frames.reshape import members, moments, numbers, texts
from changefeed.frames.reshape.parts import Reshaped, family, plain_text
from changefeed.model.types import ColumnType

__all__ = ["Reshaped", "family", "plain_text", "reshape"]


def reshape(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    """Converts a column from one type to another.

    Returns:
        The column in `target.arrow`, and row -> text of the values that this type cannot hold: NULL in the column.

    Raises:
        SchemaError: no value of `source` means anything in `target`.
    """
    if source == target:
        return array, {}
    families = family(source), family(target)
    if families[0] == "null":
        return pa.nulls(len(array), target.arrow), {}
    route = _ROUTES.get(families)
    if route is None and families[1] == "text":
        route = texts.to_text
    if route is None and families[0] == families[1]:
        route = _unchanged
    if route is None:
        raise SchemaError(f"a column of type {target} cannot take values of type {source}")
    return route(array, source, target)


def _unchanged(array: pa.Array, source: ColumnType, target: ColumnType) -> Reshaped:
    return array, {}


_Route = Callable[[pa.Array, ColumnType, ColumnType], Reshaped]
_ROUTES: dict[tuple[str, str], _Route] = {
    ("integer", "integer"): numbers.integers,
    ("integer", "real"): numbers.integer_to_real,
    ("integer", "decimal"): numbers.integer_to_decimal,
    ("decimal", "decimal"): numbers.decimal_to_decimal,
    ("decimal", "integer"): numbers.decimal_to_integer,
    ("real", "real"): numbers.real,
    ("real", "decimal"): numbers.real_to_decimal,
    ("date", "datetime"): moments.date_to_datetime,
    ("datetime", "datetime"): moments.temporal,
    ("timestamp", "timestamp"): moments.temporal,
    ("time", "time"): moments.time,
    ("enum", "enum members"): members.index_to_member,
    ("set", "set members"): members.bits_to_members,
    ("enum members", "enum members"): members.text_to_members,
    ("set members", "set members"): members.text_to_members,
    ("text", "enum members"): members.text_to_members,
    ("text", "set members"): members.text_to_members,
    ("text", "integer"): numbers.text_to_integer,
    ("text", "decimal"): numbers.text_to_decimal,
    ("text", "binary"): texts.text_to_binary,
    ("binary", "text"): texts.binary_to_text,
    ("text", "date"): texts.text_to,
    ("text", "datetime"): texts.text_to,
    ("text", "time"): texts.text_to,
}
