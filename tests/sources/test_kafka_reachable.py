"""Whether brokers can be reached, asked while a run waits for them, and by commands."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import pytest

from changefeed.errors import SourceError
from changefeed.sources.kafka import KafkaTopics, open_source
from changefeed.sources.kafka.section import KafkaSource
from tests.services.processes import free_ports

if TYPE_CHECKING:
    from tests.services.kafka import KafkaBroker


def _source(servers: str, topic: str = "orders", **options: str) -> KafkaTopics:
    section = {"type": "kafka", "servers": servers, "topics": [topic], "protocol": "ticdc-open", **options}
    return open_source(KafkaSource.model_validate(section))


def test_a_broker_that_hangs_is_not_reachable(kafka: KafkaBroker) -> None:
    """It accepts connections, and answers nothing."""
    topic = f"reachable-{uuid.uuid4().hex}"
    kafka.create_topic(topic)
    source = _source(kafka.bootstrap, topic)
    assert source.unreachable() is None
    with kafka.hanging():
        began = time.monotonic()
        reason = source.unreachable()
        assert time.monotonic() - began < 10
        assert f"{kafka.bootstrap} does not answer: " in (reason or "")
        with pytest.raises(SourceError, match="does not answer") as error:
            source.backlog(None)
        assert error.value.transient
    assert source.unreachable() is None
    assert source.backlog(None) is not None


def test_a_broker_that_only_java_may_reach_is_asked_for_a_connection(kafka: KafkaBroker) -> None:
    with kafka.hanging():
        assert _source(kafka.bootstrap, **{"kafka.client.rack": "b"}).unreachable() is None


def test_brokers_that_refuse_connections_are_not_reachable() -> None:
    [port] = free_ports(1)
    assert "Connection refused" in (_source(f"127.0.0.1:{port}").unreachable() or "")


def test_status_asks_brokers_that_only_java_may_reach_for_a_connection(kafka: KafkaBroker) -> None:
    [port] = free_ports(1)
    store = {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "ca.jks"}
    assert _source(kafka.bootstrap, **store).backlog(None) is None, "what is left is not known"
    with pytest.raises(SourceError, match="Connection refused"):
        _source(f"127.0.0.1:{port}", **store).backlog(None)
