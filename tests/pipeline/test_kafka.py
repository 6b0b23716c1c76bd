"""From a real broker: the recorded history as topics, read once, and followed while it still comes."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from changefeed import record_log
from changefeed.pipeline.definition import Definition
from changefeed.pipeline.explain import explain
from changefeed.pipeline.load import read
from changefeed.pipeline.run import run
from changefeed.pipeline.status import status
from tests.pipeline.history import small_history
from tests.pipeline.oracle import History
from tests.pipeline.running import check_cuts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.services.kafka import KafkaBroker, Record


def _records(log: Path) -> list[Record]:
    rows = [row for batch in record_log.read(log) for row in batch.to_pylist()]
    return [(row["key"], row["value"], [], row["partition"]) for row in rows]


def _pipeline(broker: KafkaBroker, topic: str, lake: Path, **source: Any) -> Definition:
    return read(
        {
            "source": {
                "uri": f"kafka://{broker.bootstrap}/{topic}?protocol=open-protocol&max-batch-size=16&compression=zstd",
                "kafka.request.timeout.ms": 20000,
                **source,
            },
            "sink": {"type": "delta", "path": str(lake)},
            "pipeline": {"name": "kafka"},
        }
    )


def test_a_topic_read_once_then_again_with_more(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path) -> None:
    log, marks = small_history(tmp_path / "app.jsonl")
    topic = f"app-{uuid.uuid4().hex}"
    kafka.create_topic(topic, partitions=2)
    records = _records(log)
    kafka.produce(topic, records[:25])
    pipeline = _pipeline(kafka, topic, tmp_path / "lake")
    assert {t["table"] for t in explain(pipeline)["tables"]} == {"app.orders", "app.notes"}
    first = run(pipeline, spark, once=True)
    assert first.state.barrier == marks[0]
    kafka.produce(topic, records[25:])
    second = run(pipeline, spark, once=True)
    assert (second.epoch, second.state.barrier, second.state.counts.records) == (2, marks[-1], len(records))
    check_cuts(pipeline, History(log))
    assert status(pipeline)["positions"] == {topic: {"0": 22, "1": 22}}


def test_followed_until_a_mark_that_comes_later(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path) -> None:
    log, marks = small_history(tmp_path / "app.jsonl")
    topic = f"app-{uuid.uuid4().hex}"
    kafka.create_topic(topic, partitions=2)
    records = _records(log)
    kafka.produce(topic, records[:25])
    later = threading.Timer(5, kafka.produce, (topic, records[25:]))
    later.start()
    pipeline = _pipeline(kafka, topic, tmp_path / "lake", **{"max-records-per-batch": 10})
    summary = run(pipeline, spark, until=marks[-1])
    later.join()
    assert summary.reached
    check_cuts(pipeline, History(log))
