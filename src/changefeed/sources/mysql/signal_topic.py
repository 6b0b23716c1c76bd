"""Requests to copy tables again that are records of a topic: the signal topic of Debezium's connectors.

    key    shop
    value  {"type": "execute-snapshot", "data": {"data-collections": ["shop.orders"], "type": "incremental"}, "id": "ad-hoc-1"}

Rule 1. Signals mean the same as rows of a signal table (`signals.py`). Records with another key are for others.
Rule 2. The source offset has the next offset of each partition, and the ledger stores it together with the requests. So a signal
        is carried out exactly once. A topic that the source offset does not have is read from its end.
Rule 3. The topic never stops a pipeline: if brokers do not answer, or the topic does not exist, that is a warning, and the
        signals are read later.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from changefeed.errors import ConfigError, MissingExtraError
from changefeed.sources.mysql.section import MySqlSource
from changefeed.sources.mysql.signals import Signal
from changefeed.sources.mysql.source_offset import SignalOffsets

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_ANSWER, _AGAIN = 10.0, 60.0  # seconds: for an answer of the brokers, and between two tries
_MOST = 1000  # records that are read at once

_log = logging.getLogger(__name__)


class _NoAnswerError(Exception):
    """The brokers do not answer, or do not have the topic."""


@dataclass(slots=True)
class SignalTopic:
    """The signals in a topic.

    Attributes:
        section: with the topic, its servers, and the key of the records that are meant.
    """

    section: MySqlSource
    _consumer: Consumer | None = field(default=None, repr=False)
    _next: dict[int, int] = field(default_factory=dict)  # partition -> offset that the consumer reads next
    _failed: float | None = None  # when the brokers did not answer; None once they do
    _error: str = ""  # the newest one of a connection

    @property
    def name(self) -> str:
        """The topic's name."""
        assert self.section.signal_topic is not None
        return self.section.signal_topic

    def after(self, known: SignalOffsets | None) -> tuple[list[Signal], SignalOffsets | None]:
        """Reads the signals that have come since.

        Args:
            known: where the last call ended; None at the first.

        Returns:
            the signals in the order of each partition, and where the next call continues.

        Raises:
            ConfigError: the client refuses its properties.
            MissingExtraError: the Kafka client is not installed.
        """
        if self._failed is not None and time.monotonic() - self._failed < _AGAIN:
            return [], known
        offsets = dict(enumerate(known.offsets)) if known is not None and known.topic == self.name else None
        try:
            signals = list(self._read(offsets))
        except _NoAnswerError as error:
            if self._failed is None:
                _log.warning("source.signal-topic: no signals are read from %s: %s", self.name, error)
            self._failed = time.monotonic()
            self.close()
            return [], known
        self._failed = None
        return signals, SignalOffsets(self.name, tuple(self._next[partition] for partition in sorted(self._next)))

    def missing(self) -> list[str]:
        """Returns a sentence if the brokers do not answer, or do not have the topic."""
        try:
            self._partitions(self._opened())
        except _NoAnswerError as error:
            return [f"source.signal-topic: no signals can be read from {self.name}: {error}"]
        return []

    def close(self) -> None:
        """Closes the connections."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer, self._next = None, {}

    def _read(self, offsets: dict[int, int] | None) -> Iterator[Signal]:
        """Yields the signals behind these offsets; None: none, as the topic is read from its end on."""
        consumer = self._opened()
        if offsets is None or not self._next or any(self._next.get(at) != offset for at, offset in offsets.items()):
            unread = self._assign(consumer, offsets)
        else:
            unread = set[int]()
        until = time.monotonic() + _ANSWER
        for _ in range(_MOST):
            message = consumer.poll(max(0.0, until - time.monotonic()) if unread else 0.0)
            if message is None and not unread:
                return
            if message is None:
                raise _NoAnswerError(self._error or "no answer")
            yield from self._taken(message, unread)

    def _taken(self, message: Message, unread: set[int]) -> Iterator[Signal]:
        """Yields the signal of a record; at the end of a partition, takes that from `unread`."""
        from confluent_kafka import KafkaError

        partition, offset, error = message.partition(), message.offset(), message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise _NoAnswerError(error.str())
        assert partition is not None
        assert offset is not None
        if error is not None:
            unread.discard(partition)
            self._next[partition] = offset
            return
        self._next[partition] = offset + 1
        signal = self._signal(message, f"{self.name}:{partition}:{offset}")
        if signal is not None:
            yield signal

    def _signal(self, message: Message, place: str) -> Signal | None:
        """The signal of a record; None if it is for others, or is none."""
        key, wanted = message.key(), self.section.signal_key
        if wanted is not None and (key or b"") != wanted.encode():
            _log.info("the signal at %s is for others: its key is %r, and source.signal-key is %s", place, key, wanted)
            return None
        try:
            document = json.loads(message.value() or b"")
            data = document.get("data") or {}
            text = data if isinstance(data, str) else json.dumps(data)
            return Signal(place, str(document.get("id") or place), str(document["type"]), text)
        except (ValueError, KeyError, AttributeError) as error:
            _log.warning(
                "the record at %s is not a signal, and is passed over (%s)", place, str(error) or type(error).__name__
            )
            return None

    def _assign(self, consumer: Consumer, offsets: dict[int, int] | None) -> set[int]:
        """Begins to read at these offsets, or at the ends; returns the partitions whose ends are not known to be reached."""
        from confluent_kafka import KafkaException, TopicPartition

        starts, unread = dict[int, int](), set[int]()
        for partition in self._partitions(consumer):
            try:
                first, end = consumer.get_watermark_offsets(TopicPartition(self.name, partition), timeout=_ANSWER)
            except KafkaException as error:
                raise _NoAnswerError(self._error or error.args[0].str()) from error
            known = end if offsets is None else offsets.get(partition, first)
            # outside of these: deleted records, or a topic that is made again
            starts[partition] = known if first <= known <= end else first
            if starts[partition] < end:
                unread.add(partition)
        consumer.assign([TopicPartition(self.name, partition, offset) for partition, offset in starts.items()])
        self._next = starts
        return unread

    def _partitions(self, consumer: Consumer) -> list[int]:
        from confluent_kafka import KafkaException

        try:
            topic = consumer.list_topics(self.name, timeout=_ANSWER).topics[self.name]
        except KafkaException as error:
            raise _NoAnswerError(self._error or error.args[0].str()) from error
        if topic.error is not None:
            raise _NoAnswerError(topic.error.str())
        return sorted(topic.partitions)

    def _opened(self) -> Consumer:
        """The consumer."""
        if self._consumer is not None:
            return self._consumer
        try:
            from confluent_kafka import Consumer, KafkaException
        except ImportError as error:
            raise MissingExtraError("source.signal-topic", "kafka") from error
        properties: dict[str, Any] = {
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            "error_cb": self._note_error,
            **self.section.signal_properties,
            "bootstrap.servers": self.section.signal_servers,
            "group.id": "changefeed",  # the client asks for one; nothing is committed to it
        }
        try:
            self._consumer = Consumer(properties)
        except KafkaException as error:
            raise ConfigError(
                f"source.signal-properties: the Kafka client refuses them: {error.args[0].str()}"
            ) from error
        return self._consumer

    def _note_error(self, error: Any) -> None:
        self._error = error.str()
