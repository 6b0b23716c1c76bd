"""Topics as the brokers describe them, asked by the Java client that Spark's connector has.

Each question is one call to the brokers, and its answer one text: through the gateway to the JVM, a call for every topic and
partition would take longer than the question.
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

_NO_ID = (0, 0)  # what a broker that has no ids answers


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its id, None when the broker has none, and the numbers of its partitions."""

    id: str | None
    partitions: frozenset[int]


class Brokers:
    """A connection to the brokers, for questions; `close` ends it."""

    def __init__(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._admin = jvm.org.apache.kafka.clients.admin.Admin.create(self._map(properties))
        jackson = jvm.com.fasterxml.jackson
        fields = jackson.annotation.PropertyAccessor.FIELD
        visible = getattr(jackson.annotation, "JsonAutoDetect$Visibility").ANY
        self._mapper = jackson.databind.ObjectMapper().setVisibility(fields, visible)

    def topics(self) -> dict[str, Topic]:
        """Every topic of the cluster that may be seen, the internal ones aside; their partitions are not looked at."""
        listed = self._json(self._admin.listTopics().namesToListings().get())
        return {name: Topic(_id(said), frozenset()) for name, said in listed.items()}

    def described(self, names: Iterable[str]) -> dict[str, Topic]:
        """The topics of these names, which must be there."""
        wanted = self._jvm.java.util.ArrayList()
        for name in names:
            wanted.add(name)
        told = self._json(self._admin.describeTopics(wanted).allTopicNames().get())
        return {
            name: Topic(_id(said), frozenset(p["partition"] for p in said["partitions"])) for name, said in told.items()
        }

    def ends(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """(topic, partition) -> offsets of its first record, and behind its last."""
        places = [(place, self._jvm.org.apache.kafka.common.TopicPartition(*place)) for place in partitions]
        found = []
        for spec in ("earliest", "latest"):
            asked = self._jvm.java.util.HashMap()
            at = getattr(self._jvm.org.apache.kafka.clients.admin.OffsetSpec, spec)()
            for _, partition in places:
                asked.put(partition, at)
            told = self._admin.listOffsets(asked).all().get()
            found.append([int(told.get(partition).offset()) for _, partition in places])
        earliest, latest = found
        return {place: (low, high) for (place, _), low, high in zip(places, earliest, latest, strict=True)}

    def matches(self, pattern: str, names: Iterable[str]) -> set[str]:
        """The names that a Java regular expression matches as a whole.

        Raises:
            ConfigError: it is not one.
        """
        from pyspark.errors import IllegalArgumentException

        try:
            regex = self._jvm.java.util.regex.Pattern.compile(pattern)
        except IllegalArgumentException as error:
            said = str(error).splitlines()[0]
            raise ConfigError(f"topics-pattern {pattern!r} is not a regular expression: {said}") from error
        return {name for name in names if regex.matcher(name).matches()}

    def close(self) -> None:
        """Ends the connection; the JVM may be gone."""
        with suppress(Exception):
            self._admin.close(self._jvm.java.time.Duration.ZERO)

    def _map(self, entries: Mapping[str, str]) -> Any:
        properties = self._jvm.java.util.HashMap()
        for name, value in entries.items():
            properties.put(name, value)
        return properties

    def _json(self, value: Any) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._mapper.writeValueAsString(value))
        return found


def _id(said: dict[str, Any]) -> str | None:
    bits = said["topicId"]["mostSignificantBits"], said["topicId"]["leastSignificantBits"]
    return None if bits == _NO_ID else "".join(f"{part & (2**64 - 1):016x}" for part in bits)
