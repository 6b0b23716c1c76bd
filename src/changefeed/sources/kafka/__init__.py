"""Kafka topics as a source: Spark's own connector, whose offsets are the token.

A token is the connector's JSON, `{"topic": {"0": 118204}}`: the next offset of every partition, those without a record
too, so that it also tells which partitions exist.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.errors import ConfigError, SourceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SECONDS = 10.0  # for a server to take a connection
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


@dataclass(frozen=True, slots=True)
class KafkaTopics:
    """Topics of one cluster. `options` are Spark's, `kafka.*` properties among them."""

    options: dict[str, str]

    available_now = True
    whole = True  # Spark's connector gives a partition to one task

    def stream(self, spark: SparkSession, token: str | None, end: str | None) -> DataFrame:
        """The records from `token` on; the connector finds the end by itself.

        Raises:
            ConfigError: a server has no port.
            SourceError: no server answers. Spark's client would try for minutes, and say less.
        """
        _reach(self.options["kafka.bootstrap.servers"])
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

    def drained(self, before: str | None, after: str) -> bool:
        """Whether the batch stayed below its limit. Shares of it are rounded down, by less than a record a partition."""
        if before is None:
            return False
        begun: dict[str, dict[str, int]] = json.loads(before)
        ended: dict[str, dict[str, int]] = json.loads(after)
        taken = [n - begun.get(topic, {}).get(p, 0) for topic, offsets in ended.items() for p, n in offsets.items()]
        return sum(taken) + len(taken) < int(self.options["maxOffsetsPerTrigger"])

    def sample(self, limit: int) -> Iterator[pa.RecordBatch]:
        """The first records of the topics, `limit` in all."""
        from changefeed.sources.kafka.sample import first_records

        return first_records(self.options, limit)

    def partitions(self, token: str) -> set[tuple[str, int]]:
        """Every partition of the token."""
        return {(topic, int(p)) for topic, offsets in json.loads(token).items() for p in offsets}


def _reach(servers: str) -> None:
    """Connects to one of the servers and hangs up."""
    reason: OSError | None = None
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not port.isdigit():
            raise ConfigError(f"source.servers: expected host:port, not {server!r}")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS):
                return
        except OSError as error:
            reason = error
    raise SourceError(f"{servers} does not answer: {reason}", transient=True) from reason


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
