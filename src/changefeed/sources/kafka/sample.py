"""A look at the first records of topics, by the plain Kafka client: quick, and it commits no offsets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from changefeed.errors import ConfigError, MissingExtraError, SourceError
from changefeed.model.batch import record_batch
from changefeed.sources.kafka.connection import plain_properties

_SECONDS = 10.0


def first_records(options: dict[str, str], limit: int) -> Iterator[pa.RecordBatch]:
    """The first `limit` records of the topics that Spark's options name, all in one batch.

    Raises:
        ConfigError: the plain client cannot connect as the options say.
        SourceError: no broker answers, or a topic is not there.
    """
    try:
        from confluent_kafka import Consumer, KafkaException
    except ImportError as error:
        raise MissingExtraError("Looking at Kafka topics without Spark", "kafka") from error
    servers, said = options["kafka.bootstrap.servers"], list[Any]()
    own = {"group.id": "changefeed-sample", "enable.auto.commit": False, "log_level": 0, "error_cb": said.append}
    try:
        consumer = Consumer(plain_properties(options) | own)
    except KafkaException as error:
        raise ConfigError(f"without Spark, the Kafka client refuses its properties: {error.args[0].str()}") from error
    try:
        yield record_batch(_records(consumer, options, limit))
    except KafkaException as error:
        consumer.poll(0)  # hands over what the client knows of the reason
        reason = said[0].str() if said else error.args[0].str()
        raise SourceError(f"{servers} does not answer: {reason}", transient=True) from error
    finally:
        consumer.close()


def _records(consumer: object, options: dict[str, str], limit: int) -> list[dict[str, object]]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

    assert isinstance(consumer, Consumer)
    topics = consumer.list_topics(timeout=_SECONDS).topics
    named = options.get("subscribe", "").split(",") if "subscribe" in options else []
    pattern = options.get("subscribePattern")
    wanted = named or [t for t in topics if pattern and re.fullmatch(pattern, t)]
    missing = [t for t in wanted if t not in topics]
    if missing or not wanted:
        raise SourceError(f"no topic {missing[0] if missing else pattern} at {options['kafka.bootstrap.servers']}")
    ends = {}
    for topic in wanted:
        for partition in topics[topic].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SECONDS)
            if high > low:
                ends[topic, partition] = high
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in ends])
    found: list[dict[str, object]] = []
    while ends and len(found) < limit:
        messages = consumer.consume(min(1000, limit - len(found)), timeout=_SECONDS)
        if not messages:
            break
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
            topic = str(message.topic())
            partition, offset = int(message.partition() or 0), int(message.offset() or 0)
            found.append(_record(message, topic, partition, offset))
            if offset + 1 >= ends.get((topic, partition), 0):
                ends.pop((topic, partition), None)
    return found


def _record(message: object, topic: str, partition: int, offset: int) -> dict[str, object]:
    from confluent_kafka import Message

    assert isinstance(message, Message)
    pairs: Any = message.headers() or []  # a list of pairs, whatever the stubs say
    headers = [{"key": name, "value": value} for name, value in pairs]
    return {
        "key": message.key(), "value": message.value(), "topic": topic, "partition": partition, "offset": offset,
        "timestamp": message.timestamp()[1] * 1000, "timestampType": 0, "headers": headers,
    }  # fmt: skip
