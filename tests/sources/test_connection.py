"""Reading topics without Spark: a cluster's properties for the plain client, and a cluster that does not answer."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.errors import ConfigError, SourceError
from changefeed.pipeline.config.load import read
from changefeed.sources import record_source
from changefeed.sources.kafka import librdkafka
from changefeed.sources.kafka.connection import plain_properties
from changefeed.sources.kafka.librdkafka import PlainBrokers

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a \\"b\\"" password="c\\\\d";'


def _options(**properties: str) -> dict[str, str]:
    """Spark's options for a definition with these properties."""
    options: dict[str, str] = _shop(**properties).options
    return options


def _shop(**properties: str) -> Any:
    """The source of the topic `shop`, with these properties."""
    names = {f"kafka.{name}": value for name, value in properties.items()}
    return _topics({"type": "kafka", "servers": "127.0.0.1:1", "topics": ["shop"], "protocol": "ticdc-open", **names})


def _topics(section: dict[str, Any]) -> Any:
    return record_source(read({"source": section, "sink": {"type": "delta", "path": "lake"}}).source)


@pytest.mark.parametrize(
    "java, plain",
    [
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS},
         {"sasl.mechanism": "PLAIN", "sasl.username": 'a "b"', "sasl.password": "c\\d"}),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"}, {"ssl.ca.location": "ca.pem"}),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "me.pem", "ssl.key.password": "x"},
         {"ssl.certificate.location": "me.pem", "ssl.key.location": "me.pem", "ssl.key.password": "x"}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"security.protocol": "SASL_SSL"}, {"security.protocol": "SASL_SSL"}),
        ({"request.timeout.ms": "20000", "max.poll.records": "9"}, {}),
    ],
)  # fmt: skip
def test_properties_of_the_java_client_for_the_plain_one(java: dict[str, str], plain: dict[str, str]) -> None:
    assert plain_properties(_options(**java)) == {"bootstrap.servers": "127.0.0.1:1", **plain}


@pytest.mark.parametrize(
    "java, message",
    [
        ({"sasl.jaas.config": "x.Krb5LoginModule required;"},
         'kafka.sasl.jaas.config: without Spark, only a login with username="…" in it can be used'),
        ({"ssl.truststore.location": "ca.jks"},
         "kafka.ssl.truststore.location: without Spark, only a store of type PEM can be read"),
        ({"security.protocol": "TELEPATHY"},
         "definition: kafka.security.protocol: expected one of PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SSL."),
    ],
)  # fmt: skip
def test_properties_that_the_plain_client_does_not_have(java: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        list(_shop(**java).sample(1))
    assert str(error.value) == message


def test_a_cluster_that_is_not_there_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(librdkafka, "_SECONDS", 0.5)
    with pytest.raises(SourceError, match=r"^127\.0\.0\.1:1 does not answer: .*: Connection refused") as error:
        PlainBrokers({"bootstrap.servers": "127.0.0.1:1"}, "").topics(["shop"])
    assert error.value.transient
    assert capfd.readouterr().err == "", "the client's own lines, one every 50 ms"


@pytest.mark.parametrize("servers", ["127.0.0.1:1", "127.0.0.1:1, [::1]:1"])
def test_a_batch_from_a_cluster_that_is_not_there_ends_at_once(servers: str) -> None:
    topics = _topics({"type": "kafka", "servers": servers, "topics": ["shop"], "protocol": "ticdc-open"})
    with pytest.raises(SourceError) as error:
        topics.next_batch(None, None, None)
    assert str(error.value).startswith(f"{servers} does not answer: [Errno ")
    assert error.value.transient


def test_a_server_without_a_port_is_refused() -> None:
    topics = _topics({"type": "kafka", "servers": "broker", "topics": ["shop"], "protocol": "ticdc-open"})
    with pytest.raises(ConfigError) as error:
        topics.next_batch(None, None, None)
    assert str(error.value) == "source.servers: expected host:port, not 'broker'"
