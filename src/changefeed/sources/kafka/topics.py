"""Topics as the brokers describe them, read through the Java client of Spark's connector.

Each method is one call to the brokers, and returns one text through the gateway to the JVM: a gateway call for every topic and
partition would take longer than the request itself.
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
        self._committed = properties.get("isolation.level") == "read_committed"
        self._admin = jvm.org.apache.kafka.clients.admin.Admin.create(self._map(properties))
        jackson = jvm.com.fasterxml.jackson
        fields = jackson.annotation.PropertyAccessor.FIELD
        visible = getattr(jackson.annotation, "JsonAutoDetect$Visibility").ANY
        self._mapper = jackson.databind.ObjectMapper().setVisibility(fields, visible)

    def topics(self) -> dict[str, Topic]:
        """Every visible topic of the cluster except internal ones; without their partitions."""
        listed = self._json(self._admin.listTopics().namesToListings().get())
        return {name: Topic(_id(described), frozenset()) for name, described in listed.items()}

    def described(self, names: Iterable[str]) -> dict[str, Topic]:
        """The topics with these names, which must exist."""
        wanted = self._jvm.java.util.ArrayList()
        for name in names:
            wanted.add(name)
        answer = self._json(self._admin.describeTopics(wanted).allTopicNames().get())
        return {
            name: Topic(_id(described), frozenset(p["partition"] for p in described["partitions"]))
            for name, described in answer.items()
        }

    def ends(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """(topic, partition) -> offset of its first record, and offset after the last one that `isolation.level` lets be read."""
        level = self._jvm.org.apache.kafka.common.IsolationLevel
        options = self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(
            level.READ_COMMITTED if self._committed else level.READ_UNCOMMITTED
        )
        places = [(place, self._jvm.org.apache.kafka.common.TopicPartition(*place)) for place in partitions]
        ends = []
        for spec in ("earliest", "latest"):
            asked = self._jvm.java.util.HashMap()
            at = getattr(self._jvm.org.apache.kafka.clients.admin.OffsetSpec, spec)()
            for _, partition in places:
                asked.put(partition, at)
            offsets = self._admin.listOffsets(asked, options).all().get()
            ends.append([int(offsets.get(partition).offset()) for _, partition in places])
        earliest, latest = ends
        return {place: (low, high) for (place, _), low, high in zip(places, earliest, latest, strict=True)}

    def matches(self, pattern: str, names: Iterable[str]) -> set[str]:
        """The names that match a Java regular expression as a whole.

        Raises:
            ConfigError: it is not a regular expression.
        """
        from pyspark.errors import IllegalArgumentException

        try:
            regex = self._jvm.java.util.regex.Pattern.compile(pattern)
        except IllegalArgumentException as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(f"topics-pattern {pattern!r} is not a regular expression: {reason}") from error
        return {name for name in names if regex.matcher(name).matches()}

    def close(self) -> None:
        """Closes the connection; the JVM may have ended already."""
        with suppress(Exception):
            self._admin.close(self._jvm.java.time.Duration.ZERO)

    def _map(self, entries: Mapping[str, str]) -> Any:
        properties = self._jvm.java.util.HashMap()
        for name, value in entries.items():
            properties.put(name, value)
        return properties

    def _json(self, value: Any) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self._mapper.writeValueAsString(value))
        return document


def _id(description: dict[str, Any]) -> str | None:
    bits = description["topicId"]["mostSignificantBits"], description["topicId"]["leastSignificantBits"]
    return None if bits == _NO_ID else "".join(f"{part & (2**64 - 1):016x}" for part in bits)
