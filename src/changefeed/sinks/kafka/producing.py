"""Sends records to Kafka, for the event sink and for the PySpark writer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from changefeed.errors import ConfigError, MissingExtraError, SinkError

try:
    from confluent_kafka import KafkaError, KafkaException, Producer
except ImportError as error:
    raise MissingExtraError("a Kafka sink", "kafka") from error

DEFAULTS = {
    "message.max.bytes": 1_000_000_000,  # the topic's own limit counts
    "linger.ms": 20,
    "compression.type": "lz4",
    "topic.metadata.propagation.max.ms": 2000,
}
_NOT_ALLOWED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError._AUTHENTICATION,
)


def send(producer: Producer, records: pa.RecordBatch, timeout: float) -> None:
    """Sends records, and waits until the brokers have confirmed all of them.

    Args:
        producer: the producer, which sends each record to its topic and partition.
        records: the records, with the columns of Spark's Kafka source; where the partition is NULL, the producer's partitioner
            chooses it.
        timeout: seconds to wait after the last record.

    Raises:
        KafkaException: a record was refused, or the brokers did not confirm all of them in time.
    """
    refused: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            refused.append(error)

    for record in _messages(records):
        while not refused:
            try:
                producer.produce(**record, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    until = time.monotonic() + timeout
    while not refused and len(producer) and time.monotonic() < until:
        producer.poll(0.1)
    if refused:
        raise KafkaException(refused[0])
    if len(producer):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{len(producer):,} records were not confirmed"))


def check_partitions(
    producer: Producer, records: pa.RecordBatch, known: dict[str, int], servers: str, timeout: float
) -> None:
    """Checks that the topics and partitions of records exist.

    Args:
        producer: a producer that is connected to the brokers.
        records: the records to check.
        known: cache: topic -> number of partitions; missing topics are looked up and added.
        servers: the brokers, for messages.
        timeout: seconds to wait for an answer of the brokers.

    Raises:
        ConfigError: a topic is missing or has too few partitions.
        KafkaException: the brokers did not answer.
    """
    places = pa.Table.from_batches([records.select(["topic", "partition"])])
    for place in places.group_by("topic").aggregate([("partition", "max")]).to_pylist():
        topic, highest = place["topic"], place["partition_max"] or 0
        if known.get(topic, 0) <= highest:
            known[topic] = count_partitions(producer, topic, servers, timeout)
        if known[topic] <= highest:
            raise ConfigError(
                f"topic {topic} at {servers} has {known[topic]} partitions, and the encoder writes to "
                f"partition {highest}: add partitions, or dispatch over as many as there are by the protocol's options"
            )


def count_partitions(producer: Producer, topic: str, servers: str, timeout: float) -> int:
    """Returns the number of partitions of a topic.

    Raises:
        ConfigError: the topic does not exist.
        KafkaException: the brokers did not answer.
    """
    metadata = producer.list_topics(topic, timeout).topics.get(topic)
    if metadata is None or (metadata.error and metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
        raise ConfigError(f"no topic {topic} at {servers}: create it first, or correct its name")
    if metadata.error:
        raise KafkaException(metadata.error)
    return len(metadata.partitions)


def error_for(message: str, error: Any, needs: str) -> Exception:
    """Translates an error of Kafka's client: to one that names the rights that are missing, or to a transient one.

    Args:
        message: where it happened, and the failed action.
        error: Kafka's error.
        needs: the rights that the Kafka user needs.
    """
    message = f"{message}: {error.str()}"
    if error.code() == KafkaError._INVALID_ARG:
        return ConfigError(message)
    if error.code() in _NOT_ALLOWED:
        return SinkError(f"{message}. The user needs {needs}")
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return SinkError(f"{message}. Raise max.message.bytes of the topic, or lower the protocol's own limit")
    return SinkError(message, transient=True)


def _messages(records: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yields the arguments of `Producer.produce` for each record; the client adds missing partitions and timestamps."""
    times = records.column("timestamp").cast(pa.int64()).to_pylist()
    names = ("topic", "partition", "key", "value", "headers")
    columns = [records.column(name).to_pylist() for name in names]
    for topic, partition, key, value, headers, us in zip(*columns, times, strict=True):
        record = {"topic": topic, "key": key, "value": value}
        if partition is not None:
            record["partition"] = partition
        record["headers"] = [(header["key"], header["value"]) for header in headers or ()]
        yield record if us is None else {**record, "timestamp": us // 1000}
