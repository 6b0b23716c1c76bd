"""Appending events to Kafka: transactions of processes that die, and refusals of brokers."""

from __future__ import annotations

import json
import multiprocessing
import signal
import time
import uuid
from random import Random
from typing import Any

import pytest

from changefeed.errors import ConfigError, SinkError
from changefeed.model.batch import Decoded
from changefeed.sinks.kafka import open_events
from changefeed.sinks.kafka.events import KafkaEvents
from changefeed.sinks.kafka.section import KafkaSink
from changefeed.sinks.writes import WriteId
from tests.services.kafka import KafkaBroker
from tests.services.processes import free_ports
from tests.sinks.event_contract import Given, Plain, marks
from tests.sinks.event_harnesses import Kafka, die_in_mid_transaction, read_partition

OWNER = "changefeed:test:1"


@pytest.fixture
def harness(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Kafka:
    return Kafka(kafka, monkeypatch)


def values(harness: Kafka, topic: str, isolation: str = "read_committed") -> list[bytes]:
    return [row["value"] for row in read_partition(harness.broker.bootstrap, topic, isolation=isolation)]


def test_a_producer_killed_in_mid_transaction_leaves_nothing(harness: Kafka) -> None:
    topic, servers = harness.topic(), harness.broker.bootstrap
    sink = KafkaEvents(servers, harness.home, Plain, timeout=20.0, owner=f"{OWNER}:{harness.home}")
    child = multiprocessing.get_context("spawn").Process(
        target=die_in_mid_transaction, args=(servers, harness.home, topic, sink.owner)
    )
    child.start()
    child.join(120)
    assert child.exitcode == -signal.SIGKILL
    assert (values(harness, topic, "read_uncommitted"), values(harness, topic)) == ([b"1"], [])
    sink.append(Decoded(), WriteId(2, 1, 0), "{}")
    assert sink.last() == WriteId(2, 1, 0)
    sink.append(marks(topic, 1, 2), WriteId(2, 1, 1), "{}")
    assert [int(row["value"]) for row in harness.records()] == [1, 2]


def test_last_waits_for_an_open_transaction_with_a_warning(harness: Kafka) -> None:
    topic, sink = harness.topic(), harness.sink(Plain)
    asked: list[Exception] = []

    def ask() -> None:
        other = KafkaEvents(harness.broker.bootstrap, harness.home, Plain, timeout=2.0, owner=f"{OWNER}:{harness.home}")
        with pytest.raises(SinkError, match="reading the last write id") as caught:
            other.last()
        asked.append(caught.value)

    harness.at("before", ask)
    sink.append(marks(topic, 1), WriteId(1, 1, 1), "{}")
    assert [error.transient for error in asked if isinstance(error, SinkError)] == [True]


def test_an_older_run_that_begins_late_does_not_disturb_the_newer_one(harness: Kafka) -> None:
    topic, newer = harness.topic(), harness.sink(Plain)
    newer.append(marks(topic, 1), WriteId(2, 1, 1), "{}")
    producer = newer._producer  # type: ignore[attr-defined]
    with pytest.raises(SinkError, match="epoch 2"):
        harness.sink(Plain).append(marks(topic, 9), WriteId(1, 1, 1), "{}")
    newer.append(marks(topic, 2), WriteId(2, 1, 2), "{}")
    assert newer._producer is producer  # type: ignore[attr-defined]


def test_a_topic_that_is_not_there_is_named(harness: Kafka) -> None:
    servers, missing = harness.broker.bootstrap, f"none-{uuid.uuid4().hex[:8]}"
    message = f"no topic {missing} at {servers}: create it first, or correct its name"
    with pytest.raises(ConfigError) as caught:
        harness.sink(Plain).append(marks(missing, 1), WriteId(1, 1, 1), "{}")
    assert str(caught.value) == message
    with pytest.raises(ConfigError) as caught:
        KafkaEvents(servers, missing, Plain).append(marks(harness.home, 1), WriteId(1, 1, 1), "{}")
    assert str(caught.value) == message


def test_a_partition_that_is_not_there_is_named(harness: Kafka) -> None:
    topic, sink = harness.topic(2), harness.sink(Plain)
    with pytest.raises(ConfigError) as caught:
        sink.append(marks(topic, 1, partition=2), WriteId(1, 1, 1), "{}")
    assert str(caught.value) == (
        f"topic {topic} at {harness.broker.bootstrap} has 2 partitions, and the encoder writes to partition 2: add "
        "partitions, or dispatch over as many as there are by the protocol's options"
    )
    assert sink.last() is None


def test_a_record_that_is_too_large_appends_nothing(harness: Kafka) -> None:
    topic = harness.topic()
    small = f"small-{uuid.uuid4().hex[:8]}"
    harness.broker.create_topic(small, config={"max.message.bytes": "1000"})
    large = Random(1).randbytes(5000)  # compression does not help
    rows = [{"topic": name, "partition": 0, "value": value} for name, value in ((topic, b"1"), (small, large))]
    sink = harness.sink(lambda: Given(rows))
    with pytest.raises(SinkError, match=r"Raise max\.message\.bytes of the topic") as caught:
        sink.append(Decoded(), WriteId(1, 1, 1), "{}")
    assert not caught.value.transient
    assert (sink.last(), harness.records()) == (None, [])


def test_servers_that_do_not_answer_are_a_transient_error() -> None:
    [port] = free_ports(1)
    started = time.monotonic()
    with pytest.raises(SinkError, match=f"kafka://127.0.0.1:{port}/shop: ") as caught:
        KafkaEvents(f"127.0.0.1:{port}", "shop", Plain, timeout=2.0).append(Decoded(), WriteId(1, 1, 1), "{}")
    assert caught.value.transient
    assert time.monotonic() - started < 30


def test_wrong_properties_are_named() -> None:
    with pytest.raises(ConfigError, match="No such configuration property"):
        KafkaEvents("127.0.0.1:9", "shop", Plain, {"compresion.type": "lz4"}).append(Decoded(), WriteId(1, 1, 1), "{}")
    with pytest.raises(ConfigError) as caught:
        KafkaEvents("127.0.0.1:9", "shop", Plain, {"acks": "1", "transactional.id": "mine"})
    assert str(caught.value) == "transactional.id, acks is set by the sink. Remove it from the properties"


def _section(kafka: KafkaBroker, protocol: dict[str, Any], **options: Any) -> KafkaSink:
    home = options.pop("topic")
    return KafkaSink.model_validate(
        {"type": "kafka", "servers": kafka.bootstrap, "topic": home, "protocol": protocol, **options}
    )


@pytest.mark.parametrize(
    "protocol, named",
    [
        ({"name": "debezium-mysql", "topic.prefix": "{}-ddl"}, ["ddl"]),
        ({"name": "ticdc-open", "topic": "{}-all"}, ["all"]),
        (
            {
                "name": "canal-json",
                "topic": "{}-all",
                "dispatchers": [
                    {"matcher": ["a.*"], "topic": "{}-logs"},
                    {"matcher": ["b.*"], "topic": "{{schema}}_{{table}}"},
                    {"matcher": ["c.*"]},
                ],
            },
            ["all", "logs"],
        ),
    ],
)
def test_a_check_looks_up_every_topic_that_the_definition_names(
    kafka: KafkaBroker, protocol: dict[str, Any], named: list[str]
) -> None:
    home = f"home-{uuid.uuid4().hex[:8]}"
    options = json.loads(json.dumps(protocol).replace("{}", home).replace("{{", "{").replace("}}", "}"))
    definition, topics = _section(kafka, options, topic=home), [home, *(f"{home}-{name}" for name in named)]
    for number, topic in enumerate(topics):
        if number:
            with pytest.raises(ConfigError, match=f"no topic {topic} at {kafka.bootstrap}: create it first"):
                open_events(definition, Plain).check()
        kafka.create_topic(topic)
    looked_up = "topics that are named after tables were not looked up"
    assert open_events(definition, Plain).check() == f"looked up {', '.join(sorted(topics))}; {looked_up}"


def test_a_check_does_not_miss_topics_that_a_run_creates(kafka: KafkaBroker) -> None:
    home = f"home-{uuid.uuid4().hex[:8]}"
    form = {"topic.creation.default.partitions": 1, "topic.creation.default.replication.factor": 1}
    sink = open_events(_section(kafka, {"name": "ticdc-open", "topic": f"{home}-all"}, topic=home, **form), Plain)
    will_be = f"{home}, {home}-all will be created; topics that are named after tables were not looked up"
    assert sink.check() == f"looked up no topic; {will_be}"
    kafka.create_topic(home)
    assert str(sink.check()).startswith(f"looked up {home}; {home}-all will be created; ")
