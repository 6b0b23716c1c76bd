"""Reads the first records of topics with librdkafka: fast, and it commits no offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from changefeed.model.batch import record_batch
from changefeed.sources.kafka.librdkafka import PlainBrokers, refusal
from changefeed.sources.kafka.topics import Topic

_SECONDS = 10.0


def first_records(
    properties: dict[str, str], brokers: PlainBrokers, topics: Mapping[str, Topic], limit: int
) -> Iterator[pa.RecordBatch]:
    """The first `limit` records of the topics, in one batch; `properties` are those with which the brokers were asked.

    Raises:
        SourceError: no broker answers.
    """
    partitions = [(name, p) for name, topic in topics.items() for p in topic.partitions]
    ends = {place: end for place, (first, end) in brokers.ranges(partitions).items() if first < end}
    yield record_batch(_records(properties, ends, limit))


def _records(properties: dict[str, str], ends: dict[tuple[str, int], int], limit: int) -> list[dict[str, object]]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

    consumer = Consumer({**properties, "group.id": "changefeed-sample", "enable.auto.commit": False, "log_level": 0})
    rows: list[dict[str, object]] = []
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in ends])
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
    except KafkaException as error:
        raise refusal(properties["bootstrap.servers"], error.args[0]) from error
    finally:
        consumer.close()
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
