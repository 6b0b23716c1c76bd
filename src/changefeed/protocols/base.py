"""What a protocol is: options, a decoder, an encoder, and what it can carry.

A protocol is a folder here and a line in `PROTOCOLS`. Its `__init__.py` has one `PROTOCOL: Protocol`. Decoders and
encoders do no I/O: whatever lies outside the record (a claim-check body, a registered schema) comes through `Stores`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any
from typing import Protocol as Interface

import msgspec
import pyarrow as pa
from msgspec import Meta

from changefeed.errors import ConfigError, unknown_name
from changefeed.model.batch import Decoded


class Decoder(Interface):
    """Bytes to changes. Built where it runs, from a protocol's name and options; not shared between threads."""

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """What the records mean; `records` has the columns of `model.batch.RECORDS`.

        Never raises for what a record holds: a record that contradicts the protocol is in `Decoded.dead`.
        """
        ...


class Encoder(Interface):
    """Changes to bytes."""

    def encode(self, changes: Decoded) -> pa.RecordBatch:
        """The records that say `changes`, with the columns of `model.batch.RECORDS`.

        Raises:
            UnsupportedError: the protocol has no words for a change; the message names it.
        """
        ...


class Options(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Base of every protocol's options. Names and values are the producer's own; fields carry a description."""


def _named(name: str, default: Any = None) -> Any:
    return msgspec.field(name=name, default=default)


class RegistryOptions(Options, frozen=True):
    """Base of the options of protocols whose schemas lie in a schema registry; the dotted names are Confluent's own."""

    schema_registry: Annotated[
        str | None,
        Meta(
            description="http(s) URL of the schema registry, several with commas between, user:password in them; or "
            "the path of a file (or of a folder of such) that lists id, subject and schema"
        ),
    ] = None
    basic_auth_user_info: Annotated[str | None, Meta(description="user:password for the schema registry")] = _named(
        "basic.auth.user.info"
    )
    bearer_auth_token: Annotated[str | None, Meta(description="bearer token for the schema registry")] = _named(
        "bearer.auth.token"
    )
    bearer_auth_logical_cluster: Annotated[
        str, Meta(description="the schema registry's cluster id, which Confluent Cloud asks for beside a token")
    ] = _named("bearer.auth.logical.cluster", "")
    bearer_auth_identity_pool_id: Annotated[
        str | None, Meta(description="identity pool of the token, in Confluent Cloud")
    ] = _named("bearer.auth.identity.pool.id")
    ssl_ca_location: Annotated[str | None, Meta(description="file or folder of trusted certificates")] = _named(
        "ssl.ca.location"
    )
    ssl_certificate_location: Annotated[str | None, Meta(description="file of the client's certificate")] = _named(
        "ssl.certificate.location"
    )
    ssl_key_location: Annotated[str | None, Meta(description="file of the client's private key")] = _named(
        "ssl.key.location"
    )
    ssl_key_password: Annotated[str | None, Meta(description="password of the private key")] = _named(
        "ssl.key.password"
    )
    timeout: Annotated[float, Meta(description="seconds that one request to the schema registry may take", gt=0)] = 30.0
    max_retries: Annotated[int, Meta(description="how often a request is tried again where that may help", ge=0)] = (
        _named("max.retries", 3)
    )
    retries_wait_ms: Annotated[
        int, Meta(description="longest wait before the second try; it doubles with each further one", ge=0)
    ] = _named("retries.wait.ms", 1000)
    retries_max_wait_ms: Annotated[int, Meta(description="longest wait before any try", ge=0)] = _named(
        "retries.max.wait.ms", 20000
    )
    cache_capacity: Annotated[int, Meta(description="schemas that are kept in memory", gt=0)] = _named(
        "cache.capacity", 1000
    )


@dataclass(frozen=True, slots=True)
class Stores:
    """What decoders and encoders may need from outside a record, as plain functions.

    Attributes:
        get_body: name of a claim-check file -> its bytes; None when no store is configured.
        put_body: the same way out.
        get_schema: id -> the text of the schema. LookupError when the schema registry does not know the id,
            SchemaRegistryError when it cannot be asked.
        register_schema: (subject, text) -> id; a text that is there already keeps its id. SchemaRegistryError when the
            schema registry refuses it or cannot be asked.
    """

    get_body: Callable[[str], bytes] | None = None
    put_body: Callable[[str, bytes], None] | None = None
    get_schema: Callable[[int], str] | None = None
    register_schema: Callable[[str, str], int] | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Which parts of an event the protocol carries, and what it delivers; the loss table is made from this.

    Attributes:
        carries: keys of events that survive a trip through the protocol, as `before`, `commit_ts`, `schema.ddl`.
        ops: the ops it can tell apart.
        resolved, transactions, heartbeats, schema_changes: whether such events exist.
        restored_ddl: TiDB wrote the text of the schema changes, from what it had parsed; see `wire.ddl.parse`.
    """

    carries: frozenset[str]
    ops: frozenset[str]
    schema_changes: bool = False
    resolved: bool = False
    transactions: bool = False
    heartbeats: bool = False
    restored_ddl: bool = False


@dataclass(frozen=True, slots=True)
class Protocol:
    """One of the languages in which changes are spoken."""

    name: str
    title: str
    capabilities: Capabilities
    options: type[Options]
    decoder: Callable[[Any, Stores], Decoder]
    encoder: Callable[[Any, Stores], Encoder]
    notes: Mapping[str, str] = field(default_factory=dict)

    def read_options(self, given: Mapping[str, Any]) -> Options:
        """The options, checked. Values may be texts, as they come from a command line or a URI.

        Raises:
            ConfigError: an option is unknown or its value does not fit; the message names the nearest or the problem.
        """
        known = [f.encode_name for f in msgspec.structs.fields(self.options)]
        for name in given:
            if name not in known:
                raise unknown_name(f"option of {self.name}", name, known)
        try:
            return msgspec.convert(dict(given), self.options, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{self.name}: {error}") from error
