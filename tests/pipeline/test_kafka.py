"""Pipelines on a real broker: the recorded history as topics, read once, and followed while records still arrive."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from changefeed import record_log
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import read
from changefeed.pipeline.operations.explain import explain
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.run import run
from tests.pipeline.history import small_history
from tests.pipeline.oracle import History
from tests.pipeline.running import check_cuts

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
                "source": {"uri": uri, "kafka.request.timeout.ms": 20000, **source},
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


def test_a_topic_read_once_then_again_with_more(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    pipeline = topic.pipeline(tmp_path / "lake")
    assert {t["table"] for t in explain(pipeline).to_dict()["tables"]} == {"app.orders", "app.notes"}
    first = run(pipeline, spark, once=True)
    assert first.state.barrier == topic.marks[0]
    topic.rest()
    second = run(pipeline, spark, once=True)
    assert (second.epoch, second.state.barrier, second.state.counts.records) == (2, topic.marks[-1], len(topic.records))
    check_cuts(pipeline, History(topic.log))
    assert status(pipeline).to_dict()["positions"] == {topic.name: {"0": 22, "1": 22}}


def test_followed_until_a_mark_that_comes_later(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    later = threading.Timer(5, topic.rest)
    later.start()
    pipeline = topic.pipeline(tmp_path / "lake", **{"max-records-per-batch": 10})
    summary = run(pipeline, spark, until=topic.marks[-1])
    later.join()
    assert summary.reached
    check_cuts(pipeline, History(topic.log))
