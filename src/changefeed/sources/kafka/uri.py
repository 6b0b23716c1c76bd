"""The sink URI of a TiCDC changefeed as a source.

    kafka://127.0.0.1:9092/shop?protocol=open-protocol&max-batch-size=16&sasl-mechanism=plain&sasl-user=…
                    servers        topic  codec options             connection

Codec options go to the protocol under the same names. Options that concern only the producer, or other protocols, are
ignored, as the producer does.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec.structs import fields

from changefeed.errors import ConfigError, unknown_name
from changefeed.protocols import protocol, ticdc_names

_PRODUCER_ONLY = frozenset(
    {
        "kafka-version", "kafka-client-id", "replication-factor", "auto-create-topic", "required-acks", "compression",
        "max-retry", "dial-timeout", "read-timeout", "write-timeout", "encoder-concurrency",
    }
)  # fmt: skip
# Options of codecs, supported here or not, that a reader does not need.
_OF_OTHER_CODECS = frozenset({"encoding-format", "output-row-key"})
_CONNECTION = frozenset(
    {"sasl-mechanism", "sasl-user", "sasl-password", "enable-tls", "ca", "cert", "key", "insecure-skip-verify"}
)


def read_uri(uri: str) -> dict[str, Any]:
    """The `source` section that reads what a producer with this sink URI writes.

    Raises:
        ConfigError: the text is not a Kafka URI, has no topic or protocol, or uses an authentication that is not supported.
    """
    parts = urlsplit(uri)
    topic = unquote(parts.path.strip("/"))
    if parts.scheme not in ("kafka", "kafka+ssl") or not parts.netloc or not topic:
        raise ConfigError(
            "source.uri: expected kafka://host:port/topic?protocol=…, as a TiCDC changefeed has it; a database is "
            "`type: mysql` with a `uri`"
        )
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    name = query.pop("protocol", None)
    if name is None:
        raise ConfigError("source.uri: it has no protocol; add the one of the changefeed, as `protocol=open-protocol`")
    protocols = ticdc_names()
    if name not in protocols:
        raise unknown_name("protocol of TiCDC", name, protocols)
    known = _options(protocols[name])
    others = set[str]().union(*map(_options, set(protocols.values())))
    unread = (_PRODUCER_ONLY | _CONNECTION | _OF_OTHER_CODECS | others) - known
    options = {k: v for k, v in query.items() if k not in unread}
    unknown = next((k for k in options if k.startswith("sasl-")), None)
    if unknown is not None:
        raise ConfigError(
            f"source.uri: {unknown} is not supported; set the Kafka client's properties `kafka.sasl.…` instead"
        )
    return {
        "type": "kafka",
        "servers": parts.netloc.rpartition("@")[2],
        "topics": [topic],
        "protocol": {"name": protocols[name], **options},
        **_connection(query, tls=parts.scheme == "kafka+ssl"),
    }


def _options(name: str) -> set[str]:
    return {field.encode_name for field in fields(protocol(name).options)}


def _connection(query: dict[str, str], *, tls: bool) -> dict[str, str]:
    tls = tls or query.get("enable-tls") == "true" or "ca" in query
    sasl = query.get("sasl-mechanism", "").upper()
    if not tls and not sasl:
        return {}
    properties = {"kafka.security.protocol": ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")}
    if sasl:
        properties["kafka.sasl.mechanism"] = sasl
        properties["kafka.sasl.jaas.config"] = _login(sasl, query.get("sasl-user", ""), query.get("sasl-password", ""))
    if "ca" in query:
        properties |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": query["ca"]}
    if "cert" in query:
        raise ConfigError(
            "source.uri: cert and key: put both in one PEM file and give it as `kafka.ssl.keystore.location`"
        )
    if query.get("insecure-skip-verify") == "true":
        properties["kafka.ssl.endpoint.identification.algorithm"] = ""
    return properties


def _login(mechanism: str, user: str, password: str) -> str:
    modules = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule"}
    modules["SCRAM-SHA-512"] = modules["SCRAM-SHA-256"]
    if mechanism not in modules:
        raise ConfigError(
            f"source.uri: sasl-mechanism {mechanism.lower()} needs the client's own properties: `kafka.sasl.…`"
        )
    name, secret = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, password))
    return f'org.apache.kafka.common.security.{modules[mechanism]} required username="{name}" password="{secret}";'
