"""Records in Kafka, for Spark's own source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.spark.shop import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.services.kafka import KafkaBroker

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]


def records(log: Log, topic: str) -> list[Record]:
    """The records of one of the log's topics."""
    rows = [row for row in log.records().to_pylist() if row["topic"] == topic]
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    return [(r["key"], r["value"], [(h["key"], h["value"]) for h in r["headers"] or ()], r["partition"]) for r in rows]


def source(spark: SparkSession, kafka: KafkaBroker, topic: str, *, stream: bool = False, **options: Any) -> DataFrame:
    reader: Any = spark.readStream if stream else spark.read
    settings = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        **options,
    }
    frame: DataFrame = reader.format("kafka").options(includeHeaders="true", **settings).load()
    return frame
