"""Records of a signal topic: each copies tables again, once."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from changefeed.errors import ConfigError
from changefeed.pipeline.state import State
from changefeed.sources.mysql.signal_topic import SignalTopic
from changefeed.sources.mysql.signals import Signal
from changefeed.sources.mysql.source_offset import SignalOffsets, read
from tests.services.database import Database, MariaDb
from tests.services.kafka import KafkaBroker
from tests.services.processes import free_ports
from tests.sources.mysql.following import Follower, section

COPY = {"type": "execute-snapshot", "data": {"data-collections": ["shop.a"], "type": "INCREMENTAL"}}


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with MariaDb() as started:
        started.execute("CREATE DATABASE shop; CREATE TABLE shop.a (id INT PRIMARY KEY, v TEXT)")
        yield started


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    """A topic of two partitions."""
    name = f"signals-{uuid.uuid4().hex}"
    kafka.create_topic(name, partitions=2)
    return name


def send(kafka: KafkaBroker, topic: str, value: Any, *, key: bytes | None = b"p", partition: int = 0) -> None:
    """Sends a record: bytes, or a JSON document."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    kafka.produce(topic, [(key, data, [], partition)])


def options(kafka: KafkaBroker, topic: str, **more: Any) -> dict[str, Any]:
    """The options of a source with this topic."""
    return {"signal-topic": topic, "signal-servers": kafka.bootstrap, "signal-key": "p", **more}


def rows(follower: Follower, state: State) -> list[Any]:
    """The rows of the table in the sink."""
    [table] = state.tables.values()
    return sorted(row["v"] for row in follower.storage.tables.rows(table.path))


@pytest.mark.slow
def test_a_record_copies_a_table_again_once(kafka: KafkaBroker, topic: str, database: Database) -> None:
    database.execute("DELETE FROM a; INSERT INTO a VALUES (1, 'one')", "shop")
    send(kafka, topic, COPY)  # before the pipeline began
    follower = Follower(database, ["shop.*"], Random(1), {name: [v] for name, v in options(kafka, topic).items()})
    follower.run()
    state = follower.run()
    assert read(str(state.source)).signals == SignalOffsets(topic, (1, 0))
    database.execute("SET sql_log_bin = 0; UPDATE a SET v = 'two'", "shop")
    send(kafka, topic, COPY, key=b"others")
    send(kafka, topic, b"no json")
    assert rows(follower, follower.run()) == ["one"]
    send(kafka, topic, COPY | {"id": "mine"}, partition=1)  # between two runs
    state = follower.run()
    assert rows(follower, state) == ["two"]
    assert (read(str(state.source)).requests, read(str(state.source)).signals) == ((), SignalOffsets(topic, (3, 1)))
    database.execute("SET sql_log_bin = 0; UPDATE a SET v = 'three'", "shop")
    assert rows(follower, follower.run()) == ["two"]


@pytest.mark.slow
def test_signals_as_they_come(
    kafka: KafkaBroker, topic: str, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    signals = SignalTopic(section(database, **options(kafka, topic)))
    came, known = signals.after(None)
    assert (came, known) == ([], SignalOffsets(topic, (0, 0)))
    assert signals.after(known) == ([], known)
    send(kafka, topic, COPY | {"id": 7}, partition=1)
    send(kafka, topic, {"type": "log", "data": '{"message": "text"}'})
    send(kafka, topic, {"data": {}})
    send(kafka, topic, b"", key=None)
    came, known = [], SignalOffsets(topic, (0, 0))
    while known is not None and known != SignalOffsets(topic, (3, 1)):
        some, known = signals.after(known)
        came += some
    assert sorted(came, key=lambda signal: signal.place) == [
        Signal(f"{topic}:0:0", f"{topic}:0:0", "log", '{"message": "text"}'),
        Signal(f"{topic}:1:0", "7", "execute-snapshot", json.dumps(COPY["data"])),
    ]
    assert [record.levelname for record in caplog.records if f"{topic}:0:1 is not a signal" in record.message] == [
        "WARNING"
    ]
    again, ends = SignalTopic(section(database, **options(kafka, topic))).after(SignalOffsets(topic, (0, 0)))
    assert (len(again), ends) == (2, known)
    assert signals.after(SignalOffsets("another", (5,))) == ([], known), "its records are not this topic's"
    signals.close()


def test_a_topic_that_does_not_answer_stops_nothing(
    kafka: KafkaBroker, database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("changefeed.sources.mysql.signal_topic._ANSWER", 1.0)
    [port] = free_ports(1)
    away = SignalTopic(section(database, **options(kafka, "signals", **{"signal-servers": f"127.0.0.1:{port}"})))
    lacking = SignalTopic(section(database, **options(kafka, f"none-{uuid.uuid4().hex}")))
    known = SignalOffsets("signals", (5,))
    for signals in (away, lacking):
        caplog.clear()
        assert signals.after(known) == signals.after(known) == ([], known)
        assert [record.levelno for record in caplog.records] == [logging.WARNING], "not with every batch"
        [note] = signals.missing()
        assert note.startswith(f"source.signal-topic: no signals can be read from {signals.name}: ")


def test_a_topic_that_comes_late_is_read_from_its_first_record(
    kafka: KafkaBroker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("changefeed.sources.mysql.signal_topic._AGAIN", 0.0)
    name = f"late-{uuid.uuid4().hex}"
    signals = SignalTopic(section(database, **options(kafka, name)))
    assert signals.after(SignalOffsets(name, (5,))) == ([], SignalOffsets(name, (5,)))
    kafka.create_topic(name, partitions=1)
    send(kafka, name, COPY)
    came, known = signals.after(SignalOffsets(name, (5,)))  # it was deleted and made again
    assert (len(came), known) == (1, SignalOffsets(name, (1,)))
    signals.close()


@pytest.mark.nightly
@pytest.mark.xdist_group("processes")
def test_brokers_that_come_back(database: Database) -> None:
    with KafkaBroker() as broker:
        broker.create_topic("signals")
        signals = SignalTopic(section(database, **options(broker, "signals")))
        _, known = signals.after(None)
        broker.kill()
        began = time.monotonic()
        for _ in range(20):
            assert signals.after(known) == ([], known)
            time.sleep(0.1)
        assert time.monotonic() - began < 10, "a batch does not wait for the brokers"
        broker.restart()
        send(broker, "signals", COPY)
        came, until = list[Signal](), time.monotonic() + 60
        while not came:
            assert time.monotonic() < until
            came, known = signals.after(known)
        assert known == SignalOffsets("signals", (1,))
        signals.close()


def test_options_that_do_not_fit(kafka: KafkaBroker, database: Database) -> None:
    with pytest.raises(ValueError, match="go together"):
        section(database, **{"signal-topic": "signals"})
    with pytest.raises(ValueError, match="`signal-topic` needs another"):
        section(database, **options(kafka, "signals"), **{"snapshot.mode": "initial_only"})
    wrong = options(kafka, "signals", **{"signal-properties": {"security.protocol": "no-such"}})
    with pytest.raises(ConfigError, match="signal-properties: the Kafka client refuses them"):
        SignalTopic(section(database, **wrong)).after(None)
