"""Kafka topics as a source.

`batches.py` divides what the brokers have into batches. `reader.py` reads them where it can, otherwise Spark's connector does.
The source offset has the next offset of each partition, and the ids of the topics (`source_offset.py`).

Rule 1. A run continues at the source offset. Partitions and topics that it does not have are read from their first record.
Rule 2. With every batch the brokers are asked for the topics (`compare.py`). A topic that was deleted, or deleted and created
again, stops the run; so does, when a run begins, one that was taken out of the definition. If the definition allows it, the topic
is left out instead. Nothing is skipped silently.
Rule 3. A new partition is in the source offset of the batch that is planned next, and the barrier waits for it.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.errors import ConfigError, MissingExtraError, NeedsSparkError, SourceError
from changefeed.frames.mapped import Mapped
from changefeed.sources import Backlog, Compared, NextBatch
from changefeed.sources.kafka import batches, compare, reader
from changefeed.sources.kafka.connection import plain_properties
from changefeed.sources.kafka.librdkafka import PlainBrokers
from changefeed.sources.kafka.reader import Range
from changefeed.sources.kafka.sample import first_records
from changefeed.sources.kafka.source_offset import EARLIEST, Places, SourceOffset, by_place, by_topic, read
from changefeed.sources.kafka.topics import Brokers, Topic
from changefeed.spark_runtime.session import has_jars_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SECONDS = 10.0  # timeout of a connection to a server
_PROBE_SECONDS = 1.0  # of one that is only to show whether it answers
_ANSWER_SECONDS = 3.0  # of an answer that is only to show that there is one
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


@dataclass(slots=True)
class KafkaTopics:
    """The source `kafka`: topics of one cluster, by name or by pattern.

    Attributes:
        options: options of Spark's connector: the `kafka.*` properties, and where a new pipeline begins.
        limit: maximum number of records in a batch.
        names: names of topics; empty if `pattern` is set.
        pattern: a Java regular expression for whole names of topics.
        removed: what to do if a topic no longer exists: `stop` or `continue`.
    """

    options: dict[str, str]
    limit: int
    names: tuple[str, ...]
    pattern: str | None
    removed: str = "stop"
    _brokers: Brokers | PlainBrokers | None = field(default=None, repr=False)

    offset_names_partitions = True
    whole = True  # a task reads a whole partition, also where Spark's connector reads it

    def compared(self, spark: SparkSession | None, source_offset: str) -> Compared:
        """See `compare.py`."""
        known = read(source_offset)
        brokers = self._ask(spark) if spark is not None else self._ask_without_spark()
        wanted, topics = self._topics(brokers)
        removed = compare.removed(known, topics, wanted)
        left = known.without(removed).partitions()
        removed |= compare.moved(known, brokers.firsts(left), brokers.ends(left))
        if removed and self.removed == "stop":
            raise compare.refusal(removed)
        gone = [name for name, why in removed.items() if why is not compare.RECREATED]
        notes = [compare.note(name, why, known) for name, why in removed.items()]
        again = {name: topics[name].partitions for name in removed if name not in gone}
        ids = {name: topic.id for name, topic in topics.items() if topic.id is not None and name in known.offsets}
        return Compared(
            SourceOffset(known.without(removed).offsets, ids).extended(again).text(), frozenset(removed), tuple(notes)
        )

    def next_batch(
        self, spark: SparkSession, before: str | None, end: str | None, *, short_first: bool = False
    ) -> NextBatch | None:
        """Returns the records of a batch: of each partition its share. The first batch may have none: its end is where it begins.

        Raises:
            ConfigError: a server has no port, the pattern is not one, or the definition starts behind a partition's end.
            SourceError: no server answers, or a topic does not exist; see `Stream`, too.
        """
        known, ids = self._known(spark, before)
        places = known.partitions()
        last = self._ask(spark).ends(places) if end is None else by_place(read(end).offsets)
        starts = self._starts(spark, known, last, before is None)
        ends = starts | {place: last[place] for place in places & last.keys()}  # without an end: left to the next run
        self._refuse(compare.moved(known, starts, ends))
        stops = batches.stops(starts, ends, self.limit, short_first=short_first)
        after = SourceOffset(by_topic(stops), ids)
        if before is not None and after == read(before):
            return None
        ended = frozenset(place for place, stop in stops.items() if stop >= ends[place])
        left = batches.behind(stops, ends)
        return NextBatch(self._records(spark, starts, stops), after.text(), ended, ended == places, left)

    def end(self, spark: SparkSession, before: str | None) -> str:
        """Returns the ends of all partitions."""
        known, ids = self._known(spark, before)
        return SourceOffset(by_topic(self._ask(spark).ends(known.partitions())), ids).text()

    def missing(self) -> None:
        """Returns None: the brokers report a topic that does not exist."""
        return None

    def _known(self, spark: SparkSession, before: str | None) -> tuple[SourceOffset, dict[str, str]]:
        """Returns a source offset with all partitions that there are now, and the topics' ids.

        Raises:
            SourceError: a topic was removed, or does not exist yet.
        """
        wanted, topics = self._topics(self._ask(spark))
        known = SourceOffset({}) if before is None else read(before)
        self._refuse(compare.removed(known, topics, topics.keys() | known.offsets.keys()))
        self._check_there(wanted, topics)
        ids = {name: topic.id for name, topic in topics.items() if topic.id is not None}
        return known.extended({name: topic.partitions for name, topic in topics.items()}), ids

    def _starts(self, spark: SparkSession, known: SourceOffset, ends: Places, is_new: bool) -> Places:
        """Returns the offset of the next record of each partition; `is_new`: nothing was read yet."""
        starts = by_place(known.offsets)
        if not is_new:
            return starts | self._ask(spark).firsts(place for place, offset in starts.items() if offset == EARLIEST)
        firsts = self._ask(spark).firsts(starts)
        return batches.begin(self.options["startingOffsets"], firsts, firsts | ends)

    def _refuse(self, gone: Mapping[str, str]) -> None:
        if gone:
            raise compare.refusal(gone, goes_on=self.removed == "continue")

    def _check_there(self, wanted: Collection[str], topics: Mapping[str, Topic]) -> None:
        """Checks that the topics of the definition exist."""
        missing = sorted(wanted - topics.keys())
        if (missing and self.removed == "stop") or not topics:
            servers = self.options["kafka.bootstrap.servers"]
            name = missing[0] if missing else f"matches {self.pattern}"
            raise ConfigError(
                f"no topic {name} at {servers}: create it first, correct the source section, or let this user see it"
            )

    def _records(self, spark: SparkSession, starts: Places, stops: Places) -> DataFrame | Mapped:
        """Returns the records between these offsets of each partition, read by librdkafka or by Spark's connector."""
        ranges = [Range(*place, starts[place], stop) for place, stop in stops.items() if starts[place] < stop]
        plain = reader.properties(self.options, alone=isinstance(self._ask(spark), PlainBrokers))
        if plain is not None or not ranges:
            shares = reader.shared(ranges, spark.sparkContext.defaultParallelism)
            return Mapped(spark.range(0, len(shares), 1, max(1, len(shares))), reader.read_shares(plain or {}, shares))
        places = [(one.topic, one.partition) for one in ranges]
        begin, end = (by_topic({place: of[place] for place in places}) for of in (starts, stops))
        options = self.options | {
            "assign": json.dumps({topic: [int(p) for p in of] for topic, of in begin.items()}),
            "startingOffsets": json.dumps(begin),
            "endingOffsets": json.dumps(end),
        }
        return spark.read.format("kafka").options(**options).load().select(*_COLUMNS)

    def sample(self, limit: int) -> Iterator[pa.RecordBatch]:
        """Yields the first records of the topics, `limit` in total."""
        brokers = self._ask_without_spark()
        topics = brokers.chosen(self.names, self.pattern, lenient=self.removed == "continue")
        return first_records(plain_properties(self.options), brokers, topics, limit)

    def backlog(self, before: str | None) -> Backlog | None:
        """Asks the brokers with librdkafka; None if only Spark's connector understands the properties."""
        try:
            brokers = self._ask_without_spark()
            topics = brokers.chosen(self.names, self.pattern, lenient=self.removed == "continue")
        except (MissingExtraError, NeedsSparkError):
            self._check_answer()
            return None
        known = SourceOffset({}) if before is None else read(before)
        places = known.extended({name: topic.partitions for name, topic in topics.items()}).without(
            known.offsets.keys() - topics.keys()
        )
        ranges = brokers.ranges(places.partitions())
        ends = {place: end for place, (_, end) in ranges.items()}
        firsts = {place: first for place, (first, _) in ranges.items()}
        if before is None:
            return batches.behind(batches.begin(self.options["startingOffsets"], firsts, firsts | ends), ends)
        starts = by_place(places.offsets)
        return batches.behind({place: firsts[place] if at == EARLIEST else at for place, at in starts.items()}, ends)

    def unreachable(self) -> str | None:
        """See `Stream`."""
        try:
            self._check_answer()
        except SourceError as error:
            return str(error)
        except ConfigError:  # the run reports it
            return None
        return None

    def _check_answer(self) -> None:
        """Checks that a broker answers; one that librdkafka may not reach need only accept a connection."""
        _check_reachable(self.options["kafka.bootstrap.servers"], _PROBE_SECONDS)
        if (plain := reader.properties(self.options)) is not None:
            PlainBrokers(plain, "Reading Kafka").check_answer(_ANSWER_SECONDS)

    def partitions(self, source_offset: str) -> set[tuple[str, int]]:
        """Returns every partition of the source offset."""
        return read(source_offset).partitions()

    def close(self) -> None:
        """Closes the connection to the brokers."""
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    def _ask(self, spark: SparkSession) -> Brokers | PlainBrokers:
        if self._brokers is None:
            _check_reachable(self.options["kafka.bootstrap.servers"])
            if has_jars_of(spark, "kafka"):
                properties = {n.removeprefix("kafka."): v for n, v in self.options.items() if n.startswith("kafka.")}
                self._brokers = Brokers(spark, properties)
            else:
                self._brokers = PlainBrokers(self._without_connector(), "Reading Kafka without Spark's connector")
        return self._brokers

    def _without_connector(self) -> dict[str, str]:
        """Returns the properties of librdkafka, which reads where Spark has no connector.

        Raises:
            ConfigError: only the connector understands the options.
            MissingExtraError: librdkafka is not installed.
        """
        if find_spec("confluent_kafka") is None:
            raise MissingExtraError("Reading Kafka without Spark's connector", "kafka")
        plain = reader.properties(self.options, alone=True)
        if plain is None:
            raise ConfigError(
                "source.options has properties that only Spark's Kafka connector understands, whose jars changefeed has for "
                "Spark 4.1: pip install 'pyspark~=4.1.0'; or leave out all but security.protocol, sasl.mechanism, "
                "sasl.jaas.config and ssl.*"
            )
        return plain

    def _ask_without_spark(self) -> PlainBrokers:
        brokers = PlainBrokers(plain_properties(self.options), "Looking at Kafka topics without Spark")
        self._check_answer()
        return brokers

    def _topics(self, brokers: Brokers | PlainBrokers) -> tuple[set[str], dict[str, Topic]]:
        """Returns the names of the topics in the definition, and those topics that there are."""
        wanted = set(self.names) if self.pattern is None else brokers.matching(self.pattern)
        return wanted, brokers.topics(wanted)


def _check_reachable(servers: str, seconds: float = _SECONDS) -> None:
    """Connects to one of the servers, to check that it can be reached; each has some seconds to answer."""
    reason: OSError | None = None
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not port.isdigit():
            raise ConfigError(f"source.servers: expected host:port, not {server!r}")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=seconds):
                return
        except OSError as error:
            reason = error
    raise SourceError(f"{servers} does not answer: {reason}", transient=True) from reason


def open_source(definition: Any) -> KafkaTopics:
    """Opens the source of a `type: kafka` section."""
    return KafkaTopics(
        {
            **definition.properties,
            "kafka.bootstrap.servers": definition.servers,
            "startingOffsets": definition.starting_offsets,
            "includeHeaders": "true",
            "failOnDataLoss": "true",
        },
        definition.max_records_per_batch,
        tuple(definition.topics or ()),
        definition.topics_pattern,
        definition.removed_topics,
    )
