"""Errors and warnings about a Kafka section before anything connects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from changefeed.sources.kafka.properties import KNOWN, unknown_properties, wrong_offsets, wrong_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = "kafka.sasl.jaas.config"


@pytest.mark.parametrize(
    "name, value, why",
    [
        ("kafka.security.protocol", "SASL_SSL", None),
        ("kafka.my.own", "x", None),
        ("type", "kafka", None),
        ("kafka.securty.protocol", "x", 'unknown property of the Kafka client "securty.protocol". Did you mean '
         '"kafka.security.protocol"?'),
        ("kafka.sasl.jaas.confg", "x", 'unknown property of the Kafka client "sasl.jaas.confg". Did you mean '
         '"kafka.sasl.jaas.config"?'),
        ("kafka.security.protocol", "sasl_sll", "kafka.security.protocol: expected one of PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, "
         "SSL. Did you mean SASL_SSL?"),
        ("kafka.auto.offset.reset", "latest", "kafka.auto.offset.reset is set by the source: use source.starting-offsets"),
        (JAAS, f'{PLAIN} required username="u" password="a\\"b;";', None),
        (JAAS, f"{PLAIN} required\n  username='u'\n  password=p ;\n", None),
        (JAAS, "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;", None),
        (JAAS, f'{PLAIN} required username="u" password="secret"', f"{JAAS}: a login ends with `;`"),
        (JAAS, f'{PLAIN} needed username="u" password="secret";',
         f'{JAAS}: not a login; expected `<module> required username="…" password="…";`'),
        (JAAS, "user:secret;", f'{JAAS}: not a login; expected `<module> required username="…" password="…";`'),
    ],
)  # fmt: skip
def test_wrong_properties(name: str, value: str, why: str | None) -> None:
    assert [message for _, message in wrong_properties({name: value})] == ([why] if why else [])


@pytest.mark.parametrize(
    "text, why",
    [
        ("earliest", None),
        ("latest", None),
        ('{"shop": {"0": 118204, "1": -2}}', None),
        ("newest", "got 'newest'. Did you mean \"latest\"?"),
        ("earlist", "got 'earlist'. Did you mean \"earliest\"?"),
        ("5", "got '5'."),
        ('{"shop": {"0": "7"}}', "topics with partitions and offsets, -2 for earliest and -1 for latest"),
        ('{"shop": [0]}', "topics with partitions and offsets, -2 for earliest and -1 for latest"),
        ('{"shop"', "topics with partitions and offsets, -2 for earliest and -1 for latest"),
    ],
)
def test_starting_offsets(text: str, why: str | None) -> None:
    error = wrong_offsets(text)
    assert (error is None) is (why is None)
    assert error is None or error.endswith(str(why))


def test_unknown_properties() -> None:
    assert unknown_properties({"kafka.client.id": "x", "kafka.my.own": "y", "topics": []}) == ["kafka.my.own"]


def test_the_names_are_those_of_the_client_that_spark_brings(spark: SparkSession) -> None:
    consumer = spark._jvm.org.apache.kafka.clients.consumer.ConsumerConfig  # type: ignore[union-attr]
    assert {name for name in consumer.configNames() if not name.startswith("internal.")} - KNOWN == set()
