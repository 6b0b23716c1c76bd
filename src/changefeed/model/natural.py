"""Converts between Python values and the ready form, which pyarrow takes for a column's Arrow type (see `values.py`).

    MySQL type                  Python
    integers, bit, year         int
    float, double, vector       float, list of float; a float has the shortest text that reads back to the same FLOAT
    decimal                     decimal.Decimal, with all of its digits
    date                        datetime.date
    datetime                    datetime.datetime without a time zone
    timestamp                   datetime.datetime in UTC
    time                        str, as MySQL prints it: it reaches ±838:59:59 and keeps its digits
    text kinds, json            str
    binary kinds                bytes
    enum, set                   str; int where the members are unknown
    geometry kinds              {"srid": int, "wkb": bytes}

Both directions are exact: a value that was read is written unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from changefeed.errors import SchemaError
from changefeed.model.types import ColumnType
from changefeed.model.values import shortest_float32

_DAY_ZERO = date(1970, 1, 1).toordinal()
_WALL_CLOCK = datetime(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)


def _unchanged(value: Any) -> Any:
    return value


@lru_cache(maxsize=4096)
def to_python(t: ColumnType) -> Callable[[Any], Any]:
    """Returns a function that converts ready values of this type to Python values. The caller handles NULL."""
    match t.name:
        case "date":
            return lambda days: date.fromordinal(days + _DAY_ZERO)
        case "datetime":
            return lambda us: _WALL_CLOCK + timedelta(microseconds=us)
        case "timestamp":
            return lambda us: _EPOCH + timedelta(microseconds=us)
        case "decimal" if t.length is None:
            return Decimal
        case "float":
            return shortest_float32
        case "vector":
            return lambda items: [shortest_float32(item) for item in items]
        case _:
            return _unchanged


@lru_cache(maxsize=4096)
def from_python(t: ColumnType) -> Callable[[Any], Any]:
    """Returns a function that converts Python values to ready values of this type. The caller handles NULL.

    That function raises SchemaError for a value of a wrong Python type. Arrow would accept some of these, and report
    others less clearly.
    """
    match t.name:
        case "date":
            return lambda value: _of(date, value, t).toordinal() - _DAY_ZERO
        case "datetime":
            return lambda value: (_moment(value, t, zoned=False) - _WALL_CLOCK) // _US
        case "timestamp":
            return lambda value: (_moment(value, t, zoned=True) - _EPOCH) // _US
        case "decimal" if t.length is None:
            return lambda value: format(_of(Decimal, value, t), "f")
        case _:
            return _unchanged


def _of(kind: type, value: Any, t: ColumnType) -> Any:
    if not isinstance(value, kind) or (kind is date and isinstance(value, datetime)):
        raise SchemaError(f"{value!r} is not {t.with_article}: expected {kind.__name__}")
    return value


def _moment(value: Any, t: ColumnType, *, zoned: bool) -> Any:
    moment = _of(datetime, value, t)
    if (moment.tzinfo is not None) is not zoned:
        raise SchemaError(
            f"{value!r} is not {t.with_article}: expected a datetime {'with' if zoned else 'without'} a time zone"
        )
    return moment


def inferred(values: Iterable[Any]) -> ColumnType | None:
    """Infers the MySQL type that holds all of these Python values; None if all of them are None.

    Raises:
        SchemaError: no type can hold all of them.
    """
    types = {_type(value) for value in values if value is not None}
    for wide in ("double", "bigint unsigned"):
        if types == {"bigint", wide}:
            types = {wide}
    if len(types) > 1:
        raise SchemaError(f"no column type can hold all of {', '.join(sorted(types))}")
    return ColumnType.parse(types.pop()) if types else None


def _type(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "bigint" if -(2**63) <= value < 2**63 else "bigint unsigned"
        case datetime():
            return "datetime(6)" if value.tzinfo is None else "timestamp(6)"
        case {"srid": _, "wkb": _}:
            return "geometry"
    name = _PLAIN.get(type(value))
    if name is None:
        raise SchemaError(f"{value!r} has no MySQL type")
    return name


_PLAIN = {float: "double", str: "varchar", bytes: "varbinary", Decimal: "decimal", date: "date", list: "vector"}
