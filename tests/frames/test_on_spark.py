"""The Arrow types of the map are what Spark takes and gives: a column of every type goes through `mapInArrow` and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from changefeed.frames.convert import to_canonical, to_sink
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


@pytest.mark.slow
def test_every_type_goes_through_spark_and_back(spark: SparkSession) -> None:
    types = [ColumnType.parse(name) for name, _ in COLUMNS]
    arrays = [
        to_sink(pa.array([None if v is None else reader(t)(v) for v in values], t.arrow), t)
        for t, (_, values) in zip(types, COLUMNS, strict=True)
    ]
    sent = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
    ipc = sent.serialize().to_pybytes()
    schema = sent.schema.serialize().to_pybytes()

    def give(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.ipc.read_record_batch(pa.py_buffer(ipc), pa.ipc.read_schema(pa.py_buffer(schema)))

    ddl = ", ".join(f"c{i} {sink_type(t).sql}" for i, t in enumerate(types))
    found = spark.range(1, numPartitions=1).mapInArrow(give, ddl).toArrow()
    for i, (t, (name, values)) in enumerate(zip(types, COLUMNS, strict=True)):
        assert to_canonical(found.column(i), t) == values, name
