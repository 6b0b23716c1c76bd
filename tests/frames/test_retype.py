"""Changes of a column's type that an expression can follow, and changes that it cannot."""

from __future__ import annotations

import pytest

from changefeed.frames.retype import retyped
from changefeed.model.types import ColumnType

# The results of the expressions are tested on Spark: test_on_spark.py.
EXPRESSIONS = [
    ("varchar(3)", "varchar(9)", "c"),
    ("int", "bigint", "CAST(c AS bigint)"),
    ("decimal(10,3)", "int", "CAST(round(c) AS int)"),
    ("varchar(3)", "char(3)", "rtrim(c)"),
    ("time", "time(3)", "concat(c, '.000')"),
    ("varbinary(3)", "binary(4)", "rpad(c, 4, X'00')"),
]
UNKNOWN = [
    ("int", "year"),
    ("double", "int"),
    ("double", "decimal(10,2)"),
    ("float", "float(7,3)"),
    ("decimal(45,2)", "int"),
    ("decimal(45,4)", "decimal(45,2)"),
    ("decimal(38,10)", "decimal(65,30)"),
    ("varchar(9)", "int"),
    ("varchar(9)", "json"),
    ("varchar(9)", "enum('a')"),
    ("varchar(9)", "varbinary(9)"),
    ("blob", "text"),
    ("enum", "enum('a')"),
    ("enum('a')", "enum('A')"),
    ("set('a','b')", "set('b','a')"),
    ("datetime(6)", "datetime(3)"),
    ("datetime", "date"),
    ("datetime", "timestamp"),
    ("time(3)", "time"),
    ("year", "varchar(4)"),
    ("geometry", "point"),
    ("vector(2)", "vector(3)"),
]


@pytest.mark.parametrize("old, new, expression", EXPRESSIONS)
def test_followed(old: str, new: str, expression: str) -> None:
    assert retyped("c", ColumnType.parse(old), ColumnType.parse(new)) == expression


@pytest.mark.parametrize("old, new", UNKNOWN)
def test_not_followed(old: str, new: str) -> None:
    assert retyped("c", ColumnType.parse(old), ColumnType.parse(new)) is None
