"""Reads Kafka records with librdkafka, in the Python workers that decode them.

Spark's connector makes each record a row of the JVM, then of an Arrow batch that is sent to a worker: 12 µs of CPU per record.
A worker that reads Kafka itself needs 3 µs. A batch is a list of ranges of offsets:

    topic  partition  start   stop
    shop   0          118204  243204

Rule 1. A range is complete when its last offset or a later one was read, or when the partition ends at or after `stop`.
        Compacted and transactional topics have gaps in their offsets.
Rule 2. One task reads a whole range, and yields its records in order.
Rule 3. A worker keeps its consumers for the next batch. It commits no offsets.
Rule 4. Only clusters that librdkafka reads exactly as the Java client does are read here; see `properties`.
"""

from __future__ import annotations

import sys
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import accumulate, groupby, repeat
from math import ceil
from operator import is_
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.errors import ConfigError, SourceError
from changefeed.model.batch import record_columns
from changefeed.sources.kafka.connection import plain_properties
from changefeed.sources.kafka.librdkafka import refusal

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

    from changefeed.frames.mapped import Work

_ISOLATION = "isolation.level"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_UNDERSTOOD = {
    "bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config", "ssl.truststore.type",
    "ssl.truststore.location", "ssl.keystore.type", "ssl.keystore.location", "ssl.key.password",
    "ssl.endpoint.identification.algorithm", _ISOLATION,
}  # fmt: skip
_AT_ONCE, _WAIT = 2_000, 0.1  # records, seconds: `consume` returns when it has as many, or when the time is over
_BATCH_RECORDS, _BATCH_BYTES = 8_000, 8 * 2**20  # where a batch ends: after about so many records, or at so many bytes
_PATIENCE = 120.0  # seconds without an answer
# What is fetched after the last record of a range is thrown away. So an answer has at most 8 MiB, not 50, and the more partitions
# are read, the fewer bytes of each: so many (compressed) of each of up to so many partitions.
_FETCHED = ((1 << 20, 2), (256 << 10, 8), (64 << 10, sys.maxsize))
_OWN = {
    "group.id": "changefeed-reader", "enable.auto.commit": "false", "enable.partition.eof": "true", "auto.offset.reset": "error",
    "queued.min.messages": "5000", "fetch.max.bytes": str(8 * 2**20), "fetch.queue.backoff.ms": "2", "log_level": "0",
}  # fmt: skip
_consumers: dict[tuple[tuple[tuple[str, str], ...], int], Consumer] = {}  # of this worker


@dataclass(frozen=True, slots=True)
class Range:
    """Records of a partition, from the offset `start` to before `stop`."""

    topic: str
    partition: int
    start: int
    stop: int


def properties(options: Mapping[str, str], *, alone: bool = False) -> dict[str, str] | None:
    """Translates the options of Spark's connector to properties of librdkafka.

    Args:
        options: options of Spark's connector.
        alone: there is no other client, whose certificates could be others.

    Returns:
        The properties; None if librdkafka might read the cluster differently. Without a truststore, Java and librdkafka trust
        different certificates, and the Python package of librdkafka has no Kerberos.
    """
    if find_spec("confluent_kafka") is None:
        return None
    java = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    protocol = java.get("security.protocol", "PLAINTEXT").upper()
    if not java.keys() <= _UNDERSTOOD:
        return None
    if protocol.startswith("SASL") and java.get("sasl.mechanism", "").upper() not in _MECHANISMS:
        return None
    if protocol.endswith("SSL") and "ssl.truststore.location" not in java and not alone:
        return None
    try:
        return plain_properties(dict(options)) | {_ISOLATION: java.get(_ISOLATION, "read_uncommitted")}
    except ConfigError:
        return None


def shared(ranges: Iterable[Range], tasks: int) -> list[list[Range]]:
    """Divides ranges into at most `tasks` parts with similar numbers of records."""
    parts: list[list[Range]] = [[] for _ in range(tasks)]
    sizes = [0] * tasks
    for one in sorted(ranges, key=lambda one: one.start - one.stop):
        smallest = sizes.index(min(sizes))
        parts[smallest].append(one)
        sizes[smallest] += one.stop - one.start
    return [part for part in parts if part]


def read_shares(properties: Mapping[str, str], shares: Sequence[Sequence[Range]]) -> Work:
    """Returns the function that workers run: it reads the shares whose numbers are its input."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            yield from read(properties, shares[number])

    return run


def read(properties: Mapping[str, str], ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    """Yields the records of the ranges; each batch has records of one range, in order.

    Raises:
        AccessError: the brokers refuse the user.
        SourceError: the brokers do not answer, or have deleted records of a range.
    """
    from confluent_kafka import KafkaException, TopicPartition

    last = time.monotonic()
    left = {(one.topic, one.partition): _Rows(one) for one in ranges if one.start < one.stop}
    try:
        consumer = _consumer(properties, len(left))
        consumer.assign(
            [TopicPartition(topic, partition, rows.range.start) for (topic, partition), rows in left.items()]
        )
        while left:
            messages: list[Any] = consumer.consume(_AT_ONCE, timeout=_WAIT)
            if messages:
                last = time.monotonic()
            elif time.monotonic() - last > _PATIENCE:
                raise SourceError(_silence(properties, next(iter(left.values())).range), transient=True)
            for topic, partition, error, run in _runs(messages):
                rows = left.get((topic, partition))
                if rows is None:
                    continue
                yield from rows.add(run) if error is None else rows.end(run[0], error)
                if rows.complete:
                    del left[topic, partition]
        consumer.unassign()
    except KafkaException as error:
        raise refusal(properties["bootstrap.servers"], error.args[0]) from error


def _runs(messages: list[Any]) -> Iterator[tuple[str, int, KafkaError | None, list[Any]]]:
    """Yields neighbours of one partition, and each error alone, with topic, partition and error."""
    from confluent_kafka import Message

    errors = list(map(Message.error, messages))  # which compare with nothing else
    places: Any = zip(
        map(Message.topic, messages), map(Message.partition, messages), map(is_, errors, repeat(None)), strict=True
    )
    start = 0
    for (topic, partition, is_record), run in groupby(places):
        stop = start + len(list(run))
        if is_record:
            yield topic, partition, None, messages[start:stop]
        else:
            yield from ((topic, partition, errors[at], [messages[at]]) for at in range(start, stop))
        start = stop


@dataclass(slots=True)
class _Rows:
    """Records of a range that were read and not yet yielded.

    Attributes:
        complete: the last record was read, or there are no more.
        most: records of a batch; the batches of a range have similar numbers of records, none has a few.
        headers: number of a record in `offsets` -> its headers, if it has any.
        size: bytes of the values.
    """

    range: Range
    complete: bool = False
    most: int = field(init=False)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    offsets: list[int | None] = field(default_factory=list)
    headers: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    size: int = 0

    def __post_init__(self) -> None:
        count = self.range.stop - self.range.start
        self.most = ceil(count / max(round(count / _BATCH_RECORDS), 1))

    def add(self, messages: list[Any]) -> Iterator[pa.RecordBatch]:
        """Adds consecutive records of the partition; yields full batches, and the rest at the end of the range."""
        if messages[-1].offset() + 1 >= self.range.stop:
            self.complete = True
            messages = [message for message in messages if message.offset() < self.range.stop]
        while messages:
            ends = list(accumulate(map(len, messages), initial=self.size))
            room = min(self.most - len(self.offsets), bisect_left(ends, _BATCH_BYTES, 1), len(messages))
            self._add_all(messages[:room])
            self.size, messages = ends[room], messages[room:]
            if len(self.offsets) >= self.most or self.size >= _BATCH_BYTES:
                yield self._taken()
        if self.complete and self.offsets:
            yield self._taken()

    def end(self, message: Any, error: KafkaError) -> Iterator[pa.RecordBatch]:
        """Yields the records that are left if the partition ends here.

        Raises:
            SourceError: records of the range have been deleted.
            KafkaException: any other error.
        """
        from confluent_kafka import KafkaError, KafkaException

        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise SourceError(_expired(self.range))
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        self.complete = message.offset() >= self.range.stop
        if self.offsets:
            yield self._taken()

    def _add_all(self, messages: list[Any]) -> None:
        from confluent_kafka import Message

        all_headers: Iterator[Any] = map(Message.headers, messages)
        for row, headers in enumerate(all_headers, len(self.offsets)):
            if headers:
                self.headers[row] = [{"key": name, "value": data} for name, data in headers]
        self.keys += map(Message.key, messages)
        self.values += map(Message.value, messages)
        self.offsets += map(Message.offset, messages)

    def _taken(self) -> pa.RecordBatch:
        """The records; none are left."""
        count = len(self.offsets)
        columns: dict[str, Any] = {
            "key": self.keys, "value": self.values, "offset": self.offsets,
            "topic": pa.repeat(self.range.topic, count), "partition": pa.repeat(self.range.partition, count),
        }  # fmt: skip
        if self.headers:
            columns["headers"] = [self.headers.get(row, []) for row in range(count)]
        self.keys, self.values, self.offsets, self.headers, self.size = [], [], [], {}, 0
        return record_columns(count, **columns)


def _consumer(properties: Mapping[str, str], partitions: int) -> Consumer:
    """This worker's consumer for so many partitions."""
    from confluent_kafka import Consumer

    fetched = next(size for size, most in _FETCHED if partitions <= most)
    known = (tuple(sorted(properties.items())), fetched)
    if known not in _consumers:
        _consumers[known] = Consumer({**properties, **_OWN, "max.partition.fetch.bytes": str(fetched)})
    return _consumers[known]


def _expired(missing: Range) -> str:
    return (
        f"Kafka no longer has all records from {missing.start} to {missing.stop - 1} of {missing.topic}:{missing.partition}, "
        "which come next: they expired before they were read. Start a new pipeline from a snapshot"
    )


def _silence(properties: Mapping[str, str], missing: Range) -> str:
    return (
        f"{properties['bootstrap.servers']} sent no records of {missing.topic}:{missing.partition} "
        f"for {_PATIENCE:.0f} s: check its brokers, and whether the topic still exists"
    )
