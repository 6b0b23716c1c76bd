"""decode of protocols that require whole partitions: for any distribution of the records, changes are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from changefeed import record_log
from changefeed.frames.chunks import CHUNKS_DDL, RECORDS_DDL, unpack
from changefeed.frames.slices import Slice, Slices
from changefeed.stages.decode import decode
from tests.protocols.conformance.cases import DATA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOP = DATA / "shop"
AVRO = {
    "schema-registry": str(SHOP / "ticdc-avro/avro-watermark.classic.schemas.json"),
    "topic": "{schema}_{table}",
    "enable-tidb-extension": "true",
    "avro-enable-watermark": "true",
}
HISTORIES: list[tuple[str, dict[str, Any], str]] = [
    ("ticdc-avro", AVRO, "ticdc-avro/avro-watermark.classic.jsonl.gz"),
    ("tencent-dts", {}, "tencent-dts/four-partitions-split.jsonl.gz"),
]


def sliced(spark: SparkSession, log: str, count: int) -> Slices:
    step = -(-count // 7)
    return Slices(spark, [Slice(log, start=at, stop=min(at + step, count)) for at in range(0, count, step)])


def in_partitions(spark: SparkSession, log: str, count: int) -> DataFrame:
    """The records as Kafka's source has them: a task for each partition, in order."""
    records = sliced(spark, log, count).each().frame(RECORDS_DDL)
    return records.repartition(5, "topic", "partition").sortWithinPartitions("topic", "partition", "offset")


def scattered(spark: SparkSession, log: str, count: int) -> DataFrame:
    return sliced(spark, log, count).each().frame(RECORDS_DDL).repartition(6)


def summary(chunks: DataFrame) -> tuple[dict[str, int], list[tuple[Any, ...]]]:
    """The number of chunks of each kind but rows, with the records read; and position and commit_ts of each row."""
    rows, counts = list[tuple[Any, ...]](), dict[str, int]()
    for chunk in chunks.collect():
        if chunk.kind == "rows":
            table = unpack(chunk.payload)
            columns = (table.rows.column(n).to_pylist() for n in ("topic", "partition", "offset", "index", "commit_ts"))
            rows += ((table.shape.table, *place) for place in zip(*columns, strict=True))
        elif chunk.kind not in ("sent", "places"):  # lines about rows, which each task writes for what it has read
            counts[chunk.kind] = counts.get(chunk.kind, 0) + (chunk.rows if chunk.kind == "read" else 1)
    return counts, sorted(rows, key=str)


@pytest.mark.heavy
@pytest.mark.parametrize("protocol, options, file", HISTORIES)
def test_records_have_the_same_changes_with_any_distribution_to_tasks(
    spark: SparkSession, protocol: str, options: dict[str, Any], file: str
) -> None:
    log = str(SHOP / file)
    count = record_log.count(log)
    ways: list[tuple[Callable[..., DataFrame | Slices], bool]] = [
        (in_partitions, True),
        (scattered, False),
        (sliced, False),
    ]
    summaries = [
        summary(decode(way(spark, log, count), protocol, options, whole=whole).frame(CHUNKS_DDL)) for way, whole in ways
    ]
    counts, rows = summaries[0]
    assert counts["read"] == count
    assert "dead" not in counts
    assert len(rows) > 1000
    assert summaries[1:] == [summaries[0]] * 2
