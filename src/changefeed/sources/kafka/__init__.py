"""Kafka topics as a source.

Spark's own connector plans the batches. `reader.py` reads them where it can, otherwise the connector does. The source offset
has the connector's offsets and the ids of the topics (`source_offset.py`).

Rule 1. A run continues at the source offset. Partitions and topics that it does not have are read from their first record.
Rule 2. Before a stream begins, and with every batch, the brokers are asked for the topics (`compare.py`). A topic that was
deleted, deleted and created again, or taken out of the definition stops the run, or is left out if the definition allows it.
Nothing is skipped silently.
Rule 3. A partition that appears while a batch is planned is already in that batch's source offset, and the barrier waits
for it.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.errors import ConfigError, SourceError
from changefeed.frames.mapped import Mapped
from changefeed.sources import Compared, Leading
from changefeed.sources.kafka import compare, reader
from changefeed.sources.kafka.pattern import any_of, whole
from changefeed.sources.kafka.source_offset import EARLIEST, LATEST, SourceOffset, by_place, by_topic, read
from changefeed.sources.kafka.topics import Brokers, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SECONDS = 10.0  # timeout of a connection to a server
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


@dataclass(slots=True)
class KafkaTopics:
    """The source `kafka`: topics of one cluster, by name or by pattern.

    Attributes:
        options: the options of Spark's connector, with the `kafka.*` properties.
        names: names of topics; empty if `pattern` is set.
        pattern: a Java regular expression for whole names of topics.
        removed: what to do if a topic no longer exists: `stop` or `continue`.
    """

    options: dict[str, str]
    names: tuple[str, ...]
    pattern: str | None
    removed: str = "stop"
    _brokers: Brokers | None = field(default=None, repr=False)

    available_now = True
    offset_names_partitions = True
    start = None
    whole = True  # Spark's connector gives a partition to one task

    def stream(self, spark: SparkSession, source_offset: str | None, end: str | None) -> DataFrame:
        """Returns the records from `source_offset` on; the connector finds the end by itself.

        Raises:
            ConfigError: a server has no port, or the pattern is not one.
            SourceError: no server answers, or a topic does not exist. Spark's client would try for minutes, with a worse message.
        """
        topics = self._topics_to_read(spark)
        options = self.options | dict([self._subscription()])
        if source_offset is not None:
            new = {name: topic.partitions for name, topic in topics.items()}
            options["startingOffsets"] = json.dumps(read(source_offset).extended(new).offsets)
        records = spark.readStream.format("kafka").options(**options).load()
        return records.select(*_COLUMNS)

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

    def source_offset(self, spark: SparkSession, before: str | None, logged: str) -> str:
        """Adds the topics' ids to the batch's offsets; partitions that the batch does not have begin at their first record."""
        known, offsets = SourceOffset({}) if before is None else read(before), read(logged).offsets
        there = self._ask(spark).topics()
        topics = self._ask(spark).described(sorted(self._wanted(there) & there.keys()))
        batch = SourceOffset(offsets, {name: id for name in offsets if (id := known.ids.get(name)) is not None})
        removed = compare.removed(batch, topics, topics.keys() | offsets.keys())
        if removed:
            raise compare.refusal(removed, goes_on=self.removed == "continue")
        ids = {name: topic.id for name, topic in topics.items() if topic.id is not None}
        return SourceOffset(offsets, ids).extended({name: topic.partitions for name, topic in topics.items()}).text()

    def end(self, spark: SparkSession, source_offset: str | None) -> str | None:
        """Returns None: Spark's available-now trigger asks the brokers."""
        return None

    def missing(self) -> None:
        """Returns None: the brokers report a topic that does not exist."""
        return None

    def caught_up(self, before: str | None, after: str) -> bool:
        """Returns whether the batch is below its limit. Spark rounds each partition's share down, by less than a record."""
        if before is None:
            return False
        begun, ended = read(before).offsets, read(after).offsets
        taken = [n - max(0, begun.get(topic, {}).get(p, 0)) for topic, of in ended.items() for p, n in of.items()]
        unread = any(n < 0 for of in ended.values() for n in of.values())
        return not unread and sum(taken) + len(taken) < int(self.options["maxOffsetsPerTrigger"])

    def ended(self, spark: SparkSession, source_offset: str) -> set[tuple[str, int]]:
        """Returns the partitions that end at the source offset, or have no records at all, according to the brokers."""
        left = self._left(spark, read(source_offset))
        return {place for place, (start, end) in left.items() if start >= end}

    def leading(self, spark: SparkSession, source_offset: str | None) -> Leading | None:
        """Returns the partitions with the fewest records left to read, as many as fit into one batch; see `Stream`."""
        first = self.options["startingOffsets"]
        if source_offset is None and first == "latest":
            return None
        known = SourceOffset({}) if source_offset is None and first == "earliest" else read(source_offset or first)
        topics = self._topics_to_read(spark)
        known = SourceOffset(known.offsets, known.ids or {n: t.id for n, t in topics.items() if t.id is not None})
        known = known.extended({name: topic.partitions for name, topic in topics.items()})
        if any(offset == LATEST for of in known.offsets.values() for offset in of.values()):
            return None
        left, limit = self._left(spark, known), int(self.options["maxOffsetsPerTrigger"])
        sizes = sorted((max(0, end - start), place) for place, (start, end) in left.items())
        totals = list(accumulate(size for size, _ in sizes))
        short = [place for (_, place), total in zip(sizes, totals, strict=True) if total <= limit]
        if totals[-1] <= limit or not any(end > start for start, end in map(left.__getitem__, short)):
            return None
        starts, ends = (by_topic({place: left[place][at] for place in short}) for at in (0, 1))
        after = known.moved(ends).text()
        if direct := self._direct(spark, {place: left[place] for place in short}):
            return Leading(direct, after, frozenset(short))
        options = {n: v for n, v in self.options.items() if n != "maxOffsetsPerTrigger"} | {
            "assign": json.dumps({topic: [int(p) for p in of] for topic, of in starts.items()}),
            "startingOffsets": json.dumps(starts),
            "endingOffsets": json.dumps(ends),
        }
        records = spark.read.format("kafka").options(**options).load().select(*_COLUMNS)
        return Leading(records, after, frozenset(short))

    def unread(self, spark: SparkSession, before: str | None, after: str) -> Mapped | None:
        """Returns the records of a batch, to be read by librdkafka; None if Spark's connector must read them."""
        if before is None and self.options["startingOffsets"] != "earliest":
            return None  # where the batch begins, the connector alone has seen
        known, end = SourceOffset({}) if before is None else read(before), read(after)
        stops = {place: stop for place, stop in by_place(end.offsets).items() if stop >= 0}
        starts = {place: known.offsets.get(place[0], {}).get(str(place[1]), EARLIEST) for place in stops}
        if first := [place for place, start in starts.items() if start < 0]:
            starts |= {place: low for place, (low, _) in self._ask(spark).ends(first).items()}
        return self._direct(spark, {place: (starts[place], stop) for place, stop in stops.items()})

    def _direct(self, spark: SparkSession, ranges: Mapping[tuple[str, int], tuple[int, int]]) -> Mapped | None:
        """Returns the records of ranges, (topic, partition) -> (start, stop); None if Spark's connector must read them."""
        plain = reader.properties(self.options)
        if plain is None:
            return None
        pieces = [reader.Range(*place, *ends) for place, ends in ranges.items() if ends[0] < ends[1]]
        shares = reader.shared(pieces, spark.sparkContext.defaultParallelism)
        return Mapped(spark.range(0, len(shares), 1, max(1, len(shares))), reader.read_shares(plain, shares))

    def _left(self, spark: SparkSession, known: SourceOffset) -> dict[tuple[str, int], tuple[int, int]]:
        """Returns (topic, partition) -> offset of the next record to read, and offset after the last record."""
        ends = self._ask(spark).ends(known.partitions())
        return {(topic, p): (max(low, known.offsets[topic][str(p)]), high) for (topic, p), (low, high) in ends.items()}

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

    def _topics_to_read(self, spark: SparkSession) -> dict[str, Topic]:
        """Returns the topics to read.

        Raises:
            SourceError: a topic does not exist, or no topic matches.
        """
        there = self._ask(spark).topics()
        wanted = self._wanted(there)
        missing = sorted(wanted - there.keys())
        if (missing and self.removed == "stop") or not wanted & there.keys():
            name, servers = (
                missing[0] if missing else f"matches {self.pattern}",
                self.options["kafka.bootstrap.servers"],
            )
            raise SourceError(f"no topic {name} at {servers}: create it first, or correct the source section")
        return self._ask(spark).described(sorted(wanted & there.keys()))

    def _wanted(self, there: dict[str, Topic]) -> set[str]:
        """Returns the names of the topics in the definition."""
        if self.pattern is None:
            return set(self.names)
        assert self._brokers is not None
        return self._brokers.matches(self.pattern, there)

    def _subscription(self) -> tuple[str, str]:
        """Returns Spark's option for the topics. A subscription by name fails as long as one of the topics does not exist."""
        if self.pattern is not None:
            return "subscribePattern", whole(self.pattern)
        if self.removed == "continue":
            return "subscribePattern", any_of(self.names)
        return "subscribe", ",".join(self.names)


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
            "maxOffsetsPerTrigger": str(definition.max_records_per_batch),
        },
        tuple(definition.topics or ()),
        definition.topics_pattern,
        definition.removed_topics,
    )
