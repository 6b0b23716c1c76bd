"""Harnesses of this project's event sinks: in memory, in a folder and in Kafka."""

from __future__ import annotations

import os
import signal
import time
import uuid
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from changefeed import local_files, record_log
from changefeed.sinks.events import EventSink
from changefeed.sinks.files.events import FileEvents
from changefeed.sinks.kafka.events import KafkaEvents
from changefeed.sinks.memory.events import MemoryEvents, RecordLog
from changefeed.sinks.writes import WriteId
from tests.services.kafka import KafkaBroker
from tests.sinks.event_contract import Hook, Make, Once, Plain, Row, marks


@dataclass
class Memory:
    """The sink in memory."""

    log: RecordLog = field(default_factory=RecordLog)
    once: Once = field(default_factory=Once)

    def __post_init__(self) -> None:
        self.log.on_pass = self.once

    def topic(self, partitions: int = 1) -> str:
        return f"topic-{uuid.uuid4().hex[:8]}"

    def sink(self, encoder: Make, owner: str = "changefeed:test:1") -> EventSink:
        return MemoryEvents(self.log, encoder, owner)

    def records(self) -> list[Row]:
        return [row for batch in self.log.appends for row in batch.to_pylist()]

    def at(self, place: str, hook: Hook) -> None:
        self.once.hooks[place] = hook


@dataclass
class Files:
    """The sink in a folder."""

    folder: Path
    patch: pytest.MonkeyPatch
    once: Once = field(default_factory=Once)

    def __post_init__(self) -> None:
        link = local_files.link_new

        def linked(unfinished: str, path: str, root: str) -> bool:
            self.once("before")
            done = link(unfinished, path, root)
            self.once("after")
            return done

        self.patch.setattr("changefeed.sinks.files.events.link_new", linked)

    def topic(self, partitions: int = 1) -> str:
        return f"topic-{uuid.uuid4().hex[:8]}"

    def sink(self, encoder: Make, owner: str = "changefeed:test:1") -> EventSink:
        return FileEvents(str(self.folder), encoder, owner)

    def records(self) -> list[Row]:
        if not self.folder.exists():
            return []
        return [row for batch in record_log.read(self.folder) for row in batch.to_pylist()]

    def at(self, place: str, hook: Hook) -> None:
        self.once.hooks[place] = hook


@dataclass
class Kafka:
    """The sink in topics of a live broker."""

    broker: KafkaBroker
    patch: pytest.MonkeyPatch
    once: Once = field(default_factory=Once)
    topics: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        once = self.once

        class Watched(Producer):
            def commit_transaction(self, *arguments: Any) -> None:
                once("before")
                super().commit_transaction(*arguments)
                once("after")

        self.patch.setattr("changefeed.sinks.kafka.events.Producer", Watched)
        self.home = self.topic()

    def topic(self, partitions: int = 1) -> str:
        name = f"events-{uuid.uuid4().hex[:8]}"
        self.broker.create_topic(name, partitions=partitions, config={"max.message.bytes": "33554432"})
        self.topics[name] = partitions
        return name

    def sink(self, encoder: Make, owner: str = "changefeed:test:1") -> EventSink:
        return KafkaEvents(self.broker.bootstrap, self.home, encoder, timeout=20.0, owner=f"{owner}:{self.home}")

    def records(self) -> list[Row]:
        return [
            row for topic, partitions in self.topics.items() for p in range(partitions) for row in self._of(topic, p)
        ]

    def at(self, place: str, hook: Hook) -> None:
        self.once.hooks[place] = hook

    def _of(self, topic: str, partition: int) -> list[Row]:
        until = time.monotonic() + 10
        while end_of(self.broker.bootstrap, topic, partition, "read_committed") < end_of(
            self.broker.bootstrap, topic, partition, "read_uncommitted"
        ):
            assert time.monotonic() < until, f"a transaction stays open in {topic}:{partition}"
            time.sleep(0.05)
        return read_partition(self.broker.bootstrap, topic, partition)


def end_of(servers: str, topic: str, partition: int, isolation: str) -> int:
    """The end offset for a reader with this isolation level."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "reader", "isolation.level": isolation, "log_level": 0}
    )
    try:
        ends: Any = consumer.get_watermark_offsets(TopicPartition(topic, partition), 20)
        return int(ends[1])
    finally:
        consumer.close()


def read_partition(servers: str, topic: str, partition: int = 0, isolation: str = "read_committed") -> list[Row]:
    """All records of a partition that a reader sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False, "isolation.level": isolation,
            "enable.partition.eof": True, "auto.offset.reset": "earliest", "log_level": 0,
            "fetch.wait.max.ms": 10,  # how long the broker waits at the end of the partition
        }
    )  # fmt: skip
    rows: list[Row] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(20)
            assert message is not None, f"nothing from {topic}:{partition} within 20 s"
            if message.error():
                return rows
            pairs: Any = message.headers() or ()
            headers = [{"key": key, "value": value} for key, value in pairs]
            rows.append(
                {
                    "key": message.key(), "value": message.value(), "topic": topic, "partition": partition,
                    "offset": message.offset(), "headers": headers,
                }
            )  # fmt: skip
    finally:
        consumer.close()


def die_in_mid_transaction(servers: str, home: str, topic: str, owner: str) -> None:
    """Appends `1` in a process of its own, which is killed right before the commit."""

    class Dying(Producer):
        def commit_transaction(self, *arguments: Any) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(import_module("changefeed.sinks.kafka.events"), "Producer", Dying)  # noqa: B010  # not the module's own name
    KafkaEvents(servers, home, Plain, timeout=20.0, owner=owner).append(marks(topic, 1), WriteId(1, 1, 1), "{}")
