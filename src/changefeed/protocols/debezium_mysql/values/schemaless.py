"""Infers column types from payloads without schema, as far as JSON values show them.

    value                             type               why not more
    "…"                               varchar            may be text, base64, an enum's label, a date
    integer                           bigint             may be a date in days, a time in µs; above 2^63-1 unsigned
    number with a point or exponent   double             decimal where no double prints so, but a DECIMAL of MySQL may:
                                                         `decimal.format=NUMERIC`, or a double in the digits of an old Java
    true, false                       boolean
    {"wkb", "srid"}, with x and y     geometry, point
    [1.0, …]                          vector
    any other object or array         json
    null                              null               joins the shape of the rows around it

The schema-change topic has the columns' definitions, and a later step applies them: nothing is lost until then.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from changefeed.connect import java_json
from changefeed.connect.schema import Node
from changefeed.model.types import ColumnType
from changefeed.mysql.type_codes import MOST_DIMENSIONS
from changefeed.protocols.debezium_mysql.values import numbers
from changefeed.protocols.debezium_mysql.values.reading import reading
from changefeed.protocols.debezium_mysql.values.times import as_number
from changefeed.wire.floats import float32
from changefeed.wire.strict_json import Number

_GEOMETRY = "io.debezium.data.geometry."
NUMBER = Node("number")  # a number as it stands, for what no Connect type holds
NODES: dict[str, Node] = {
    "varchar": Node("string"),
    "bigint": Node("int64"),
    "bigint unsigned": NUMBER,
    "decimal": NUMBER,
    "double": Node("double"),
    "boolean": Node("boolean"),
    "point": Node("struct", name=_GEOMETRY + "Point"),
    "geometry": Node("struct", name=_GEOMETRY + "Geometry"),
    "vector": Node("array", items=Node("float")),
    "json": Node("map"),
    "null": Node("string"),
}
_READ: dict[str, Callable[[Any], Any]] = {
    **{name: reading(node)[1] for name, node in NODES.items() if node is not NUMBER},
    "json": java_json.write,
    "bigint unsigned": int,
    "decimal": lambda value: format(numbers.read_number(value), "f"),
}
_TYPES = {name: ColumnType.parse(name) for name in NODES}
_SCIENTIFIC = re.compile(r"-?\d\.\d+E-?\d{1,3}", re.ASCII)
_NUMERIC = {"bigint", "bigint unsigned", "double", "decimal"}
_GEOMETRIES = {frozenset({"wkb", "srid"}): "geometry", frozenset({"x", "y", "wkb", "srid"}): "point"}
NULL = ColumnType("null")


def infer(values: list[Any]) -> ColumnType | None:
    """Infers the type of a column from its values in one row; None if all are NULL.

    Numbers of several kinds are decimals; anything else that differs is the text as sent.
    """
    kinds = {_kind(value) for value in values if value is not None}
    if not kinds:
        return None
    if len(kinds) > 1:
        return _TYPES["decimal" if kinds <= _NUMERIC else "json"]
    return _TYPES[kinds.pop()]


def read(value: Any, t: ColumnType) -> Any:
    """Reads a value, which is not null, of a column whose type `infer` returned.

    Raises:
        SchemaError: the value is a number that MySQL does not have.
    """
    return _READ[str(t)](value)


def node(t: ColumnType) -> Node:
    """Returns the node that writes a column of a type that `infer` returned."""
    return NODES.get(str(t), NODES["varchar"])


def _kind(value: Any) -> str:
    if type(value) is Number:
        return _number(value)
    if type(value) is str:
        return "varchar"
    if type(value) is bool:
        return "boolean"
    if isinstance(value, list):
        return "vector" if 0 < len(value) <= MOST_DIMENSIONS and all(map(_is_float, value)) else "json"
    if type(value.get("wkb")) is str and (value.get("srid") is None or value["srid"].isdigit()):
        return _GEOMETRIES.get(frozenset(value), "json")
    return "json"


def _is_float(value: Any) -> bool:
    return type(value) is Number and len(value) <= 40 and float32(value) is not None


def _number(value: Number) -> str:
    if as_number(value):
        return "bigint"
    if value.isdigit() and len(value) <= 20 and int(value) < 2**64:
        return "bigint unsigned"
    if len(value) <= 30 and (java_json.number(float(value), 64) == value or _is_not_decimal(value)):
        return "double"
    return "decimal"


def _is_not_decimal(value: Number) -> bool:
    """Whether a number in scientific notation is a double, as Java before 19 wrote it: a DECIMAL has 0 to 30 fraction digits."""
    return _SCIENTIFIC.fullmatch(value) is not None and not -30 <= int(Decimal(value).as_tuple().exponent) <= 0
