"""`spark.read.format("changefeed")` and `spark.readStream` over topics of Kafka.

Rule 1. The driver asks the brokers for the partitions and their ends when a read, or a batch of a stream, is planned. The
        tasks that decode the records also fetch them, with librdkafka; one task reads a partition's records, in order.
Rule 2. An offset of a stream is the next offset of every partition, and the ids of the topics (`source_offset.py`). A
        partition or topic that is new is read from its first record. A topic that was deleted or created again, and records
        that expired before they were read, end the query.
Rule 3. If a record's meaning depends on those before it in its partition (`ReadPlan.in_order`), a stream is refused: `decode`
        keeps those records in Spark's state store. A batch reads whole partitions, and does not need them.
Rule 4. At the end of a batch read, records of incomplete events become dead letters.
Rule 5. A cluster that librdkafka does not reach exactly as the Java client does (`reader.properties`) is refused: Spark's
        connector reads it, and `decode` decodes its records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from changefeed.errors import ConfigError, MissingExtraError, SourceError
from changefeed.redaction import remember
from changefeed.sources.kafka import compare, reader
from changefeed.sources.kafka.librdkafka import PlainBrokers
from changefeed.sources.kafka.properties import wrong_offsets, wrong_properties
from changefeed.sources.kafka.reader import Range
from changefeed.sources.kafka.source_offset import EARLIEST, LATEST, Place, SourceOffset, by_place, by_topic, read
from changefeed.sources.kafka.topics import Topic
from changefeed.spark.options import ReadOptions
from changefeed.spark.reading import ReadPlan

_DECODE = 'changefeed.spark.decode(spark.{reader}.format("kafka")….load(), "{protocol}")'
_SERVERS = "kafka.bootstrap.servers"


@dataclass(frozen=True, slots=True)
class KafkaInput:
    """Topics of one cluster.

    Attributes:
        properties: librdkafka's properties.
        names: names of topics; empty if `pattern` is set.
        pattern: a Java regular expression for whole names of topics.
        start: where a read begins: `earliest`, `latest`, or JSON as Spark's connector takes it.
        end: where a batch read ends: `latest` or JSON.
    """

    properties: Mapping[str, str] = field(repr=False)  # passwords among them
    names: tuple[str, ...]
    pattern: str | None
    start: str
    end: str

    def reader(self, reading: ReadPlan | None) -> KafkaReader:
        """Creates Spark's batch reader."""
        assert reading is not None  # `read_options` requires a protocol
        return KafkaReader(self, reading)

    def stream_reader(self, reading: ReadPlan | None) -> KafkaStreamReader:
        """Creates Spark's stream reader.

        Raises:
            ConfigError: a record of the protocol may depend on earlier ones, or an end is set.
        """
        assert reading is not None
        if reading.in_order:
            raise ConfigError(
                f"changefeed: a record of {reading.language.name} may depend on earlier ones, which Spark keeps in its state "
                f"store: use {_DECODE.format(reader='readStream', protocol=reading.language.name)}"
            )
        if self.end != "latest":
            raise ConfigError("changefeed: a stream has no end: remove the option endingOffsets")
        return KafkaStreamReader(self, reading)

    def first(self, limit: int) -> Iterator[pa.RecordBatch]:
        """Yields the first records of each partition.

        Raises:
            ConfigError: a topic does not exist.
            SourceError: no broker answers.
        """
        _, ends = self.described(self.brokers())
        ranges = [Range(*place, first, min(first + limit, end)) for place, (first, end) in ends.items()]
        return reader.read(self.properties, ranges)

    def brokers(self) -> PlainBrokers:
        """Connects to the brokers."""
        for name, value in self.properties.items():
            remember(name, value)
        return PlainBrokers(self.properties, "Reading Kafka")

    def described(self, brokers: PlainBrokers) -> tuple[dict[str, Topic], dict[Place, tuple[int, int]]]:
        """Returns the topics to read, and first offset and end of each of their partitions."""
        topics = brokers.chosen(self.names, self.pattern)
        return topics, brokers.ranges((name, p) for name, topic in topics.items() for p in sorted(topic.partitions))

    def begin(self, ends: Mapping[Place, tuple[int, int]]) -> dict[Place, int]:
        """Returns the offset at which each partition begins, given its first and last.

        Raises:
            ConfigError: `start` lies outside the records of a partition.
        """
        return self._chosen("startingOffsets", self.start, EARLIEST, ends)

    def stop(self, ends: Mapping[Place, tuple[int, int]]) -> dict[Place, int]:
        """Returns the offset before which a batch read stops in each partition.

        Raises:
            ConfigError: `end` lies outside the records of a partition.
        """
        return self._chosen("endingOffsets", self.end, LATEST, ends)

    def _chosen(self, option: str, text: str, default: int, ends: Mapping[Place, tuple[int, int]]) -> dict[Place, int]:
        named = {"earliest": EARLIEST, "latest": LATEST}
        offsets: dict[str, dict[str, int]] = {} if text in named else json.loads(text)
        chosen = by_place(offsets)
        if unknown := sorted(chosen.keys() - ends.keys()):
            raise ConfigError(f"changefeed: option {option}: there is no partition {unknown[0][0]}:{unknown[0][1]}")
        places = {}
        for place, (first, end) in ends.items():
            offset = chosen.get(place, named.get(text, default))
            places[place] = {EARLIEST: first, LATEST: end}.get(offset, offset)
            if not first <= places[place] <= end:
                raise ConfigError(
                    f"changefeed: option {option}: {place[0]}:{place[1]} has the records {first} to {end - 1}, and not {offset}"
                )
        return places


def kafka_input(kafka: Mapping[str, str], options: ReadOptions) -> KafkaInput:
    """Creates the input from options with the names of Spark's connector.

    Args:
        kafka: `kafka.bootstrap.servers` and further properties of the Java client, with the prefix `kafka.`.
        options: the options of the read, with a protocol.

    Raises:
        ConfigError: an option is missing or wrong, or librdkafka cannot reach such a cluster.
    """
    if _SERVERS not in kafka:
        raise ConfigError(f"changefeed: option {_SERVERS} is missing")
    if (options.subscribe is None) == (options.subscribe_pattern is None):
        raise ConfigError("changefeed: give either subscribe, the names of topics, or subscribePattern")
    others = {name: value for name, value in kafka.items() if name != _SERVERS}
    for _, why in wrong_properties(others):
        raise ConfigError(f"changefeed: {why}")
    for option, text in (("startingOffsets", options.starting_offsets), ("endingOffsets", options.ending_offsets)):
        if (wrong := wrong_offsets(text)) is not None:
            raise ConfigError(f"changefeed: option {option}: {wrong}")
    if find_spec("confluent_kafka") is None:
        raise MissingExtraError("Reading Kafka", "kafka")
    properties = reader.properties(kafka)
    if properties is None:
        raise ConfigError(
            f"changefeed: options {', '.join(sorted(others))}: only Spark's connector reads such a cluster: use "
            f"{_DECODE.format(reader='read', protocol=options.protocol)}"
        )
    names = tuple(name.strip() for name in (options.subscribe or "").split(",") if name.strip())
    return KafkaInput(properties, names, options.subscribe_pattern, options.starting_offsets, options.ending_offsets)


@dataclass
class Ranges(InputPartition):
    """The records of one task."""

    ranges: list[Range]


def _tasks(starts: Mapping[Place, int], stops: Mapping[Place, int]) -> list[InputPartition]:
    """Returns one task for each partition that has records."""
    ranges = [Range(*place, starts[place], stop) for place, stop in sorted(stops.items())]
    return [Ranges([one]) for one in ranges if one.start < one.stop]


class KafkaReader(DataSourceReader):
    """Spark's batch reader: reads the records that the topics have when the read is planned."""

    def __init__(self, topics: KafkaInput, reading: ReadPlan) -> None:
        self._topics, self._reading = topics, reading

    def partitions(self) -> list[InputPartition]:
        """Returns the work of each task."""
        _, ends = self._topics.described(self._topics.brokers())
        return _tasks(self._topics.begin(ends), self._topics.stop(ends)) or [Ranges([])]

    def read(self, partition: Ranges) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """The rows of a task."""
        rows = self._reading.start()
        yield from rows.read(reader.read(self._topics.properties, partition.ranges))
        yield from rows.finish()


class KafkaStreamReader(DataSourceStreamReader):
    """Spark's stream reader: plans batches on the driver, and reads them in tasks."""

    def __init__(self, topics: KafkaInput, reading: ReadPlan) -> None:
        self._topics, self._reading = topics, reading
        self._brokers: PlainBrokers | None = None  # connected when first asked: Spark pickles the reader

    def initialOffset(self) -> dict[str, Any]:  # Spark's name
        """Returns the offset at which the stream begins."""
        topics, ends = self._topics.described(self._ask())
        return _offset(self._topics.begin(ends), topics)

    def latestOffset(self) -> dict[str, Any]:  # Spark's name
        """Returns the offset after the last record of every partition."""
        topics, ends = self._topics.described(self._ask())
        return _offset({place: end for place, (_, end) in ends.items()}, topics)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns the work of each task of a batch.

        Raises:
            SourceError: a topic was deleted or created again, or records expired before they were read.
        """
        begun, ended = (read(json.dumps(offset)) for offset in (start, end))
        topics = {name: Topic(ended.ids.get(name), frozenset(map(int, of))) for name, of in ended.offsets.items()}
        _refuse(compare.removed(begun, topics, begun.offsets))
        ends = self._ask().ranges(ended.partitions())
        firsts = {place: first for place, (first, _) in ends.items()}
        _refuse(compare.moved(begun, firsts, {place: ends[place][1] for place in begun.partitions()}))
        starts = firsts | by_place(begun.offsets)
        return _tasks(starts, by_place(ended.offsets))

    def read(self, partition: Ranges) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """The rows of a task."""
        return self._reading.start().read(reader.read(self._topics.properties, partition.ranges))

    def _ask(self) -> PlainBrokers:
        if self._brokers is None:
            self._brokers = self._topics.brokers()
        return self._brokers


def _refuse(gone: Mapping[str, str]) -> None:
    if gone:
        name, why = next(iter(gone.items()))
        raise SourceError(
            f"topic {name} was {why} while the stream read it: its records do not continue those that were read. Start a new "
            "stream, with a new checkpoint"
        )


def _offset(offsets: Mapping[Place, int], topics: Mapping[str, Topic]) -> dict[str, Any]:
    ids = {name: topic.id for name, topic in topics.items() if topic.id is not None}
    offset: dict[str, Any] = json.loads(SourceOffset(by_topic(offsets), ids).text())
    return offset
