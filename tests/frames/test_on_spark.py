"""Tests that need Spark itself: it accepts and returns the Arrow types of the map, and its casts convert as expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.frames.convert import to_canonical, to_sink
from changefeed.frames.retype import Details, conversion
from changefeed.frames.types import sink_type
from changefeed.model.definition import Table
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.model.values import reader
from changefeed.sinks.sql import rewritten
from changefeed.sinks.writes import ConvertedFrom, Rewrite
from tests.frames.retyping import column, recorded

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


def test_conversions_in_spark_are_those_in_arrow(spark: SparkSession) -> None:
    """One pair of types of each two families, all in one DataFrame: in SQL where Spark's CAST is the same, else in Python."""
    pairs = list({(p.old.name, p.new.name): p for p in recorded("mariadb")}.values())[::7]
    details = Details("mariadb", charset="utf8mb4")
    pairs = [p for p in pairs if conversion(p.old, p.new, details) is not None]
    most = max(len(p.before) for p in pairs)
    arrays = [column(p.old, [*p.before, *[None] * (most - len(p.before))]) for p in pairs]
    table = Table("d", "t", tuple(Column(f"c{i}", p.new) for i, p in enumerate(pairs)))
    expressions = tuple(ConvertedFrom(column=f"c{i}", type=p.old, details=details) for i, p in enumerate(pairs))
    write = Rewrite(path="d/t", number=1, table=table, expressions=expressions)
    before = spark.createDataFrame(pa.table(arrays, names=[c.name for c in table.columns]))
    after = rewritten(before, write, ()).toArrow()
    assert len(pairs) > 30
    for i, p in enumerate(pairs):
        made = conversion(p.old, p.new, details)
        assert made is not None
        assert after.schema.field(i).type == sink_type(p.new).arrow, p
        assert to_canonical(after.column(i), p.new) == to_canonical(made.values(arrays[i]), p.new), p


def test_a_constant_replaces_null_after_a_conversion(spark: SparkSession) -> None:
    table = Table("d", "t", (Column("a", ColumnType("bigint")), Column("b", ColumnType("char", length=1))))
    expressions = (
        ConvertedFrom(column="a", type=ColumnType("int"), null="0"),
        ConvertedFrom(column="b", type=ColumnType("varchar", length=2), null=""),
    )
    write = Rewrite(path="d/t", number=1, table=table, expressions=expressions)
    before = spark.createDataFrame(pa.table({"a": pa.array([1, None], pa.int32()), "b": ["xy", None]}))
    assert rewritten(before, write, ()).toArrow().to_pylist() == [{"a": 1, "b": "x"}, {"a": 0, "b": ""}]
