"""Kafka topics as a source: Spark's own connector, whose offsets are the token.

A token is the connector's JSON, `{"topic": {"0": 118204}}`: the next offset of every partition, those without a record
too, so that it also tells which partitions exist.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


@dataclass(frozen=True, slots=True)
class KafkaTopics:
    """Topics of one cluster. `options` are Spark's, `kafka.*` properties among them."""

    options: dict[str, str]

    available_now = True
    whole = True  # Spark's connector gives a partition to one task

    def stream(self, spark: SparkSession, token: str | None, end: str | None) -> DataFrame:
        """The records from `token` on; the connector finds the end by itself."""
        options = dict(self.options)
        if token is not None:
            options["startingOffsets"] = token
        records = spark.readStream.format("kafka").options(**options).load()
        return records.select(*_COLUMNS)

    def end(self, spark: SparkSession, token: str | None) -> str | None:
        """None: Spark's available-now trigger asks the brokers."""
        return None

    def missing(self) -> None:
        """None: the brokers tell, and say which topic is not there."""
        return None

    def sample(self, limit: int) -> Iterator[pa.RecordBatch]:
        """The first records of the topics, `limit` in all."""
        from changefeed.sources.kafka.sample import first_records

        return first_records(self.options, limit)

    def partitions(self, token: str) -> set[tuple[str, int]]:
        """Every partition of the token."""
        return {(topic, int(p)) for topic, offsets in json.loads(token).items() for p in offsets}


def open_source(definition: Any) -> KafkaTopics:
    """The source that a `type: kafka` section describes."""
    where = (
        ("subscribe", ",".join(definition.topics))
        if definition.topics
        else ("subscribePattern", definition.topics_pattern)
    )
    return KafkaTopics(
        {
            **definition.properties,
            "kafka.bootstrap.servers": definition.servers,
            where[0]: where[1],
            "startingOffsets": definition.starting_offsets,
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "maxOffsetsPerTrigger": str(definition.max_records_per_batch),
        }
    )
