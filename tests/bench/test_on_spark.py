"""Measurements on Spark: every way is measured, and one of them reads the values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from changefeed.bench import every, on_spark, spark_peers
from changefeed.bench.changes import FORMS, workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


JSON = [name for name, (_, form) in FORMS.items() if form.values in ("json", "framed json")]


@pytest.mark.parametrize("form", [form for form in JSON if spark_peers.usual(form, [], {}) is not None])
def test_spark_reads_the_values_of_json(spark: SparkSession, form: str) -> None:
    work = workload(form, 20)
    usual = spark_peers.usual(form, work.values, work.schemas)
    assert usual is not None
    name, typed = usual
    values = spark.createDataFrame([(value,) for value in work.values], "value binary")
    rows = [row.asDict(recursive=True)["row"] for row in values.select(typed(values["value"]).alias("row")).collect()]
    assert name == "from_json"
    inner = [row.get("payload") or row for row in rows]
    images: list[dict[str, Any]] = [
        next(filter(None, (i.get(n) for n in ("u", "d", "after", "before")))) for i in inner
    ]
    ids = [image["id"]["v"] if isinstance(image["id"], dict) else image["id"] for image in images]
    assert ids == list(range(1, 21))
    assert all(value is not None for name, value in images[1].items() if name not in ("total", "note"))


@pytest.mark.heavy
@pytest.mark.parametrize("form", ["debezium-mysql", "tencent-dts"])
def test_every_way_is_measured(spark: SparkSession, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every, "ON_SPARK", {"spark": (200, 10**6), "files": (300, 10**6)})
    monkeypatch.setattr(on_spark, "RUNS", 0)
    speeds = list(every.measure_on_spark(spark, workload(form, 100)))
    usual = [] if form == "tencent-dts" else ["from_json"]
    ways = [("spark", way) for way in [*usual, "decode", "identity", "one way"]]
    assert [(s.where, s.what) for s in speeds] == [*ways, *(("files", way) for way in [*usual, "decode"])]
    assert all(speed.rows_per_second > 0 for speed in speeds)
