"""A TiCDC sink URI as a source: what the producer was told, read from the other side.

    kafka://127.0.0.1:9092/shop?protocol=open-protocol&max-batch-size=16&sasl-mechanism=plain&sasl-user=…
            servers        topic  codec options             how to connect

Codec options go to the protocol under the same names. What concerns the producer alone, or codecs of other protocols, is
skipped, as the producer does.
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
# Of the codec `simple`, which no protocol here is, and what of `canal-json` a reader need not know.
_OF_OTHER_CODECS = frozenset({"encoding-format", "output-row-key"})
_CONNECTION = frozenset(
    {"sasl-mechanism", "sasl-user", "sasl-password", "enable-tls", "ca", "cert", "key", "insecure-skip-verify"}
)


def read_uri(uri: str) -> dict[str, Any]:
    """The `source` section that reads what a producer with this sink URI writes.

    Raises:
        ConfigError: it is no Kafka URI, names no topic or protocol, or authenticates in a way that is not known here.
    """
    parts = urlsplit(uri)
    topic = unquote(parts.path.strip("/"))
    if parts.scheme not in ("kafka", "kafka+ssl") or not parts.netloc or not topic:
        raise ConfigError("source.uri: expected kafka://host:port/topic?protocol=…, as a TiCDC changefeed has it")
    said = dict(parse_qsl(parts.query, keep_blank_values=True))
    name = said.pop("protocol", None)
    if name is None:
        raise ConfigError(
            "source.uri: it names no protocol; add `protocol=open-protocol`, or what the changefeed's file says"
        )
    protocols = ticdc_names()
    if name not in protocols:
        raise unknown_name("protocol of TiCDC", name, protocols)
    known = _options(protocols[name])
    others = set[str]().union(*map(_options, set(protocols.values())))
    unread = (_PRODUCER_ONLY | _CONNECTION | _OF_OTHER_CODECS | others) - known
    options = {k: v for k, v in said.items() if k not in unread}
    unknown = next((k for k in options if k.startswith("sasl-")), None)
    if unknown is not None:
        raise ConfigError(
            f"source.uri: {unknown} is not known here; give the client's own properties as `kafka.sasl.…`"
        )
    return {
        "type": "kafka",
        "servers": parts.netloc.rpartition("@")[2],
        "topics": [topic],
        "protocol": {"name": protocols[name], **options},
        **_connection(said, tls=parts.scheme == "kafka+ssl"),
    }


def _options(name: str) -> set[str]:
    return {field.encode_name for field in fields(protocol(name).options)}


def _connection(said: dict[str, str], *, tls: bool) -> dict[str, str]:
    tls = tls or said.get("enable-tls") == "true" or "ca" in said
    sasl = said.get("sasl-mechanism", "").upper()
    if not tls and not sasl:
        return {}
    found = {"kafka.security.protocol": ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")}
    if sasl:
        found["kafka.sasl.mechanism"] = sasl
        found["kafka.sasl.jaas.config"] = _login(sasl, said.get("sasl-user", ""), said.get("sasl-password", ""))
    if "ca" in said:
        found |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": said["ca"]}
    if "cert" in said:
        raise ConfigError(
            "source.uri: cert and key: put both in one PEM file and give it as `kafka.ssl.keystore.location`"
        )
    if said.get("insecure-skip-verify") == "true":
        found["kafka.ssl.endpoint.identification.algorithm"] = ""
    return found


def _login(mechanism: str, user: str, password: str) -> str:
    modules = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule"}
    modules["SCRAM-SHA-512"] = modules["SCRAM-SHA-256"]
    if mechanism not in modules:
        raise ConfigError(
            f"source.uri: sasl-mechanism {mechanism.lower()} needs the client's own properties: `kafka.sasl.…`"
        )
    name, secret = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, password))
    return f'org.apache.kafka.common.security.{modules[mechanism]} required username="{name}" password="{secret}";'
