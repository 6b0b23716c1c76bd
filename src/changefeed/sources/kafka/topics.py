"""Topics as the brokers describe them, read through the Java client of Spark's connector.

Topics and partitions pass the gateway to the JVM as one JSON text in each direction: a gateway call for each of them would
take longer than the request to the brokers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from changefeed.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_ID = (0, 0)  # the id in the answer of a broker without ids


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
        self._specs = [
            guava.base.Functions.constant(of()) for of in (clients.OffsetSpec.earliest, clients.OffsetSpec.latest)
        ]
        self._to_map, self._list_class = guava.collect.Maps.toMap, jvm.java.util.ArrayList._java_lang_class
        self._to_places = jvm.org.apache.spark.sql.kafka010.JsonUtils.partitionOffsets
        self._to_java = jvm.scala.jdk.javaapi.CollectionConverters.asJava
        self._admin = clients.Admin.create(self._map(properties))
        jackson = jvm.com.fasterxml.jackson
        fields = jackson.annotation.PropertyAccessor.FIELD
        visible = getattr(jackson.annotation, "JsonAutoDetect$Visibility").ANY
        self._mapper = jackson.databind.ObjectMapper().setVisibility(fields, visible)
        self._mapper.configure(jackson.databind.MapperFeature.REQUIRE_HANDLERS_FOR_JAVA8_OPTIONALS, False)

    def topics(self) -> dict[str, Topic]:
        """Every visible topic of the cluster except internal ones; without their partitions."""
        listed = self._json(self._admin.listTopics().namesToListings().get())
        return {name: Topic(_id(described), frozenset()) for name, described in listed.items()}

    def described(self, names: Iterable[str]) -> dict[str, Topic]:
        """The topics with these names, which must exist."""
        answer = self._json(self._admin.describeTopics(self._list(names)).allTopicNames().get())
        return {
            name: Topic(_id(described), frozenset(p["partition"] for p in described["partitions"]))
            for name, described in answer.items()
        }

    def ends(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """(topic, partition) -> offset of its first record, and offset after the last one that `isolation.level` lets be read."""
        offsets = dict[str, dict[int, int]]()  # of no meaning: the connector has a method that reads such a text
        for topic, partition in partitions:
            offsets.setdefault(topic, {})[partition] = 0
        asked = self._to_java(self._to_places(json.dumps(offsets))).keySet()
        earliest, latest = (
            self._json(self._admin.listOffsets(self._to_map(asked, spec), self._options).all().get())
            for spec in self._specs
        )
        return {_place(name): (int(low["offset"]), int(latest[name]["offset"])) for name, low in earliest.items()}

    def matches(self, pattern: str, names: Iterable[str]) -> set[str]:
        """The names that match a Java regular expression as a whole.

        Raises:
            ConfigError: the pattern is not a regular expression.
        """
        from pyspark.errors import IllegalArgumentException

        try:
            regex = self._jvm.java.util.regex.Pattern.compile(pattern)
        except IllegalArgumentException as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(f"topics-pattern {pattern!r} is not a regular expression: {reason}") from error
        return set(self._json(self._list(names).stream().filter(regex.asMatchPredicate()).toList()))

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


def _place(partition: str) -> tuple[str, int]:
    """The topic and the number of a partition that Java has formatted as `topic-number`."""
    topic, _, number = partition.rpartition("-")
    return topic, int(number)


def _id(description: dict[str, Any]) -> str | None:
    bits = description["topicId"]["mostSignificantBits"], description["topicId"]["leastSignificantBits"]
    return None if bits == _NO_ID else "".join(f"{part & (2**64 - 1):016x}" for part in bits)
