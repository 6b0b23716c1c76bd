"""TiCDC's sink URIs, read as sources."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.errors import ConfigError
from changefeed.pipeline.config.load import read
from changefeed.sources.kafka.section import KafkaSource
from changefeed.sources.kafka.uri import read_uri

SINK = {"type": "delta", "path": "lake"}


@pytest.mark.parametrize(
    "uri, protocol",
    [
        ("kafka://a:9092/t?protocol=open-protocol", {"name": "ticdc-open"}),
        ("kafka://a:9092/t?protocol=default&max-batch-size=4", {"name": "ticdc-open", "max-batch-size": "4"}),
        ("kafka://a:9092/t?protocol=open-protocol&enable-tidb-extension=true&schema-registry=http://r", {"name": "ticdc-open"}),
        ("kafka://a:9092/t?protocol=debezium&enable-tidb-extension=true&output-row-key=true&avro-enable-watermark=true",
         {"name": "ticdc-debezium", "enable-tidb-extension": "true"}),
        ("kafka://a:9092/t?protocol=debezium&content-compatible=true&avro-enable-watermark=true&kafka-version=2.4.0&encoding-format=json",
         {"name": "ticdc-debezium"}),
        ("kafka://a:9092/t?protocol=avro&schema-registry=http://r&debezium-disable-schema=true&max-retry=1",
         {"name": "ticdc-avro", "schema-registry": "http://r"}),
    ],
)  # fmt: skip
def test_parameters_of_other_protocols_and_of_the_producer_are_skipped(uri: str, protocol: dict[str, Any]) -> None:
    section = read_uri(uri)
    assert (section["type"], section["servers"], section["topics"]) == ("kafka", "a:9092", ["t"])
    assert section["protocol"] == protocol
    read({"source": {"uri": uri}, "sink": SINK})


def test_logins_go_to_the_client() -> None:
    section = read_uri(
        "kafka+ssl://a:1,b:2/t?protocol=avro&sasl-mechanism=scram-sha-256&sasl-user=u&sasl-password=p%22&ca=c.pem"
    )
    login = "org.apache.kafka.common.security.scram.ScramLoginModule"
    assert {name: value for name, value in section.items() if name.startswith("kafka.")} == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": f'{login} required username="u" password="p\\"";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "c.pem",
    }


@pytest.mark.parametrize(
    "uri, message",
    [
        ("kafka://a:1/t?protocol=open-protocol&max-batch-sise=4",
         'unknown option of ticdc-open "max-batch-sise". Did you mean "max-batch-size"?'),
        ("kafka://a:1/t?protocol=maxwell", 'unknown protocol of TiCDC "maxwell". Known: avro, '),
        ("kafka://a:1/t", "source.uri: it has no protocol; add the one of the changefeed, "),
        ("kafka://a:1?protocol=avro", "source.uri: expected kafka://host:port/topic?protocol=…, as a TiCDC changefeed has it; "
         "a database is `type: mysql` with a `uri`"),
    ],
)  # fmt: skip
def test_wrong_uris_are_refused_with_the_fault(uri: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read({"source": {"uri": uri}, "sink": SINK})
    assert str(error.value).startswith(f"definition: {message}")


def test_a_uri_of_another_source_is_its_own() -> None:
    written = {"type": "my_package.my_source", "uri": "amqp://host"}
    assert not KafkaSource.describes(written)
    assert KafkaSource.expanded(written) == written
