"""Topics as the brokers describe them, read through the Java client of Spark's connector.

Topics and partitions pass the gateway to the JVM as one JSON text in each direction: a gateway call for each of them would
take longer than the request to the brokers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from changefeed.errors import ConfigError
from changefeed.sources.kafka.source_offset import Place, Places, by_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_ID = (0, 0)  # the id in the answer of a broker without ids
_INVISIBLE = re.compile(r"errors\.(UnknownTopicOrPartition|InvalidTopic|TopicAuthorization)Exception")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its id, None if the broker has no ids, and the numbers of its partitions."""

    id: str | None
    partitions: frozenset[int]


class Brokers:
    """A connection to the brokers for metadata; `close` ends it."""

    def __init__(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        # Every part of a Java name is a question to the JVM, so what each batch needs is looked up once.
        clients, guava = jvm.org.apache.kafka.clients.admin, jvm.com.google.common
        level = jvm.org.apache.kafka.common.IsolationLevel
        committed = properties.get("isolation.level") == "read_committed"
        self._options = clients.ListOffsetsOptions(level.READ_COMMITTED if committed else level.READ_UNCOMMITTED)
        constant, spec = guava.base.Functions.constant, clients.OffsetSpec
        self._earliest, self._latest = constant(spec.earliest()), constant(spec.latest())
        self._to_map, self._list_class = guava.collect.Maps.toMap, jvm.java.util.ArrayList._java_lang_class
        self._to_places = jvm.org.apache.spark.sql.kafka010.JsonUtils.partitionOffsets
        self._to_java = jvm.scala.jdk.javaapi.CollectionConverters.asJava
        self._admin = clients.Admin.create(self._map(properties))
        jackson = jvm.com.fasterxml.jackson
        fields = jackson.annotation.PropertyAccessor.FIELD
        visible = getattr(jackson.annotation, "JsonAutoDetect$Visibility").ANY
        self._mapper = jackson.databind.ObjectMapper().setVisibility(fields, visible)
        self._mapper.configure(jackson.databind.MapperFeature.REQUIRE_HANDLERS_FOR_JAVA8_OPTIONALS, False)

    def topics(self, names: Collection[str]) -> dict[str, Topic]:
        """The topics with these names, without those that do not exist or that this user may not see."""
        from py4j.protocol import Py4JJavaError

        try:
            return self._described(names)
        except Py4JJavaError as error:
            if not _INVISIBLE.search(str(error)):
                raise
        return self._described(self._listed() & set(names))

    def matching(self, pattern: str) -> set[str]:
        """The names of topics that match a Java regular expression as a whole; internal topics are left out.

        Raises:
            ConfigError: the pattern is not a regular expression.
        """
        from pyspark.errors import IllegalArgumentException

        try:
            regex = self._jvm.java.util.regex.Pattern.compile(pattern)
        except IllegalArgumentException as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(f"topics-pattern {pattern!r} is not a regular expression: {reason}") from error
        return set(self._json(self._list(self._listed()).stream().filter(regex.asMatchPredicate()).toList()))

    def firsts(self, partitions: Iterable[Place]) -> Places:
        """The offset of the first record of each partition."""
        return self._offsets(partitions, self._earliest)

    def ends(self, partitions: Iterable[Place]) -> Places:
        """The offset after the last record of each partition that `isolation.level` lets be read."""
        return self._offsets(partitions, self._latest)

    def _listed(self) -> set[str]:
        return set(self._json(self._admin.listTopics().names().get()))

    def _described(self, names: Collection[str]) -> dict[str, Topic]:
        answer = self._json(self._admin.describeTopics(self._list(names)).allTopicNames().get())
        return {
            name: Topic(_id(described), frozenset(p["partition"] for p in described["partitions"]))
            for name, described in answer.items()
        }

    def _offsets(self, partitions: Iterable[Place], spec: Any) -> Places:
        # Offsets without a meaning: the connector has a method that reads partitions from such a text.
        named = by_topic(dict.fromkeys(partitions, 0))
        if not named:
            return {}
        asked = self._to_java(self._to_places(json.dumps(named))).keySet()
        answer = self._json(self._admin.listOffsets(self._to_map(asked, spec), self._options).all().get())
        return {_place(name): int(listed["offset"]) for name, listed in answer.items()}

    def close(self) -> None:
        """Closes the connection; the JVM may have ended already."""
        with suppress(Exception):
            self._admin.close(self._jvm.java.time.Duration.ZERO)

    def _map(self, entries: Mapping[str, str]) -> Any:
        properties = self._jvm.java.util.HashMap()
        for name, value in entries.items():
            properties.put(name, value)
        return properties

    def _list(self, names: Iterable[str]) -> Any:
        return self._mapper.readValue(json.dumps(list(names)), self._list_class)

    def _json(self, value: Any) -> Any:
        return json.loads(self._mapper.writeValueAsString(value))


def _place(partition: str) -> Place:
    """The topic and the number of a partition that Java has formatted as `topic-number`."""
    topic, _, number = partition.rpartition("-")
    return topic, int(number)


def _id(description: dict[str, Any]) -> str | None:
    bits = description["topicId"]["mostSignificantBits"], description["topicId"]["leastSignificantBits"]
    return None if bits == _NO_ID else "".join(f"{part & (2**64 - 1):016x}" for part in bits)
