"""Connection properties for librdkafka, translated from the Java client's.

    Java, as the definition has it                                  librdkafka
    sasl.jaas.config: …LoginModule required username="u" …;         sasl.username, sasl.password
    ssl.truststore.location, with ssl.truststore.type: PEM          ssl.ca.location
    ssl.keystore.location, with ssl.keystore.type: PEM              ssl.certificate.location, ssl.key.location
    ssl.endpoint.identification.algorithm: ""                       none
    bootstrap.servers, security.*, sasl.*, ssl.*                    as they are

All other properties tune Spark's client, and are left out.
"""

from __future__ import annotations

import re

from changefeed.errors import NeedsSparkError

CONNECTION = ("bootstrap.servers", "security.", "sasl.", "ssl.")
_JAVA_ALONE = ("sasl.jaas.", "ssl.truststore.", "ssl.keystore.")
_STORES = {"truststore": ("ssl.ca.location",), "keystore": ("ssl.certificate.location", "ssl.key.location")}
_VERIFIED = "ssl.endpoint.identification.algorithm"


def plain_properties(options: dict[str, str]) -> dict[str, str]:
    """The properties with which librdkafka reaches the cluster of Spark's `options`.

    Raises:
        NeedsSparkError: librdkafka has no equivalent for them.
    """
    properties = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    connection = {n: v for n, v in properties.items() if n.startswith(CONNECTION) and not n.startswith(_JAVA_ALONE)}
    if "sasl.jaas.config" in properties:
        connection |= {
            f"sasl.{name}": _login(properties["sasl.jaas.config"], name) for name in ("username", "password")
        }
    for store, names in _STORES.items():
        if file := properties.get(f"ssl.{store}.location"):
            if properties.get(f"ssl.{store}.type") != "PEM":
                raise NeedsSparkError(
                    f"kafka.ssl.{store}.location: without Spark, only a store of type PEM can be read"
                )
            connection |= dict.fromkeys(names, file)
    if connection.get(_VERIFIED) == "":
        connection[_VERIFIED] = "none"
    return connection


def _login(jaas: str, name: str) -> str:
    match = re.search(rf'\b{name}="((?:\\.|[^"\\])*)"', jaas)
    if match is None:
        raise NeedsSparkError(f'kafka.sasl.jaas.config: without Spark, only a login with {name}="…" in it can be used')
    return re.sub(r"\\(.)", r"\1", match[1])
