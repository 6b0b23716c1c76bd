"""Pipelines on a real broker: the recorded history as topics, read once, and followed while records still arrive."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from changefeed import record_log
from changefeed.frames.mapped import Mapped
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import read
from changefeed.pipeline.operations.explain import explain
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.run import run
from changefeed.sources import NextBatch
from changefeed.sources.kafka import KafkaTopics
from changefeed.spark_runtime.session import has_jars_of
from tests.examples import by_turns
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.services.kafka import KafkaBroker, Record


@dataclass(frozen=True)
class Topic:
    """The history as records of a topic; the first 25 have been sent."""

    broker: KafkaBroker
    name: str
    log: Path
    marks: list[int]
    records: list[Record]

    def rest(self) -> None:
        """Sends the remaining records."""
        self.broker.produce(self.name, self.records[25:])

    def pipeline(self, lake: Path, **source: Any) -> Definition:
        """A pipeline that reads the topic by its producer's URI."""
        codec = "protocol=open-protocol&max-batch-size=16&compression=zstd"
        uri = f"kafka://{self.broker.bootstrap}/{self.name}?{codec}"
        return read(
            {
                "source": {"uri": uri, **source},
                "sink": {"type": "delta", "path": str(lake)},
                "pipeline": {"name": "kafka"},
            }
        )


@pytest.fixture
def topic(kafka: KafkaBroker, tmp_path: Path) -> Topic:
    log, marks = small_history(tmp_path / "app.jsonl")
    rows = [row for batch in record_log.read(log) for row in batch.to_pylist()]
    records: list[Record] = [(row["key"], row["value"], [], row["partition"]) for row in rows]
    name = f"app-{uuid.uuid4().hex}"
    kafka.create_topic(name, partitions=2)
    kafka.produce(name, records[:25])
    return Topic(kafka, name, log, marks, records)


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each batch, whether librdkafka read it."""
    seen: list[bool] = []
    next_batch = KafkaTopics.next_batch

    def recorded(self: KafkaTopics, *place: Any, short_first: bool) -> NextBatch | None:
        batch = next_batch(self, *place, short_first=short_first)
        if batch is not None:
            seen.append(isinstance(batch.records, Mapped))
        return batch

    monkeypatch.setattr(KafkaTopics, "next_batch", recorded)
    return seen


@pytest.mark.heavy
@pytest.mark.parametrize(
    "tuned",
    by_turns(
        [
            pytest.param({}, id="librdkafka"),
            pytest.param({"kafka.request.timeout.ms": 20000}, id="connector"),
        ],
        2,
    ),
)
def test_a_topic_read_once_then_again_with_more(
    tuned: dict[str, Any], readings: list[bool], spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    if tuned and not has_jars_of(spark, "kafka"):
        pytest.skip("Spark's Kafka connector is locked for another version of Spark")
    pipeline = topic.pipeline(tmp_path / "lake", **tuned)
    assert {t["table"] for t in explain(pipeline).to_dict()["tables"]} == {"app.orders", "app.notes"}
    first = run(pipeline, spark, once=True)
    assert first.state.barrier == topic.marks[0]
    topic.rest()
    second = run(pipeline, spark, once=True)
    assert (second.epoch, second.state.barrier, second.state.counts.records) == (2, topic.marks[-1], len(topic.records))
    check_cuts(pipeline, History(topic.log))
    assert status(pipeline).to_dict()["positions"] == {topic.name: {"0": 22, "1": 22}}
    assert set(readings) == {not tuned}


@pytest.mark.heavy
def test_a_run_that_begins_at_the_end_takes_what_comes_later(
    readings: list[bool], spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    pipeline = topic.pipeline(tmp_path / "lake", **{"starting-offsets": "latest"})
    first = run(pipeline, spark, once=True)
    topic.rest()
    second = run(pipeline, spark, once=True)
    assert (first.state.counts.records, second.state.counts.records) == (0, len(topic.records) - 25)
    assert readings[-1]


def test_a_transaction_of_a_producer_that_is_open_is_not_waited_for(
    spark: SparkSession, kafka: KafkaBroker, topic: Topic, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic.name, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    for key, value, _, partition in topic.records[25:]:
        producer.produce(topic.name, key=key, value=value, partition=partition)
    producer.flush(60)
    committed = {"kafka.isolation.level": "read_committed", "max-records-per-batch": 20}
    pipeline = topic.pipeline(tmp_path / "lake", **committed)
    assert run(pipeline, spark, once=True).state.counts.records == 25
    producer.commit_transaction(60)
    assert run(pipeline, spark, once=True).state.counts.records == len(topic.records)
    check_cuts(pipeline, History(topic.log))


@pytest.mark.heavy
def test_followed_until_a_mark_that_comes_later(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    later = threading.Timer(5, topic.rest)
    later.start()
    pipeline = topic.pipeline(tmp_path / "lake", **{"max-records-per-batch": 10})
    summary = run(pipeline, spark, until=topic.marks[-1])
    later.join()
    assert summary.reached
    check_cuts(pipeline, History(topic.log))
