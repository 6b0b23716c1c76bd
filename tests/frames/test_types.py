"""The sink's type map, and types that widen."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import TimestampNTZType

from changefeed.frames.types import sink_type, widen
from changefeed.model.types import ColumnType

MAP = [
    ("tinyint", "tinyint"),
    ("tinyint(1)", "tinyint"),
    ("tinyint unsigned", "smallint"),
    ("smallint", "smallint"),
    ("smallint unsigned", "int"),
    ("mediumint", "int"),
    ("mediumint unsigned", "int"),
    ("int", "int"),
    ("int unsigned", "bigint"),
    ("bigint", "bigint"),
    ("bigint unsigned", "decimal(20,0)"),
    ("year", "int"),
    ("bit(1)", "bigint"),
    ("bit(63)", "bigint"),
    ("bit(64)", "decimal(20,0)"),
    ("bit", "decimal(20,0)"),
    ("float", "float"),
    ("float(7,3)", "float"),
    ("double", "double"),
    ("decimal(12,2)", "decimal(12,2)"),
    ("decimal(38,10)", "decimal(38,10)"),
    ("decimal(39,0)", "string"),
    ("decimal", "string"),
    ("date", "date"),
    ("datetime(3)", "timestamp_ntz"),
    ("timestamp(6)", "timestamp"),
    ("time(3)", "string"),
    ("char(3)", "string"),
    ("longtext", "string"),
    ("json", "string"),
    ("binary(3)", "binary"),
    ("longblob", "binary"),
    ("enum('a')", "string"),
    ("set('a')", "string"),
    ("enum", "int"),
    ("set", "decimal(20,0)"),
    ("point", "struct<srid:bigint,wkb:binary>"),
    ("vector(3)", "array<float>"),
    ("boolean", "boolean"),
    ("null", "string"),
]


@pytest.mark.parametrize("mysql, sql", MAP)
def test_sink_type(mysql: str, sql: str) -> None:
    mapped = sink_type(ColumnType.parse(mysql))
    assert mapped.sql == sql
    arrow = from_arrow_type(mapped.arrow, prefer_timestamp_ntz=True)  # Spark's type for the Arrow type
    assert arrow.simpleString() == sql or (sql == "timestamp_ntz" and isinstance(arrow, TimestampNTZType))


LOSSY = [
    ("decimal(65,30)", "65 digits are more than Spark's 38: the number is kept as text"),
    ("decimal", "precision unknown until a schema change declares it: the number is kept as text"),
    ("enum", "members unknown until a schema change names them: the index is kept as a number"),
    ("set", "members unknown until a schema change names them: the bits are kept as a number"),
    ("null", "type unknown until a value or a schema change declares it"),
    ("bigint unsigned", None),
    ("time(3)", None),
]


@pytest.mark.parametrize("mysql, sentence", LOSSY)
def test_properties_that_a_type_does_not_keep_are_described(mysql: str, sentence: str | None) -> None:
    assert sink_type(ColumnType.parse(mysql)).lossy == sentence


WIDER = [
    ("int", "bigint", "bigint"),
    ("int", "int unsigned", "bigint"),
    ("tinyint", "tinyint unsigned", "smallint"),
    ("smallint unsigned", "int", "int"),
    ("mediumint", "smallint unsigned", "mediumint"),
    ("bigint", "bigint unsigned", "decimal(20,0)"),
    ("bigint unsigned", "int unsigned", "bigint unsigned"),
    ("tinyint(1)", "tinyint", "tinyint"),
    ("tinyint(1)", "boolean", "tinyint"),
    ("year", "tinyint", "smallint"),
    ("bit(3)", "bit(9)", "bit(9)"),
    ("bit(3)", "bit", "bit"),
    ("bit(16)", "int", "int"),
    ("decimal(10,2)", "decimal(5,4)", "decimal(12,4)"),
    ("decimal(10,2)", "decimal", "decimal"),
    ("decimal(10,2)", "bigint", "decimal(21,2)"),
    ("decimal(65,30)", "decimal(65,0)", "decimal"),
    ("float", "double", "double"),
    ("float", "int", "double"),
    ("double", "bigint", "longtext"),
    ("datetime(3)", "datetime", "datetime(3)"),
    ("timestamp(6)", "timestamp(3)", "timestamp(6)"),
    ("time", "time(2)", "time(2)"),
    ("date", "datetime(3)", "datetime(3)"),
    ("datetime", "timestamp", "longtext"),
    ("char(5)", "varchar(3)", "varchar(5)"),
    ("varchar(5)", "varchar", "varchar"),
    ("varchar", "tinytext", "text"),
    ("text", "longtext", "longtext"),
    ("binary(2)", "blob", "blob"),
    ("text", "blob", "longblob"),
    ("json", "text", "longtext"),
    ("enum", "enum('a')", "enum('a')"),
    ("enum('a')", "enum('a','b')", "enum('a','b')"),
    ("enum('a')", "enum('b')", "longtext"),
    ("point", "polygon", "geometry"),
    ("vector(2)", "vector(3)", "vector"),
    ("null", "date", "date"),
    ("date", "time", "longtext"),
]


@pytest.mark.parametrize("first, second, expected", WIDER)
def test_widen(first: str, second: str, expected: str) -> None:
    a, b = ColumnType.parse(first), ColumnType.parse(second)
    assert str(widen(a, b)) == expected
    assert widen(a, b) == widen(b, a)
