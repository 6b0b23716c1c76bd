"""`df.write.format("changefeed")` and `df.writeStream.format("changefeed")` to Kafka, in any protocol: at least once.

Rule 1. Each task sends its records in order, to the topic and partition of each row's position, and ends when all in-sync
        replicas have them. An idempotent producer neither repeats nor reorders the records of a task.
Rule 2. If Spark repeats work, its records are sent again: a task that failed or was stopped, and a batch of a stream that
        Spark had not marked as done. The same records follow again, in the same order in each partition. Consumers
        recognize them by commit_ts, as they do after a restart of the original producer.
Rule 3. Records are visible as soon as they are sent: a write that fails leaves the records that were sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from changefeed.errors import ConfigError
from changefeed.model.batch import RECORDS
from changefeed.redaction import remember
from changefeed.sources.kafka.connection import CONNECTION, plain_properties
from changefeed.spark.arrow_streams import DataSourceStreamArrowWriter
from changefeed.spark.writing import WritePlan

_NEEDS = "Write and Describe on the topics"
_SET_HERE = ("acks", "enable.idempotence", "transactional.id")


@dataclass(frozen=True, slots=True)
class Topics:
    """Writes records to the topics of a Kafka cluster.

    Attributes:
        properties: librdkafka's configuration.
        topic: the topic for all records; None for the topics in the rows' positions.
        timeout: seconds to wait for an answer of the brokers.
    """

    properties: Mapping[str, str] = field(repr=False)  # passwords among them
    topic: str | None = None
    timeout: float = 60.0

    def send(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Sends the records of a task, and waits until the brokers have them.

        Raises:
            ConfigError: a topic is missing or has too few partitions, or a property is invalid.
            SinkError: the brokers did not confirm all records.
        """
        from confluent_kafka import KafkaException, Producer

        from changefeed.sinks.kafka.producing import DEFAULTS, check_partitions, error_for, send

        for name, value in self.properties.items():
            remember(name, value)
        servers = self.properties["bootstrap.servers"]
        try:
            producer = Producer({**DEFAULTS, **self.properties, "enable.idempotence": True})
            known: dict[str, int] = {}
            for batch in batches:
                records = self._in_topic(batch)
                check_partitions(producer, records, known, servers, self.timeout)
                send(producer, records, self.timeout)
        except KafkaException as error:
            raise error_for(f"kafka://{servers}: sending records", error.args[0], _NEEDS) from error
        return WriterCommitMessage()

    def _in_topic(self, records: pa.RecordBatch) -> pa.RecordBatch:
        if self.topic is None:
            return records
        at = RECORDS.get_field_index("topic")
        return records.set_column(at, RECORDS.field(at), pa.array([self.topic] * len(records), pa.string()))


def topics(options: Mapping[str, str], topic: str | None) -> Topics:
    """Creates the writer to Kafka from options with the names of Spark's Kafka sink.

    Args:
        options: `kafka.bootstrap.servers`, and further properties of librdkafka with the prefix `kafka.`.
        topic: the topic for all records; None for the topics in the rows' positions.

    Raises:
        ConfigError: an option is missing or cannot be set.
    """
    import changefeed.sinks.kafka.producing  # noqa: F401  # fails here, not in the tasks, if the extra is missing

    if "kafka.bootstrap.servers" not in options:
        raise ConfigError("changefeed: option kafka.bootstrap.servers is missing")
    if wrong := [name for name in options if name.removeprefix("kafka.") in _SET_HERE]:
        raise ConfigError(f"changefeed: option {wrong[0]} is set by the writer. Remove it")
    others = {name.removeprefix("kafka."): value for name, value in options.items()}
    others = {name: value for name, value in others.items() if not name.startswith(CONNECTION)}
    return Topics({**others, **plain_properties(dict(options))}, topic)


class KafkaWriter(DataSourceArrowWriter):
    """Spark's batch writer to Kafka: encodes rows of changes and sends the records."""

    def __init__(self, target: Topics, writing: WritePlan) -> None:
        self._topics, self._writing = target, writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Sends the rows of a task."""
        return self._topics.send(self._writing.records(iterator))


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Spark's stream writer to Kafka: encodes rows of changes and sends the records."""

    def __init__(self, target: Topics, writing: WritePlan) -> None:
        self._topics, self._writing = target, writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Sends the rows of a task."""
        return self._topics.send(self._writing.records(iterator))
