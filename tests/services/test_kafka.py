"""The broker behaves as other tests require."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException

from tests.services.kafka import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_HEADERS: list[tuple[str, bytes | None]] = []


@pytest.mark.heavy
def test_records_come_back_as_they_were_written(kafka: KafkaBroker, spark: SparkSession) -> None:
    kafka.create_topic("as-written", partitions=2)
    places = kafka.produce(
        "as-written",
        [
            (b"k0", b"v0", [("h", b"1"), ("h", None)], 0),
            (b"k1", b"\x00\xff", NO_HEADERS, 1),
            (None, b"no key", NO_HEADERS, 0),
            (b"k0", None, NO_HEADERS, 0),
        ],
    )
    assert places == [(0, 0), (1, 0), (0, 1), (0, 2)]
    rows = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("subscribe", "as-written")
        .option("includeHeaders", "true")
        .load()
        .orderBy("partition", "offset")
        .collect()
    )
    assert [(row.partition, row.offset, row.key, row.value) for row in rows] == [
        (0, 0, b"k0", b"v0"),
        (0, 1, None, b"no key"),
        (0, 2, b"k0", None),
        (1, 0, b"k1", b"\x00\xff"),
    ]
    assert [tuple(header) for header in rows[0].headers] == [("h", b"1"), ("h", None)]
    assert rows[1].headers is None


@pytest.mark.heavy
def test_a_stream_resumes_after_what_it_has_read(kafka: KafkaBroker, spark: SparkSession, tmp_path: Path) -> None:
    kafka.create_topic("resumed")

    def run() -> list[bytes]:
        read: list[bytes] = []
        query = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", kafka.bootstrap)
            .option("subscribe", "resumed")
            .option("startingOffsets", "earliest")
            .load()
            .writeStream.foreachBatch(lambda df, _: read.extend(row.value for row in df.orderBy("offset").collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return read

    kafka.produce("resumed", [(None, b"1", NO_HEADERS, 0), (None, b"2", NO_HEADERS, 0)])
    assert run() == [b"1", b"2"]
    kafka.produce("resumed", [(None, b"3", NO_HEADERS, 0)])
    assert run() == [b"3"]


def test_a_large_record_passes(kafka: KafkaBroker) -> None:
    kafka.create_topic("large", config={"max.message.bytes": "33554432"})
    assert kafka.produce("large", [(None, bytes(5_000_000), NO_HEADERS, 0)]) == [(0, 0)]


def test_unknown_topics_are_not_created(kafka: KafkaBroker) -> None:
    with pytest.raises(KafkaException):
        kafka.produce("never-created", [(None, b"x", NO_HEADERS, 0)])


@pytest.mark.heavy
@pytest.mark.xdist_group("processes")
def test_leaving_stops_the_process_and_removes_its_data() -> None:
    with KafkaBroker() as broker:
        pid, data = broker.pid, broker._data
        assert pid is not None
        assert data.is_dir()
        os.kill(pid, 0)
    assert broker.pid is None
    assert not data.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.xdist_group("processes")
def test_a_broker_that_does_not_start_is_reported_with_its_log() -> None:
    started = time.monotonic()
    with pytest.raises(RuntimeError, match=re.compile("Kafka .*num.io.threads", re.DOTALL)):
        KafkaBroker(options=["num.io.threads=none"]).__enter__()
    assert time.monotonic() - started < 30
