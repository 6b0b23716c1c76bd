"""Checks of a Kafka section without Kafka: names of properties, values, the JAAS login.

The Kafka client ignores unknown properties, so a misspelled one would go unnoticed.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping

# Kafka 4.1: ConsumerConfig with CommonClientConfigs, SaslConfigs, SslConfigs and SecurityConfig.
_NAMES = """
    allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset bootstrap.servers check.crcs
    client.dns.lookup client.id client.rack config.providers connections.max.idle.ms default.api.timeout.ms
    enable.auto.commit enable.metrics.push exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes
    group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms interceptor.classes
    isolation.level key.deserializer max.partition.fetch.bytes max.poll.interval.ms max.poll.records metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms partition.assignment.strategy receive.buffer.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url security.protocol security.providers send.buffer.bytes session.timeout.ms
    share.acknowledgement.mode socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms ssl.cipher.suites
    ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password
    ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
    ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
    ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type value.deserializer
"""
KNOWN = frozenset(_NAMES.split())
_SECURITY = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL")
# Spark sets these itself, and refuses them in the options.
_SPARKS_OWN = {
    "auto.offset.reset": "use source.starting-offsets",
    "bootstrap.servers": "use source.servers",
    "enable.auto.commit": "the ledger has the pipeline's position",
    "interceptor.classes": "Spark takes none",
    "key.deserializer": "records are read as bytes",
    "value.deserializer": "records are read as bytes",
}
_MEANT = dict.fromkeys(("beginning", "smallest", "oldest", "first", "start"), "earliest")
_MEANT |= dict.fromkeys(("end", "largest", "newest", "last", "now"), "latest")
_VALUE = r"""("(\\.|[^"\\])*"|'(\\.|[^'\\])*'|[\w.$-]+)"""
_LOGIN = re.compile(rf"\s*[\w.$]+\s+(?i:required|requisite|sufficient|optional)(\s+[\w.-]+\s*=\s*{_VALUE})*\s*;\s*")


def wrong_properties(options: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The `kafka.*` names of a source section that cannot be right, with the reason; without their values."""
    for full, value in options.items():
        name = str(full).removeprefix("kafka.")
        if name == full:
            continue
        if name in _SPARKS_OWN:
            yield full, f"{full} is set by the source: {_SPARKS_OWN[name]}"
        elif name not in KNOWN and (near := difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.85)):
            yield full, f'unknown property of the Kafka client "{name}". Did you mean "kafka.{near[0]}"?'
        elif name == "security.protocol" and value not in _SECURITY:
            near = difflib.get_close_matches(str(value).upper(), _SECURITY, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            yield full, f"{full}: expected one of {', '.join(_SECURITY)}.{hint}"
        elif name == "sasl.jaas.config" and (why := _no_login(str(value))):
            yield full, f"{full}: {why}"


def unknown_properties(options: Mapping[str, object]) -> list[str]:
    """The `kafka.*` names that the Kafka client does not have; a class of the user's own may read them."""
    return sorted(n for n in options if str(n).startswith("kafka.") and str(n).removeprefix("kafka.") not in KNOWN)


def wrong_offsets(text: str) -> str | None:
    """The reason why a text is not valid as starting offsets; None if it is valid."""
    if text in ("earliest", "latest"):
        return None
    expected = 'expected earliest, latest or JSON, as {"shop": {"0": 118204}}'
    if not text.lstrip().startswith("{"):
        meant = _MEANT.get(text.lower()) or next(
            iter(difflib.get_close_matches(text, ("earliest", "latest"), n=1)), None
        )
        return f"{expected}, got {text!r:.80}." + (f' Did you mean "{meant}"?' if meant else "")
    try:
        offsets = json.loads(text)
        right = all(p.isdigit() and type(n) is int and n >= -2 for of in offsets.values() for p, n in of.items())
    except (ValueError, AttributeError, RecursionError):
        right = False
    return None if right else f"{expected}: topics with partitions and offsets, -2 for earliest and -1 for latest"


def _no_login(jaas: str) -> str | None:
    if _LOGIN.fullmatch(jaas):
        return None
    if not jaas.rstrip().endswith(";"):
        return "a login ends with `;`"
    return 'not a login; expected `<module> required username="…" password="…";`'
