"""Topics as the brokers describe them, asked with librdkafka: for commands and reads without Spark's connector.

`topics.py` asks the same with the Java client, for runs, whose clusters librdkafka may not reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from changefeed.errors import ACCESS, AccessError, ConfigError, MissingExtraError, NeedsSparkError, SourceError
from changefeed.sources.kafka.pattern import topics_pattern
from changefeed.sources.kafka.source_offset import Place, Places
from changefeed.sources.kafka.topics import Topic

_SECONDS = 10.0
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")  # no pattern matches them


_REFUSED = (
    "SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED",
)  # fmt: skip


class PlainBrokers:
    """Asks the brokers of a cluster for its topics.

    Args:
        properties: properties of librdkafka, as `plain_properties` returns them.
        what: what needs the client, for the message if it is not installed.
    """

    def __init__(self, properties: Mapping[str, str], what: str) -> None:
        try:
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import AdminClient
        except ImportError as error:
            raise MissingExtraError(what, "kafka") from error
        self._servers, self._errors = properties["bootstrap.servers"], list[Any]()
        self._committed = properties.get("isolation.level") == "read_committed"
        wanted: dict[str, Any] = {"log_level": 0, "error_cb": self._errors.append}
        wanted |= {name: value for name, value in properties.items() if name != "isolation.level"}
        try:
            self._admin = AdminClient(wanted)
        except KafkaException as error:
            raise NeedsSparkError(f"the Kafka client refuses its properties: {error.args[0].str()}") from error

    def chosen(self, names: Iterable[str], pattern: str | None, *, lenient: bool = False) -> dict[str, Topic]:
        """Returns the topics with these names, or those whose whole names match the Java regular expression `pattern`.

        With `lenient`, it is enough if one of the topics exists.

        Raises:
            NeedsSparkError: only Java can read the pattern.
            ConfigError: a topic does not exist, or none matches.
            SourceError: no broker answers.
        """
        names = set(names) if pattern is None else self.matching(pattern)
        topics = self.topics(names)
        missing = sorted(names - topics.keys())
        if (missing and not lenient) or not topics:
            name = missing[0] if missing else f"matches {pattern}"
            raise ConfigError(
                f"no topic {name} at {self._servers}: create it first, correct the source section, or let this user see it"
            )
        return topics

    def matching(self, pattern: str) -> set[str]:
        """The names of topics that match a Java regular expression as a whole; internal topics are left out.

        Raises:
            NeedsSparkError: only Java can read the pattern.
            SourceError: no broker answers.
        """
        regex = topics_pattern(pattern)
        if regex is None:
            raise NeedsSparkError(
                f"without Spark's connector, the pattern {pattern!r} cannot be read: it uses constructs that only Java "
                "supports"
            )
        return {topic for topic in self._listed() if topic not in _INTERNAL and regex.fullmatch(topic)}

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """The topics with these names, without those that do not exist or that this user may not see.

        Raises:
            SourceError: no broker answers.
        """
        from confluent_kafka import TopicCollection

        there = sorted(self._listed() & set(names))
        if not there:
            return {}
        asked = self._answer(lambda: self._admin.describe_topics(TopicCollection(there), request_timeout=_SECONDS))
        described = {name: self._answer(future.result) for name, future in asked.items()}
        self._forget_errors()
        return {
            name: Topic(_id(topic.topic_id), frozenset(partition.id for partition in topic.partitions))
            for name, topic in described.items()
        }

    def firsts(self, partitions: Iterable[Place]) -> Places:
        """The offset of the first record of each partition."""
        return {place: first for place, (first, _) in self.ranges(partitions).items()}

    def ends(self, partitions: Iterable[Place]) -> Places:
        """The offset after the last record of each partition that `isolation.level` lets be read."""
        return {place: end for place, (_, end) in self.ranges(partitions).items()}

    def ranges(self, partitions: Iterable[Place]) -> dict[Place, tuple[int, int]]:
        """(topic, partition) -> offset of its first record, and offset after the last one that `isolation.level` lets be read.

        Raises:
            SourceError: no broker answers.
        """
        from confluent_kafka import IsolationLevel, TopicPartition, admin

        offset_spec: Any = admin.OffsetSpec  # type: ignore[attr-defined]
        places = list(partitions)
        level = IsolationLevel.READ_COMMITTED if self._committed else IsolationLevel.READ_UNCOMMITTED

        def offsets(spec: Any) -> dict[Place, int]:
            wanted = {TopicPartition(*place): spec for place in places}
            asked = self._answer(
                lambda: self._admin.list_offsets(wanted, isolation_level=level, request_timeout=_SECONDS)
            )
            return {(at.topic, at.partition): int(self._answer(future.result).offset) for at, future in asked.items()}

        if not places:
            return {}
        first, end = offsets(offset_spec.earliest()), offsets(offset_spec.latest())
        self._forget_errors()
        return {place: (first[place], end[place]) for place in places}

    def check_answer(self, seconds: float) -> None:
        """Checks that a broker answers within so many seconds: one that hangs still accepts connections.

        Raises:
            AccessError: the brokers refuse the user.
            SourceError: none answers.
        """
        asked = self._admin.describe_cluster(request_timeout=seconds)
        self._answer(asked.result)

    def close(self) -> None:
        """Does nothing: the client is closed when it is no longer referred to."""

    def _listed(self) -> set[str]:
        return set(self._answer(lambda: self._admin.list_topics(timeout=_SECONDS)).topics)

    def _forget_errors(self) -> None:
        """Drops the errors of connections that did not prevent an answer: a stream may ask for days."""
        self._admin.poll(0)
        self._errors.clear()

    def _answer(self, question: Any) -> Any:
        """Returns the brokers' answer.

        Raises:
            AccessError: they refuse the user.
            SourceError: they do not answer.
        """
        from confluent_kafka import KafkaException

        try:
            return question()
        except KafkaException as error:
            self._admin.poll(0)  # delivers the reason of an error
            raise refusal(self._servers, self._errors[0] if self._errors else error.args[0]) from error


def refusal(servers: str, error: Any) -> AccessError | SourceError:
    """Returns the error for one of librdkafka."""
    from confluent_kafka import KafkaError

    if error.code() in (KafkaError._AUTHENTICATION, *(getattr(KafkaError, name) for name in _REFUSED)):
        return AccessError(f"{servers} refuses this user: {error.str()}. {ACCESS}")
    return SourceError(f"{servers} does not answer: {error.str()}", transient=True)


def _id(uuid: Any) -> str | None:
    """The topic's id in the form of `source_offset.py`; None if the broker has no ids."""
    bits = uuid.get_most_significant_bits(), uuid.get_least_significant_bits()
    return None if bits == (0, 0) else "".join(f"{part & (2**64 - 1):016x}" for part in bits)
