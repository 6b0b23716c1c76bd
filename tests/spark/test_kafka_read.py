"""The data source reads topics of a real broker: batches and streams, over restarts, and what ends a read."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

import changefeed.spark
from changefeed.errors import ConfigError
from changefeed.spark.kafka_reader import kafka_input
from changefeed.spark.options import decode_options, read_options
from changefeed.spark.reading import ReadPlan
from changefeed.spark.shapes import AllTables
from changefeed.stages.transcode import Language
from tests.spark.from_kafka import Record, records
from tests.spark.shop import LOGS, OPEN, SPLIT, Log, changes, comparable, expected, final, in_order, shown
from tests.spark.streaming import follow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.services.kafka import KafkaBroker

AVRO = LOGS[2]
SERVERS = {"protocol": "ticdc-open", "kafka.bootstrap.servers": "127.0.0.1:1"}


def read(
    spark: SparkSession, kafka: KafkaBroker, log: Log, topic: str, *, stream: bool = False, **options: Any
) -> DataFrame:
    spark.dataSource.register(changefeed.spark.DataSource)
    reader: Any = spark.readStream if stream else spark.read
    servers = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "protocol": log.protocol, **log.options}
    settings = {name: value for name, value in {**servers, **options}.items() if value is not None}
    frame: DataFrame = reader.format("changefeed").options(**settings).load()
    return frame


def produced(kafka: KafkaBroker, log: Log, name: str) -> tuple[str, list[Record]]:
    """A new topic with the records that the log has of one of its topics."""
    topic, sent = f"read-{uuid.uuid4().hex}", records(log, name)
    kafka.create_topic(topic, partitions=max(record[3] for record in sent) + 1)
    kafka.produce(topic, sent)
    return topic, sent


def wanted(log: Log, name: str, topic: str) -> list[dict[str, Any]]:
    """The changes of one of the log's topics, as a topic with this name has them: a record's offset is its number."""
    rows = [row for row in changes(log) if row["position"]["topic"] == name]
    for row in rows:
        row["position"]["topic"] = topic
        row["commit_time"] = row["commit_time"] and row["commit_time"].timestamp()
    return rows


@pytest.mark.heavy
@pytest.mark.parametrize(
    "log, name", [(OPEN, "shop"), (SPLIT, "topic-subs-shop"), (AVRO, "shop_customers")], ids=["open", "split", "avro"]
)
def test_a_batch_has_the_changes_of_the_log(log: Log, name: str, spark: SparkSession, kafka: KafkaBroker) -> None:
    topic, sent = produced(kafka, log, name)
    rows = shown(read(spark, kafka, log, topic))
    assert len(sent) > 100
    assert [r["position"]["offset"] for r in rows] == [r["position"]["offset"] for r in wanted(log, name, topic)]
    if log is not AVRO:  # whose estimates of missing commit times depend on the other topics
        assert rows == wanted(log, name, topic)


def test_a_table_has_its_columns_and_rows(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic, _ = produced(kafka, OPEN, "shop")
    rows = read(spark, kafka, OPEN, topic, table="shop.orders", before="true")
    assert rows.schema == OPEN.reader(spark, table="shop.orders", before="true").load(str(OPEN.path)).schema
    columns = ["id", "customer_id", "status", "placed", "at_time"]  # never added to old rows
    assert comparable(final(rows, "id"), columns, ()) == comparable(expected("orders"), columns, ())


@pytest.mark.heavy
def test_a_stream_has_each_change_once_over_restarts_and_new_partitions(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    sent, topic = records(OPEN, "shop"), f"grows-{uuid.uuid4().hex}"
    kafka.create_topic(topic, partitions=2)
    low = [record for record in sent if record[3] < 2]
    high = [record for record in sent if record[3] >= 2]
    rows: list[dict[str, Any]] = []

    def more(**how: Any) -> list[dict[str, Any]]:
        frame = read(spark, kafka, OPEN, "", stream=True, subscribe=None, subscribePattern=f"{topic}(-b)?")
        return follow(frame, tmp_path / "checkpoint", **how)

    kafka.produce(topic, low[: len(low) // 2])
    rows += more()
    assert len(rows) > 10
    kafka.produce(topic, low[len(low) // 2 :])
    assert more(fails=True) == []
    admin, partitions = kafka.admin(), max(r[3] for r in sent) + 1
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()
    _wait(lambda: len(admin.list_topics(topic).topics[topic].partitions) == partitions)
    kafka.produce(topic, high)
    kafka.create_topic(f"{topic}-b", partitions=1)
    kafka.produce(f"{topic}-b", [(key, value, headers, 0) for key, value, headers, p in sent if p == 0])
    rows += more()  # the batch that failed
    rows += more()
    assert more() == []
    second = [row for row in rows if row["position"]["topic"] != topic]
    assert in_order([row for row in rows if row["position"]["topic"] == topic]) == wanted(OPEN, "shop", topic)
    assert len(second) == len([row for row in wanted(OPEN, "shop", topic) if row["position"]["partition"] == 0])


def _wait(until: Callable[[], bool]) -> None:
    last = time.monotonic() + 30
    while not until():
        assert time.monotonic() < last
        time.sleep(0.1)


def test_a_batch_reads_between_two_offsets(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic, sent = produced(kafka, OPEN, "shop")
    count = sum(record[3] == 0 for record in sent)
    first, last = count // 3, count // 2
    others = {str(p): -1 for p in range(1, max(r[3] for r in sent) + 1)}
    rows = shown(
        read(
            spark, kafka, OPEN, topic, startingOffsets=json.dumps({topic: {"0": first, **others}}),
            endingOffsets=json.dumps({topic: {"0": last}}),
        )
    )  # fmt: skip
    everything = wanted(OPEN, "shop", topic)
    assert rows == [
        row for row in everything if row["position"]["partition"] == 0 and first <= row["position"]["offset"] < last
    ]
    assert rows
    assert shown(read(spark, kafka, OPEN, topic, startingOffsets="latest")) == []
    with pytest.raises(Exception, match=rf"startingOffsets: {topic}:0 has the records 0 to {count - 1}, and not 99999"):
        read(spark, kafka, OPEN, topic, startingOffsets=json.dumps({topic: {"0": 99_999}})).collect()
    with pytest.raises(Exception, match=rf"endingOffsets: there is no partition {topic}:77"):
        read(spark, kafka, OPEN, topic, endingOffsets=json.dumps({topic: {"77": 1}})).collect()


@pytest.mark.heavy
@pytest.mark.parametrize("fate", ["created again", "expired"])
def test_a_stream_ends_where_records_are_missing(
    fate: str, spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic, sent = produced(kafka, OPEN, "shop")
    first = follow(read(spark, kafka, OPEN, topic, stream=True), tmp_path)
    assert first
    admin = kafka.admin()
    if fate == "expired":
        kafka.produce(topic, sent)
        partition = TopicPartition(topic, 0, 2 * sum(record[3] == 0 for record in sent) - 1)
        admin.delete_records([partition])[partition].result()
        message = rf"Kafka no longer has the records \d+ to \d+ of {topic}:0, which come next"
    else:
        admin.delete_topics([topic])[topic].result()
        _wait(lambda: topic not in admin.list_topics().topics)
        kafka.create_topic(topic, partitions=max(r[3] for r in sent) + 1)
        kafka.produce(topic, sent)
        kafka.produce(topic, sent)
        message = f"topic {topic} was created again while the stream read it"
    with pytest.raises(Exception, match=message):
        follow(read(spark, kafka, OPEN, topic, stream=True), tmp_path)


def test_a_topic_that_does_not_exist_is_named(spark: SparkSession, kafka: KafkaBroker) -> None:
    with pytest.raises(Exception, match=rf"no topic nowhere at {kafka.bootstrap}: create it first"):
        read(spark, kafka, OPEN, "nowhere").collect()


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "changefeed: give either subscribe, the names of topics, or subscribePattern"),
        ({"subscribe": "t", "subscribePattern": "t"}, "changefeed: give either subscribe, "),
        ({"subscribe": "t", "path": "p"}, "changefeed: options path and kafka.bootstrap.servers: records come from files or "),
        ({"subscribe": "t", "protocol": None}, "changefeed: option `protocol` is missing"),
        ({"subscribe": "t", "kafka.bootstrap.servers": None}, "changefeed: option subscribe is for Kafka: set kafka.bootstrap"),
        ({"subscribe": "t", "kafka.bootstrap.servers": None, "kafka.client.id": "x"},
         "changefeed: option kafka.bootstrap.servers is missing"),
        ({"subscribe": "t", "startingOffsets": "begin"}, "changefeed: option startingOffsets: expected earliest, latest or JSON"),
        ({"subscribe": "t", "kafka.securty.protocol": "SSL"},
         'changefeed: unknown property of the Kafka client "securty.protocol". Did you mean "kafka.security.protocol"?'),
        ({"subscribe": "t", "kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "trust.jks"},
         "changefeed: options kafka.security.protocol, kafka.ssl.truststore.location: only Spark's connector reads such a "
         'cluster: use changefeed.spark.decode(spark.read.format("kafka")….load(), "ticdc-open")'),
        ({"subscribe": "t", "subscribePatern": "t"},
         'unknown option of changefeed and ticdc-open "subscribePatern". Did you mean "subscribe-pattern"?'),
    ],
)  # fmt: skip
def test_options_that_are_wrong(options: dict[str, Any], message: str) -> None:
    settings = {name: value for name, value in {**SERVERS, **options}.items() if value is not None}

    def opened() -> object:
        chosen, _, kafka = read_options(settings)
        return kafka_input(kafka, chosen)

    with pytest.raises(ConfigError) as caught:
        opened()
    assert str(caught.value).startswith(message)


def test_a_stream_that_would_need_earlier_records_is_refused() -> None:
    chosen, _, kafka = read_options({**SERVERS, "subscribe": "t", "protocol": "tencent-dts"})
    plan = ReadPlan(Language("tencent-dts", {}), AllTables(letters=False))
    with pytest.raises(ConfigError) as caught:
        kafka_input(kafka, chosen).stream_reader(plan)
    assert str(caught.value) == (
        "changefeed: a record of tencent-dts may depend on earlier ones, which Spark keeps in its state store: use "
        'changefeed.spark.decode(spark.readStream.format("kafka")….load(), "tencent-dts")'
    )


@pytest.mark.parametrize("option", ["kafka.bootstrap.servers", "subscribe", "starting_offsets", "path"])
def test_decode_has_its_records_already(option: str) -> None:
    with pytest.raises(
        ConfigError, match=f"option {option} is not allowed here, because the records come from the Data"
    ):
        decode_options({"protocol": "ticdc-open", option: "x"})


def test_passwords_are_in_no_representation_of_the_input() -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="kanarie";'
    settings = {
        **SERVERS,
        "subscribe": "t",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
    }
    chosen, _, kafka = read_options({**settings, "kafka.sasl.jaas.config": login})
    assert "kanarie" not in repr(kafka_input(kafka, chosen))
