"""Tests that need Spark itself: it accepts and returns the Arrow types of the map, and its casts convert as expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.frames.convert import to_canonical, to_sink
from changefeed.frames.retype import retyped
from changefeed.frames.types import sink_type
from changefeed.model.types import ColumnType
from changefeed.model.values import reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS: list[tuple[str, list[Any]]] = [
    ("tinyint unsigned", [255, None]),
    ("int unsigned", [2**32 - 1, 0]),
    ("bigint unsigned", [2**64 - 1, None]),
    ("bit(64)", [2**64 - 1, 0]),
    ("year", [2155, 0]),
    ("float", [3.14, None]),
    ("double", [1e-10, -2.25]),
    ("decimal(38,10)", ["-1234567890123456789012345678.0123456789", None]),
    ("decimal(65,30)", ["9" * 35 + "." + "9" * 30, "-0." + "0" * 29 + "1"]),
    ("date", ["0001-01-01", "9999-12-31"]),
    ("datetime(3)", ["0001-01-01 00:00:00.001", "9999-12-31 23:59:59.999"]),
    ("timestamp(6)", ["1970-01-01T00:00:01.000001Z", "2038-01-19T03:14:07.999999Z"]),
    ("time(3)", ["-838:59:59.000", None]),
    ("varchar(9)", ["naïve 北京 🐟", ""]),
    ("varbinary(9)", [{"base64": "AAEC/w=="}, {"base64": ""}]),
    ("json", ['{"a": 1}', None]),
    ("enum('a','b')", ["b", ""]),
    ("enum", [{"index": 65535}, None]),
    ("set", [{"bits": 2**64 - 1}, {"bits": 0}]),
    ("point", [{"srid": 2**32 - 1, "wkb": "AQEAAAA="}, None]),
    ("vector(3)", [[1.5, 3.14, -2.0], []]),
    ("boolean", [True, None]),
]


def test_every_type_goes_through_spark_and_back(spark: SparkSession) -> None:
    types = [ColumnType.parse(name) for name, _ in COLUMNS]
    arrays = [
        to_sink(pa.array([None if v is None else reader(t)(v) for v in values], t.arrow), t)
        for t, (_, values) in zip(types, COLUMNS, strict=True)
    ]
    sent = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
    ipc = sent.serialize().to_pybytes()
    schema = sent.schema.serialize().to_pybytes()

    def give(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.ipc.read_record_batch(pa.py_buffer(ipc), pa.ipc.read_schema(pa.py_buffer(schema)))

    ddl = ", ".join(f"c{i} {sink_type(t).sql}" for i, t in enumerate(types))
    returned = spark.range(1, numPartitions=1).mapInArrow(give, ddl).toArrow()
    for i, (t, (name, values)) in enumerate(zip(types, COLUMNS, strict=True)):
        assert to_canonical(returned.column(i), t) == values, name


RETYPED: list[tuple[str, str, Any, Any]] = [
    ("int unsigned", "bigint unsigned", 2**32 - 1, 2**32 - 1),
    ("bigint", "int", -5, -5),
    ("int", "decimal(10,2)", 7, "7.00"),
    ("int", "decimal(40,3)", -7, "-7.000"),
    ("int", "double", 7, 7.0),
    ("int", "varchar(9)", -7, "-7"),
    ("boolean", "tinyint(1)", True, 1),
    ("bit(3)", "int", 5, 5),
    ("decimal(10,3)", "decimal(10,2)", "-1.555", "-1.56"),
    ("decimal(10,3)", "int", "-2.500", -3),
    ("decimal(20,7)", "decimal(45,10)", "0.0000001", "0.0000001000"),
    ("decimal(45,2)", "decimal(50,4)", "1.50", "1.5000"),
    ("decimal(45,0)", "decimal(50,2)", "1", "1.00"),
    ("decimal(45,3)", "decimal(10,2)", "1.005", "1.01"),
    ("decimal", "decimal(10,2)", "1.5", "1.50"),
    ("float", "double", 1.5, 1.5),
    ("varchar(9)", "char(9)", "a  ", "a"),
    ("char(9)", "text", "a b", "a b"),
    ("json", "text", "[1]", "[1]"),
    ("varbinary(9)", "binary(3)", {"base64": "AQ=="}, {"base64": "AQAA"}),
    ("binary(1)", "blob", {"base64": "AQ=="}, {"base64": "AQ=="}),
    ("enum('a','b')", "enum('b','a','c')", "a", "a"),
    ("enum('a')", "varchar(9)", "a", "a"),
    ("set('a','b')", "set('a','b','c')", "a,b", "a,b"),
    ("date", "datetime(3)", "2026-01-02", "2026-01-02 00:00:00.000"),
    ("datetime(3)", "datetime(6)", "2026-01-02 03:04:05.100", "2026-01-02 03:04:05.100000"),
    ("time", "time(3)", "-01:02:03", "-01:02:03.000"),
    ("time(1)", "time(3)", "01:02:03.4", "01:02:03.400"),
    ("point", "geometry", {"srid": 1, "wkb": "AQ=="}, {"srid": 1, "wkb": "AQ=="}),
    ("null", "date", None, None),
]


def test_values_in_the_sink_become_what_the_upstream_made_of_them(spark: SparkSession) -> None:
    pairs = [(ColumnType.parse(old), ColumnType.parse(new)) for old, new, _, _ in RETYPED]
    arrays = [
        to_sink(pa.array([None if v is None else reader(old)(v), None], old.arrow), old)
        for (old, _), (_, _, v, _) in zip(pairs, RETYPED, strict=True)
    ]
    before = spark.createDataFrame(pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))]))
    after = before.selectExpr(*[f"{retyped(f'c{i}', *pair)} AS c{i}" for i, pair in enumerate(pairs)]).toArrow()
    for i, ((_, new), case) in enumerate(zip(pairs, RETYPED, strict=True)):
        assert to_canonical(after.column(i), new) == [case[3], None], case
