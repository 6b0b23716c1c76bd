"""The topics of an event sink: creates those that do not exist, and leaves the choice of partitions to Kafka's partitioner.

    records ─ topic in `fixed_topics` ─▶ partition 0
            └ every other topic       ─▶ partition: NULL ─▶ librdkafka: murmur2(key) modulo the number of partitions

Rule 1. A key goes to the partition to which a Java producer, such as Kafka Connect, would send it. Records without a key go to
        one partition of their topic, so that they keep their order; a Java producer spreads them.
Rule 2. A topic is looked up in the list of all topics: asking for one by name would make some brokers create it with their own
        number of partitions.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # the module names no exports

PARTITIONER = "murmur2"  # librdkafka's name for the default partitioner of Java producers


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """The form of topics that the sink creates.

    Attributes:
        partitions: the number of partitions; -1: the broker's default.
        replication_factor: the number of replicas; -1: the broker's default.
    """

    partitions: int
    replication_factor: int

    def create(self, topics: Collection[str], client: Mapping[str, Any], timeout: float) -> None:
        """Creates those of the topics that do not exist; returns when they can be written to.

        Args:
            topics: names of topics.
            client: the configuration of a client of librdkafka.
            timeout: seconds to wait for an answer of the brokers.

        Raises:
            KafkaException: the brokers refuse a topic, or do not answer.
        """
        admin = AdminClient(dict(client))
        missing_topics = set(topics) - admin.list_topics(timeout=timeout).topics.keys()
        new_topics = [NewTopic(name, self.partitions, self.replication_factor) for name in sorted(missing_topics)]
        for creation in admin.create_topics(new_topics, operation_timeout=timeout).values() if new_topics else ():
            try:
                creation.result(timeout)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # created by another program just now
                    raise
        until = time.monotonic() + timeout
        while missing_topics - admin.list_topics(timeout=timeout).topics.keys():
            if time.monotonic() > until:
                names = ", ".join(sorted(missing_topics))
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"the list of topics does not have {names} yet"))
            time.sleep(0.1)


def by_key(records: pa.RecordBatch, fixed_topics: Collection[str]) -> pa.RecordBatch:
    """Returns the records with NULL as their partition, except those of `fixed_topics`, which go to partition 0: Rule 1."""
    column = records.schema.get_field_index("partition")
    is_fixed = pc.is_in(records.column("topic"), value_set=pa.array(sorted(fixed_topics), pa.string()))
    partitions = pc.if_else(is_fixed, pa.scalar(0, pa.int32()), pa.scalar(None, pa.int32()))
    return records.set_column(column, records.schema.field(column), partitions)
