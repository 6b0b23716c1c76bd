"""`decode` and `encode` with Spark's own Kafka connector: a real broker, batches and streams, and restarts in the middle."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import changefeed.spark
from changefeed.errors import ConfigError
from tests.examples import by_turns
from tests.spark.from_kafka import records, source
from tests.spark.shop import LOGS, OPEN, SPLIT, Log, comparable, expected, final, shown
from tests.spark.streaming import follow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.services.kafka import KafkaBroker

AVRO = LOGS[2]


def _topic(kafka: KafkaBroker, partitions: int) -> str:
    topic = f"spark-{uuid.uuid4().hex}"
    kafka.create_topic(topic, partitions=partitions)
    return topic


@pytest.mark.heavy
@pytest.mark.parametrize(
    "log, name",
    by_turns(
        [
            pytest.param(OPEN, "shop", id="open"),
            pytest.param(SPLIT, "topic-subs-shop", id="split"),
            pytest.param(AVRO, "shop_customers", id="avro"),
        ],
        3,
    ),
)
def test_a_stream_in_small_batches_with_a_restart_has_the_rows_of_a_batch(
    log: Log, name: str, spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """In `tencent-dts` a row may span two batches; in `ticdc-avro` a delete gets its time from earlier records."""
    topic, produced = _topic(kafka, 4), records(log, name)
    kafka.produce(topic, produced[: len(produced) * 2 // 3])

    def stream(**more: Any) -> Any:
        frame = source(spark, kafka, topic, stream=True, maxOffsetsPerTrigger=str(max(len(produced) // 3, 1)))
        decoded = changefeed.spark.decode(frame, log.protocol, **log.options)
        return follow(decoded, tmp_path / "checkpoint", **more)

    streamed = stream()
    kafka.produce(topic, produced[len(produced) * 2 // 3 :])
    stream(fails=True)
    streamed += stream()
    whole = shown(changefeed.spark.decode(source(spark, kafka, topic), log.protocol, **log.options))

    def content(rows: list[Any]) -> list[Any]:
        rows = sorted(
            rows,
            key=lambda row: (row["position"]["partition"], row["position"]["offset"], row["position"]["index"] or 0),
        )
        return [{k: v for k, v in row.items() if k != "commit_ts"} for row in rows] if log is AVRO else rows

    assert content(streamed) == content(whole)
    assert len(whole) > 100


@pytest.mark.heavy
def test_a_table_of_a_topic_is_typed_from_a_sample(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = _topic(kafka, 3)
    kafka.produce(topic, records(OPEN, "shop"))
    sample = source(spark, kafka, topic)
    stream = changefeed.spark.decode(
        source(spark, kafka, topic, stream=True), "ticdc-open", "shop.orders", sample=sample, before=True
    )
    batches: list[pa.Table] = []
    query = stream.writeStream.foreachBatch(lambda batch, _: batches.append(batch.toArrow()))
    query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination(240)
    batch = changefeed.spark.decode(sample, "ticdc-open", "shop.orders", before=True)
    assert stream.schema == batch.schema
    assert sum(map(len, batches)) == batch.count()
    wanted, columns = (
        expected("orders"),
        ["id", "customer_id", "status", "placed", "at_time"],
    )  # never added to old rows
    assert comparable(final(batch, "id"), columns, ()) == comparable(wanted, columns, ())


def test_a_stream_without_sample_or_schema_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().selectExpr(
        "cast('' as binary) key", "cast('' as binary) value", "'t' topic", "0 partition", "value offset"
    )  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        changefeed.spark.decode(stream, "ticdc-open", "shop.orders")
    assert str(caught.value) == (
        "changefeed: the columns of shop.orders are not known, because a stream cannot be read before it runs. Pass a batch "
        "of its records as `sample`, or the columns as `schema`"
    )
    with pytest.raises(ConfigError) as caught:
        changefeed.spark.decode(stream.drop("offset"), "ticdc-open")
    assert str(caught.value) == (
        "changefeed: the records do not have column offset. Pass the columns of Spark's Kafka source: key, value, topic, "
        "partition, offset, and headers if the records have any (option includeHeaders)"
    )


def test_changes_go_to_kafka_in_another_protocol(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic = _topic(kafka, 3)
    changes = OPEN.reader(spark, table="shop.customers", before="true").load(str(OPEN.path))
    written = changefeed.spark.encode(changes, "debezium-mysql", "shop.customers")
    written.drop("topic").write.format("kafka").options(
        **{"kafka.bootstrap.servers": kafka.bootstrap, "topic": topic}
    ).save()
    back = changefeed.spark.decode(source(spark, kafka, topic), "debezium-mysql", "shop.customers", before=True)
    wanted = expected("customers")
    assert comparable(final(back, "id"), list(wanted[0]), ()) == comparable(wanted, list(wanted[0]), ())
