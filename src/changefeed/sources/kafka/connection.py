"""How to reach a cluster: the Java client's properties as those of the plain one (librdkafka).

    Java, as the definition has it                                  librdkafka
    sasl.jaas.config: …LoginModule required username="u" …;         sasl.username, sasl.password
    ssl.truststore.location, with ssl.truststore.type: PEM          ssl.ca.location
    ssl.keystore.location, with ssl.keystore.type: PEM              ssl.certificate.location, ssl.key.location
    ssl.endpoint.identification.algorithm: ""                       none
    bootstrap.servers, security.*, sasl.*, ssl.*                    as they are

Whatever is not about the connection tunes Spark's own client, and is left out.
"""

from __future__ import annotations

import re

from changefeed.errors import ConfigError

_CONNECTION = ("bootstrap.servers", "security.", "sasl.", "ssl.")
_JAVA_ALONE = ("sasl.jaas.", "ssl.truststore.", "ssl.keystore.")
_STORES = {"truststore": ("ssl.ca.location",), "keystore": ("ssl.certificate.location", "ssl.key.location")}
_VERIFIED = "ssl.endpoint.identification.algorithm"


def plain_properties(options: dict[str, str]) -> dict[str, str]:
    """What the plain client needs to reach the cluster that Spark's `options` name.

    Raises:
        ConfigError: they connect in a way that the plain client does not have.
    """
    said = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    found = {n: v for n, v in said.items() if n.startswith(_CONNECTION) and not n.startswith(_JAVA_ALONE)}
    if "sasl.jaas.config" in said:
        found |= {f"sasl.{name}": _login(said["sasl.jaas.config"], name) for name in ("username", "password")}
    for store, names in _STORES.items():
        if file := said.get(f"ssl.{store}.location"):
            if said.get(f"ssl.{store}.type") != "PEM":
                raise ConfigError(f"kafka.ssl.{store}.location: without Spark, only a store of type PEM can be read")
            found |= dict.fromkeys(names, file)
    if found.get(_VERIFIED) == "":
        found[_VERIFIED] = "none"
    return found


def _login(jaas: str, name: str) -> str:
    found = re.search(rf'\b{name}="((?:\\.|[^"\\])*)"', jaas)
    if found is None:
        raise ConfigError(f'kafka.sasl.jaas.config: without Spark, only a login with {name}="…" in it can be used')
    return re.sub(r"\\(.)", r"\1", found[1])
