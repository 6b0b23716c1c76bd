"""Reads the first records of topics with librdkafka: fast, and it commits no offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from changefeed.errors import ConfigError, MissingExtraError, SourceError
from changefeed.model.batch import record_batch
from changefeed.sources.kafka.connection import plain_properties
from changefeed.sources.kafka.pattern import topics_pattern

_SECONDS = 10.0
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")  # no pattern matches them


def first_records(
    options: dict[str, str], names: Sequence[str], pattern: str | None, limit: int
) -> Iterator[pa.RecordBatch]:
    """The first `limit` records of the topics with these names, or that match the pattern, in one batch.

    Raises:
        ConfigError: librdkafka cannot connect with these options, or only Java can read the pattern.
        SourceError: no broker answers, or a topic does not exist.
    """
    try:
        from confluent_kafka import Consumer, KafkaException
    except ImportError as error:
        raise MissingExtraError("Looking at Kafka topics without Spark", "kafka") from error
    servers, errors = options["kafka.bootstrap.servers"], list[Any]()
    own = {"group.id": "changefeed-sample", "enable.auto.commit": False, "log_level": 0, "error_cb": errors.append}
    try:
        consumer = Consumer(plain_properties(options) | own)
    except KafkaException as error:
        raise ConfigError(f"without Spark, the Kafka client refuses its properties: {error.args[0].str()}") from error
    try:
        topics = _topics(consumer, names, pattern, servers)
        yield record_batch(_records(consumer, topics, limit))
    except KafkaException as error:
        consumer.poll(0)  # delivers the reason of an error
        reason = errors[0].str() if errors else error.args[0].str()
        raise SourceError(f"{servers} does not answer: {reason}", transient=True) from error
    finally:
        consumer.close()


def _topics(consumer: object, names: Sequence[str], pattern: str | None, servers: str) -> dict[str, list[int]]:
    """The topics to read -> their partitions."""
    from confluent_kafka import Consumer

    assert isinstance(consumer, Consumer)
    topics = consumer.list_topics(timeout=_SECONDS).topics
    if pattern is not None:
        regex = topics_pattern(pattern)
        if regex is None:
            raise ConfigError(
                f"without Spark, topics-pattern {pattern!r} cannot be read: it uses constructs that only Java supports"
            )
        names = [topic for topic in topics if topic not in _INTERNAL and regex.fullmatch(topic)]
    missing = [topic for topic in names if topic not in topics]
    if missing or not names:
        name = missing[0] if missing else f"matches {pattern}"
        raise SourceError(f"no topic {name} at {servers}: create it first, or correct the source section")
    return {topic: list(topics[topic].partitions) for topic in names}


def _records(consumer: object, topics: dict[str, list[int]], limit: int) -> list[dict[str, object]]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

    assert isinstance(consumer, Consumer)
    ends = {}
    for topic, partitions in topics.items():
        for partition in partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SECONDS)
            if high > low:
                ends[topic, partition] = high
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in ends])
    rows: list[dict[str, object]] = []
    while ends and len(rows) < limit:
        messages = consumer.consume(min(1000, limit - len(rows)), timeout=_SECONDS)
        if not messages:
            break
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
            topic = str(message.topic())
            partition, offset = int(message.partition() or 0), int(message.offset() or 0)
            rows.append(_record(message, topic, partition, offset))
            if offset + 1 >= ends.get((topic, partition), 0):
                ends.pop((topic, partition), None)
    return rows


def _record(message: object, topic: str, partition: int, offset: int) -> dict[str, object]:
    from confluent_kafka import Message

    assert isinstance(message, Message)
    pairs: Any = message.headers() or []  # a list of pairs, contrary to the type stubs
    headers = [{"key": name, "value": value} for name, value in pairs]
    return {
        "key": message.key(), "value": message.value(), "topic": topic, "partition": partition, "offset": offset,
        "timestamp": message.timestamp()[1] * 1000, "timestampType": 0, "headers": headers,
    }  # fmt: skip
