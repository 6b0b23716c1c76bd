"""Kafka topics as an event sink: one transaction for each append.

    begin ─▶ records, each to its topic and partition (`topics.py`) ─▶ write id ─▶ commit
                                                                                    │
                  offset of partition 0 of `topic`, in the owner's consumer group: its metadata is the mark, as JSON

Rule 1. The transactional id is derived from the owner. At its first append, and after an append that raised, a sink creates
a new producer: Kafka then commits or aborts the owner's last transaction, and refuses older producers with this id.
Rule 2. Only then is the last write id read, by a consumer that waits for open transactions. So if anything comes between it
and this producer's commit, the commit fails. Afterwards the sink remembers the last write id.
Rule 3. A producer may be refused because an older run woke up, not only because of a newer run. The write id in Kafka
decides: if it has a higher epoch, the error is a `FencedError`; otherwise another try may succeed.
Rule 4. Readers with `isolation.level=read_committed` see an append once and completely. Others also see uncommitted records.
Rule 5. Topics are created if the definition has the form of new ones. Others must exist, with at least as many partitions as the
encoder's options require.

Kafka deletes the offsets of a consumer group without members after `offsets.retention.minutes`, by default seven days. A
pipeline that was killed during an append and is not started for longer may repeat that append. If there were earlier appends
but no write id is found, do not start the pipeline again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import ConfigError, MissingExtraError, SinkError
from changefeed.model.batch import Decoded
from changefeed.protocols.base import Encoder
from changefeed.sinks.events import AppendEncoder, Mark, is_made, made_by, mark_of
from changefeed.sinks.kafka.producing import DEFAULTS, check_partitions, count_partitions, error_for, send
from changefeed.sinks.kafka.topics import PARTITIONER, TopicCreation, by_key
from changefeed.sinks.writes import WriteId

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
except ImportError as error:
    raise MissingExtraError("a Kafka sink", "kafka") from error

_log = logging.getLogger(__name__)
_CHECK_SECONDS = 10.0
_MARK_BYTES = 4096  # a broker's default `offset.metadata.max.bytes`
_DEFAULTS = {**DEFAULTS, "transaction.timeout.ms": 300_000, "partitioner": PARTITIONER}
_OURS = ("transactional.id", "group.id", "enable.auto.commit", "isolation.level", "enable.idempotence", "acks")
_REFUSED = (
    KafkaError._FENCED,
    KafkaError._FATAL,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
)
_STARTING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


@dataclass(slots=True)
class KafkaEvents:
    """The event sink of one pipeline in the topics of a cluster.

    Attributes:
        servers: `host:port,…`.
        topic: topic that stores the write id; the encoder chooses the records' topics, usually this one.
        encoder: creates an encoder of the protocol.
        properties: configuration of librdkafka, for security and sizes.
        timeout: seconds to wait for an answer of the brokers.
        fixed_topics: the topics of which all records go to partition 0, if those of others go to the partition of their key;
            None if the encoder chooses the partitions.
        creation: the form of topics that are created; None if none are.
        named_topics: further topics to which the encoder may write, as far as their names do not depend on a table.
    """

    servers: str
    topic: str
    encoder: Callable[[], Encoder]
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords among them
    timeout: float = 60.0
    owner: str = ""
    atomic: bool = True
    fixed_topics: frozenset[str] | None = None
    creation: TopicCreation | None = None
    named_topics: frozenset[str] = frozenset()
    _writing: AppendEncoder = field(init=False, repr=False)
    _producer: Producer | None = field(init=False, default=None, repr=False)
    _last: Mark | None = field(init=False, default=None, repr=False)  # of `_producer`
    _partitions: dict[str, int] = field(init=False, default_factory=dict, repr=False)
    _unsure: bool = field(init=False, default=False, repr=False)  # an append has raised

    def __post_init__(self) -> None:
        if taken := [name for name in _OURS if name in self.properties]:
            raise ConfigError(f"{', '.join(taken)} is set by the sink. Remove it from the properties")
        self._writing = AppendEncoder(self.encoder)

    @property
    def location(self) -> str:
        """See `EventSink`."""
        return f"kafka://{self.servers}/{self.topic}"

    def owned_by(self, owner: str) -> KafkaEvents:
        """See `EventSink`."""
        return replace(self, owner=owner)

    def check(self) -> str:
        """See `EventSink`: looks up the topics whose names do not depend on a table; those that are created may be missing."""
        topics, timeout = {self.topic, *self.named_topics}, min(self.timeout, _CHECK_SECONDS)
        with self._named("looking up the topics"):
            producer = Producer({**_DEFAULTS, **self._common()}, logger=_log)
            there = topics if self.creation is None else topics & producer.list_topics(timeout=timeout).topics.keys()
            for topic in sorted(there):
                count_partitions(producer, topic, self.servers, timeout)
        new = f"; {', '.join(sorted(topics - there))} will be created" if topics - there else ""
        return f"looked up {', '.join(sorted(there)) or 'no topic'}{new}; topics that are named after tables were not looked up"

    def last(self) -> WriteId | None:
        """See `EventSink`. Waits until open transactions have ended; first ends its own after an append that raised."""
        if self._unsure:
            self._open()
        mark = self._read()
        return None if mark is None else mark.write_id

    def made(self) -> WriteId | None:
        """See `EventSink`."""
        if self._unsure:
            self._open()
        return made_by(self._read())

    def append(self, changes: Decoded, write_id: WriteId, note: str) -> None:
        """See `EventSink`."""
        if self._producer is None:
            if is_made(self.location, self._read(stable=False), write_id):
                return
            self._open()
        if is_made(self.location, self._last, write_id):
            is_made(self.location, self._read(), write_id)
            return
        try:
            records, number = self._writing.records(changes, self._last)
            if self.fixed_topics is not None:
                records = by_key(records, self.fixed_topics)
            self._check(records)
            mark = mark_of(write_id, number, note, self._last)
            self._commit(records, mark, write_id)
        except BaseException:
            self._drop(unsure=True)
            raise
        self._last = mark

    def close(self) -> None:
        """See `EventSink`."""
        self._drop(unsure=self._unsure)

    # Connections.

    def _open(self) -> None:
        """Opens a producer that fences off all older ones, then reads the last write id. See rules 1 and 2."""
        self._drop(unsure=self._unsure)
        with self._named("opening a transactional producer"):
            if self.creation is not None:
                self.creation.create([self.topic], self._common(), self.timeout)
            producer = Producer({**_DEFAULTS, **self._common(), "transactional.id": self._id}, logger=_log)
            count_partitions(producer, self.topic, self.servers, self.timeout)  # fails faster than the next line
            producer.init_transactions(self.timeout)
        self._last = self._read()
        self._producer, self._unsure = producer, False

    def _drop(self, *, unsure: bool) -> None:
        """Drops the producer with its transaction, and the encoder."""
        self._producer, self._last, self._unsure = None, None, unsure
        self._partitions = {}
        self._writing.forget()

    def _read(self, *, stable: bool = True) -> Mark | None:
        """Reads the mark in the owner's consumer group; with `stable`, after open transactions have ended."""
        with self._named("reading the last write id"), self._group(stable=stable) as group:
            committed = self._committed(group)
        try:
            return msgspec.json.decode(committed.metadata, type=Mark) if committed.metadata else None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SinkError(
                f"{self.location}: group {self._id} has an offset for partition 0 of {self.topic} that the sink did not "
                f"commit ({error}): only the sink may use the group"
            ) from error

    def _committed(self, group: Consumer) -> TopicPartition:
        """Reads the group's committed offset; retries while the coordinator is starting."""
        until = time.monotonic() + self.timeout
        while True:
            try:
                [committed] = group.committed([TopicPartition(self.topic, 0)], self.timeout)
                if committed.error is None:
                    return committed
                raise KafkaException(committed.error)
            except KafkaException as error:
                if error.args[0].code() not in _STARTING or time.monotonic() > until:
                    raise
            time.sleep(0.1)

    @contextmanager
    def _group(self, *, stable: bool = True) -> Iterator[Consumer]:
        """Returns a consumer for the owner's group, which never joins the group."""
        isolation = "read_committed" if stable else "read_uncommitted"
        own = {"group.id": self._id, "enable.auto.commit": False, "isolation.level": isolation}
        consumer = Consumer({**self._common(), **own}, logger=_log)
        try:
            yield consumer
        finally:
            consumer.close()

    @property
    def _id(self) -> str:
        """Returns the name of the transactional id and the group; a group's name must be ASCII without spaces."""
        return quote(self.owner, safe=":") or "changefeed"

    def _common(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.servers, **self.properties}

    # One append.

    def _commit(self, records: pa.RecordBatch, mark: Mark, write_id: WriteId) -> None:
        """Writes records and mark in one transaction."""
        producer = self._producer
        assert producer is not None
        try:
            producer.begin_transaction()
            send(producer, records, self.timeout)
            at = TopicPartition(self.topic, 0, mark.step, _text(mark))
            with self._group() as group:
                producer.send_offsets_to_transaction([at], group.consumer_group_metadata(), self.timeout)
            producer.commit_transaction(self.timeout)
        except KafkaException as error:
            cause = error.args[0]
            if cause.code() in _REFUSED:
                is_made(self.location, self._read(), write_id)
                raise SinkError(
                    f"{self.location}: {write_id}: Kafka refused this producer ({cause.str()}): another producer of this "
                    "pipeline was opened, or the append took longer than transaction.timeout.ms",
                    transient=True,
                ) from error
            self._abort(producer)
            raise self._error(f"appending {write_id}", cause) from error
        except BaseException:
            self._abort(producer)
            raise

    def _abort(self, producer: Producer) -> None:
        with suppress(KafkaException):  # the next producer ends it; the error at hand came first
            producer.abort_transaction(self.timeout)

    def _check(self, records: pa.RecordBatch) -> None:
        """Checks that the topics and partitions of records exist, and creates topics if the definition allows it."""
        assert self._producer is not None
        with self._named("asking for topics"):
            new = set(pc.unique(records.column("topic")).to_pylist()) - self._partitions.keys()
            if self.creation is not None and new:
                self.creation.create(new, self._common(), self.timeout)
            check_partitions(self._producer, records, self._partitions, self.servers, self.timeout)

    # Errors.

    @contextmanager
    def _named(self, doing: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise self._error(doing, error.args[0]) from error

    def _error(self, doing: str, error: Any) -> Exception:
        """Translates an error of Kafka; `doing` is the failed action."""
        needs = (
            "Write and Describe on the topics, Write and Describe on the transactional id and Read "
            f"on the group, both {self._id}"
        )
        return error_for(f"{self.location}: {doing}", error, needs)


def _text(mark: Mark) -> str:
    """Formats the mark as JSON, without the note if that is too long."""
    text = msgspec.json.encode(mark)
    return (text if len(text) <= _MARK_BYTES else msgspec.json.encode(msgspec.structs.replace(mark, note=""))).decode()
