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
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.errors import ConfigError, SourceError
from changefeed.frames.mapped import Mapped
from changefeed.sources import Compared, NextBatch
from changefeed.sources.kafka import batches, compare, reader
from changefeed.sources.kafka.reader import Range
from changefeed.sources.kafka.source_offset import Places, SourceOffset, by_place, by_topic, read
from changefeed.sources.kafka.topics import Brokers, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SECONDS = 10.0  # timeout of a connection to a server
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


@dataclass(frozen=True, slots=True)
class _Now:
    """The ids of the topics, and of each partition the offset of the next record to read, and that after the last one."""

    ids: dict[str, str]
    starts: Places
    ends: Places


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
    _brokers: Brokers | None = field(default=None, repr=False)

    offset_names_partitions = True
    whole = True  # a task reads a whole partition, also where Spark's connector reads it

    def compared(self, spark: SparkSession, source_offset: str) -> Compared:
        """See `compare.py`."""
        known = read(source_offset)
        there = self._ask(spark).topics()
        wanted = self._wanted(there)
        topics = self._ask(spark).described(sorted(wanted & there.keys()))
        removed = compare.removed(known, topics, wanted)
        left = known.without(removed)
        ends = self._ask(spark).ends(left.partitions())
        removed |= compare.moved(left, ends)
        if removed and self.removed == "stop":
            raise compare.refusal(removed)
        gone = [name for name, why in removed.items() if why is not compare.RECREATED]
        notes = [compare.note(name, why, known) for name, why in removed.items()]
        again = {name: topics[name].partitions for name in removed if name not in gone}
        ids = {name: topic.id for name, topic in topics.items() if topic.id is not None and name in known.offsets}
        return Compared(
            SourceOffset(known.without(removed).offsets, ids).extended(again).text(), frozenset(removed), tuple(notes)
        )

    def next_batch(self, spark: SparkSession, before: str | None, end: str | None) -> NextBatch | None:
        """Returns the records of a batch: of each partition its share. The first batch may have none: its end is where it begins.

        Raises:
            ConfigError: a server has no port, the pattern is not one, or the definition starts behind a partition's end.
            SourceError: no server answers, or a topic does not exist; see `Stream`, too.
        """
        now = self._now(spark, before)
        ends = now.ends
        if end is not None:
            ends = now.starts | by_place(read(end).offsets)  # new partitions are left to the next run
        stops = batches.stops(now.starts, ends, self.limit)
        after = SourceOffset(by_topic(stops), now.ids)
        if before is not None and after == read(before):
            return None
        left = {place for place, stop in stops.items() if stop < ends[place]}
        ended = frozenset(stops.keys() - left)
        return NextBatch(self._records(spark, now.starts, stops), after.text(), ended, caught_up=not left)

    def leading_batch(self, spark: SparkSession, before: str | None) -> NextBatch | None:
        """Returns the partitions with the fewest records left to read, as many as fit into one batch; see `Stream`."""
        now = self._now(spark, before)
        short = batches.short(now.starts, now.ends, self.limit)
        if not short:
            return None
        stops = now.starts | {place: now.ends[place] for place in short}
        after = SourceOffset(by_topic(stops), now.ids)
        return NextBatch(self._records(spark, now.starts, stops), after.text(), short)

    def end(self, spark: SparkSession, before: str | None) -> str:
        """Returns the ends of all partitions."""
        now = self._now(spark, before)
        return SourceOffset(by_topic(now.ends), now.ids).text()

    def missing(self) -> None:
        """Returns None: the brokers report a topic that does not exist."""
        return None

    def _now(self, spark: SparkSession, before: str | None) -> _Now:
        """Asks the brokers for the topics, and for the records that they have after a source offset.

        Raises:
            SourceError: a topic was removed, or does not exist yet; or the records that come next are gone.
        """
        brokers, known = self._ask(spark), SourceOffset({}) if before is None else read(before)
        there = brokers.topics()
        wanted = self._wanted(there)
        topics = brokers.described(sorted(wanted & there.keys()))
        self._refuse(compare.removed(known, topics, topics.keys() | known.offsets.keys()))
        self._check_there(wanted, topics)
        known = known.extended({name: topic.partitions for name, topic in topics.items()})
        bounds = brokers.ends(known.partitions())
        if before is None:
            known = SourceOffset(by_topic(batches.begin(self.options["startingOffsets"], bounds)))
        self._refuse(compare.moved(known, bounds))
        starts = {place: max(bounds[place][0], offset) for place, offset in by_place(known.offsets).items()}
        ids = {name: topic.id for name, topic in topics.items() if topic.id is not None}
        return _Now(ids, starts, {place: end for place, (_, end) in bounds.items()})

    def _refuse(self, gone: Mapping[str, str]) -> None:
        if gone:
            raise compare.refusal(gone, goes_on=self.removed == "continue")

    def _check_there(self, wanted: Collection[str], topics: Mapping[str, Topic]) -> None:
        """Checks that the topics of the definition exist; Spark's client would try for minutes, with a worse message."""
        missing = sorted(wanted - topics.keys())
        if (missing and self.removed == "stop") or not topics:
            servers = self.options["kafka.bootstrap.servers"]
            name = missing[0] if missing else f"matches {self.pattern}"
            raise SourceError(f"no topic {name} at {servers}: create it first, or correct the source section")

    def _records(self, spark: SparkSession, starts: Places, stops: Places) -> DataFrame | Mapped:
        """Returns the records between these offsets of each partition, read by librdkafka or by Spark's connector."""
        ranges = [Range(*place, starts[place], stop) for place, stop in stops.items() if starts[place] < stop]
        plain = reader.properties(self.options)
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
        from changefeed.sources.kafka.sample import first_records

        return first_records(self.options, self.names, self.pattern, limit)

    def partitions(self, source_offset: str) -> set[tuple[str, int]]:
        """Returns every partition of the source offset."""
        return read(source_offset).partitions()

    def close(self) -> None:
        """Closes the connection to the brokers."""
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    def _ask(self, spark: SparkSession) -> Brokers:
        if self._brokers is None:
            _check_reachable(self.options["kafka.bootstrap.servers"])
            properties = {n.removeprefix("kafka."): v for n, v in self.options.items() if n.startswith("kafka.")}
            self._brokers = Brokers(spark, properties)
        return self._brokers

    def _wanted(self, there: dict[str, Topic]) -> set[str]:
        """Returns the names of the topics in the definition."""
        if self.pattern is None:
            return set(self.names)
        assert self._brokers is not None
        return self._brokers.matches(self.pattern, there)


def _check_reachable(servers: str) -> None:
    """Connects to one of the servers, to check that it can be reached."""
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
