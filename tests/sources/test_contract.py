"""The sources keep the contract of `changefeed.sources`: the same cases on logs and on Kafka."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed import record_log
from changefeed.model.batch import record_batch
from changefeed.sources import Source
from changefeed.sources.decoded import DecodedSource
from changefeed.sources.files import LogFiles
from changefeed.sources.kafka import KafkaTopics
from tests.services.kafka import KafkaBroker
from tests.sources.conformance import LIMIT, Conformance, Row, chunks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Files:
    """A log that grows."""

    log: Path
    records: list[Row] = field(default_factory=list)

    def arrive(self, records: list[Row]) -> None:
        self.records += records
        whole = self.log.with_name("whole.jsonl")
        record_log.write(whole, [record_batch(self.records)])
        with self.log.open("ab") as out:
            out.write(whole.read_bytes()[self.log.stat().st_size if self.log.exists() else 0 :])
        whole.unlink()

    def source(self, limit: int = 100_000) -> Source:
        return DecodedSource(LogFiles(str(self.log), limit), "ticdc-open", {})


@dataclass
class Kafka:
    """A topic."""

    broker: KafkaBroker
    topic: str

    def arrive(self, records: list[Row]) -> None:
        self.broker.produce(self.topic, [(row["key"], row["value"], [], row["partition"]) for row in records])

    def source(self, limit: int = 100_000) -> Source:
        options = {
            "kafka.bootstrap.servers": self.broker.bootstrap, "startingOffsets": "earliest", "includeHeaders": "true",
            "failOnDataLoss": "true",
        }  # fmt: skip
        return DecodedSource(KafkaTopics(options, limit, (self.topic,), None), "ticdc-open", {})


class TestFiles(Conformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Files:
        (tmp_path / "logs").mkdir()
        return Files(tmp_path / "logs" / "app.jsonl")


class TestKafka(Conformance):
    @pytest.fixture
    def harness(self, kafka: KafkaBroker) -> Kafka:
        topic = f"contract-{uuid.uuid4().hex}"
        kafka.create_topic(topic, partitions=2)
        return Kafka(kafka, topic)

    def test_short_partitions_are_read_alone_to_their_ends(
        self, harness: Kafka, records: list[Row], spark: SparkSession
    ) -> None:
        short = [row for row in records if row["partition"] == 1][:5]
        harness.arrive([*short, *(row for row in records if row["partition"] == 0)])
        source = harness.source(limit=LIMIT)
        batch = source.next_batch(spark, None, None, short_first=True)
        assert batch is not None
        read = [row for row in chunks_of(source, batch) if row["kind"] == "read"]
        assert {row["partition"] for row in read} == {1}
        assert sum(row["rows"] for row in read) == len(short)
        after = source.next_batch(spark, batch.source_offset, None, short_first=True)  # only one partition is left
        assert after is not None
        assert {row["partition"] for row in chunks_of(source, after)} == {0}
        source.close()
