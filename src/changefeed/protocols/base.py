"""The contract of a protocol: options, a decoder, an encoder, and its capabilities.

A protocol is a folder here and a line in `PROTOCOLS`. Its `__init__.py` has one `PROTOCOL: Protocol`. Decoders and
encoders do no I/O: whatever lies outside the record (a claim-check body, a registered schema) comes through `Stores`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, runtime_checkable
from typing import Protocol as Interface

import msgspec
import pyarrow as pa
from msgspec import Meta

from changefeed.model.batch import Decoded
from changefeed.model.event import DeadLetter
from changefeed.model.position import Place
from changefeed.model.types import ColumnType
from changefeed.protocols import option_values

# The type inferred from a record, and the one that DDL declares -> a conversion of ready values from the one to the other.
# It raises SchemaError for a value that means nothing there, IrregularError for one that the type cannot hold.
Redefine = Callable[[ColumnType, ColumnType], Callable[[Any], Any]]


class Decoder(Interface):
    """Bytes to changes. Built where it runs, from a protocol's name and options; not shared between threads."""

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """Decodes records; `records` has the columns of `model.batch.RECORDS`.

        Never raises for the content of a record: a record that contradicts the protocol is in `Decoded.dead`.
        """
        ...

    def forget(self) -> None:
        """Forgets the shapes that rows have made, but not its state about the order of records."""
        ...


@runtime_checkable
class OrderedDecoder(Decoder, Interface):
    """A decoder whose answer about a record depends on those before it, not only through the shapes that they made."""

    def mark(self) -> Any:
        """Its state, between two calls of `decode`."""
        ...

    def rewind(self, mark: Any) -> None:
        """Goes back to a state, also from the middle of a `decode` that has raised."""
        ...


@runtime_checkable
class FragmentDecoder(Decoder, Interface):
    """A decoder of a protocol in which an event may lie in several records.

    Records whose remainder has not come yet stay for the next `decode` of the same decoder.
    """

    def waiting(self) -> pa.RecordBatch:
        """The records that wait, in the order in which they came.

        A new decoder that is fed these records, and then what follows, returns what this one would have returned.
        """
        ...


def unfinished(decoder: Decoder, protocol: str) -> list[DeadLetter]:
    """A dead letter for each record that still waits for its remainder where the records end."""
    if not isinstance(decoder, FragmentDecoder):
        return []
    letters = []
    for row, record in enumerate(decoder.waiting().to_pylist()):
        place = Place(record["topic"], record["partition"], record["offset"], None, row)
        error = f"{protocol}: the log ends inside of the group of records that this one belongs to ({place})"
        headers = tuple((header["key"], header["value"]) for header in record["headers"] or ())
        letters.append(DeadLetter("incomplete-group", error, protocol, place, record["key"], record["value"], headers))
    return letters


class Encoder(Interface):
    """Changes to bytes."""

    def encode(self, changes: Decoded) -> pa.RecordBatch:
        """The records for `changes`, with the columns of `model.batch.RECORDS`.

        Raises:
            UnsupportedError: the protocol has no words for a change; the message names it.
        """
        ...


@runtime_checkable
class ClosingEncoder(Encoder, Interface):
    """An encoder that may write records after the last change."""

    def finish(self) -> pa.RecordBatch:
        """The last records."""
        ...


@runtime_checkable
class NumberingEncoder(Encoder, Interface):
    """An encoder that numbers the events that it writes.

    Attributes:
        last_number: of the last event. Set on a new encoder, it goes on behind it.
    """

    last_number: int


class ClaimChecks(msgspec.Struct, frozen=True):
    """The folder of claim-check files.

    Attributes:
        uri: a path, or any URL that fsspec supports.
        max_bytes: larger files are refused.
    """

    uri: str
    max_bytes: int


class Options(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Base of every protocol's options. Names and values are the producer's own; fields carry a description."""

    @property
    def dispatches(self) -> tuple[str, ...]:
        """The options among these that send rows to other topics or partitions than the changes' own."""
        return ()

    @property
    def claim_checks(self) -> ClaimChecks | None:
        """The folder with the values that are too large for messages; None if the options name none."""
        return None

    @property
    def one_writer(self) -> bool:
        """Whether only one encoder at a time can work with these."""
        return False


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
    timeout: Annotated[float, Meta(description="seconds from a request to the last byte of its answer", gt=0)] = 5.0
    max_retries: Annotated[
        int, Meta(description="how often a request is tried again where that may help", ge=0, le=10)
    ] = _named("max.retries", 3)
    retries_wait_ms: Annotated[
        int, Meta(description="longest wait before the second try; it doubles with each further one", ge=0)
    ] = _named("retries.wait.ms", 1000)
    retries_max_wait_ms: Annotated[int, Meta(description="longest wait before any try", ge=0, le=60_000)] = _named(
        "retries.max.wait.ms", 20000
    )
    cache_capacity: Annotated[int, Meta(description="schemas that are kept in memory", gt=0)] = _named(
        "cache.capacity", 1000
    )

    @property
    def one_writer(self) -> bool:
        """Whether new schemas go into a file."""
        return self.schema_registry is not None and not self.schema_registry.startswith(("http://", "https://"))


@dataclass(frozen=True, slots=True)
class Stores:
    """Access to data outside the records, for decoders and encoders, as plain functions.

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
class Record:
    """One record, as `Protocol.recognize` is shown it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The parts of an event that the protocol carries, and its guarantees; the loss table is made from this.

    Attributes:
        carries: those of `model.keys.KEYS` that a foreign event still has after it was encoded and decoded.
        provides: keys that its producer's records have, and that no foreign event gets.
        requires: key -> the key without which an event loses it, as an update that is recognised by its old row alone.
        cuts: the proof that everything up to some point was sent: `marks` in every partition (resolved events, or
            heartbeats with a sequence), whole `transactions`, or nothing.
        missing_commit_ts: some rows have neither commit_ts nor sequence; it is estimated from the records around them.
        headers: whether the protocol uses record headers.
        fragments: an event may lie in several records; the decoder is a `FragmentDecoder`.
        key_only: a row that is too large may come with its key alone, and `ohk` in its origin.
        broadcast: a schema change, or a mark at or above it, is sent to every partition of its topic, after the rows of its
            tables before it. Without that, each partition is in order.
        restored_ddl: TiDB wrote the text of the schema changes, from what it had parsed; see `mysql.ddl.parse`.
    """

    carries: frozenset[str]
    provides: frozenset[str] = frozenset()
    requires: Mapping[str, str] = field(default_factory=dict)
    cuts: Literal["marks", "transactions", "nothing"] = "nothing"
    missing_commit_ts: bool = False
    headers: bool = False
    fragments: bool = False
    key_only: bool = False
    broadcast: bool = False
    restored_ddl: bool = False

    @property
    def ops(self) -> frozenset[str]:
        """The ops it can tell apart."""
        return frozenset(key.removeprefix("op.") for key in self.carries if key.startswith("op."))

    @property
    def schema_changes(self) -> bool:
        """Whether schema changes exist."""
        return "schema" in self.carries

    @property
    def resolved(self) -> bool:
        """Whether resolved events exist."""
        return "resolved" in self.carries

    @property
    def transactions(self) -> bool:
        """Whether begin and end of transactions are events."""
        return "transaction-mark" in self.carries

    @property
    def heartbeats(self) -> bool:
        """Whether the producer sends heartbeats."""
        return "heartbeat" in self.carries

    @property
    def cut_key(self) -> str | None:
        """The key that its cuts require."""
        return {"marks": "resolved" if self.resolved else "checkpoint", "transactions": "transaction-mark"}.get(
            self.cuts
        )


@dataclass(frozen=True, slots=True)
class Form:
    """The form of record values under some options; the benchmarks measure each form.

    Attributes:
        name: empty for the usual form.
        options: those of a producer that sends many rows; the others are the defaults.
        values: what a value is; it decides which library the decoder is measured against.
    """

    name: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    values: Literal["json", "framed json", "avro", "protobuf"] = "json"


@dataclass(frozen=True, slots=True)
class KernelTwin:
    """The class of the Rust kernel that decodes the protocol's rows as its decoder does.

    Attributes:
        call: options -> name of the class, and its keyword arguments; None where it cannot decode with these options.
        topics: a shape is registered for one topic, and `decode` gets the records' topics.
        headers: `decode` gets the records' headers.
        record_groups: records become groups before they are decoded; the decoder is a `codec.record_groups.GroupDecoder`.
    """

    call: Callable[[Any], tuple[str, Mapping[str, Any]] | None]
    topics: bool = False
    headers: bool = False
    record_groups: bool = False


@dataclass(frozen=True, slots=True)
class Protocol:
    """A change protocol: its decoder, encoder, options and capabilities.

    Attributes:
        ticdc_names: what a TiCDC sink URI calls it; empty where TiCDC does not write it.
        aliases: other names that people try; an unknown name is answered with the protocol that was meant.
        reasons: reason of a dead letter that this protocol alone gives -> what it means, for the page of errors.
        forms: of its record values.
        capabilities: its most; `capabilities_of` has those with some options.
        redefine: converts values to the types that DDL defines, by the protocol's options; None if records declare
            their types.
        carries: the options -> what is carried with them; None where options change nothing of it.
        variants: options with which more or less is carried than with the defaults, for the loss table and its tests.
        self_describing: the decoder sees in the records what they carry, independently of its options.
        verbatim: events that were read from the protocol are written as they were, independently of the options.
        kernel: its twin in the Rust kernel; None where only the decoder can read it.
        recognize: a record -> why it seems to be of this protocol, None where it does not. A cheap look, no proof.
        likely: a record of this protocol -> options that its bytes show.
    """

    name: str
    title: str
    capabilities: Capabilities
    options: type[Options]
    decoder: Callable[[Any, Stores], Decoder]
    encoder: Callable[[Any, Stores], Encoder]
    redefine: Callable[[Any], Redefine] | None = None
    carries: Callable[[Any], frozenset[str]] | None = None
    variants: tuple[Mapping[str, str], ...] = ()
    self_describing: bool = False
    verbatim: bool = False
    ticdc_names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    forms: tuple[Form, ...] = (Form(),)
    kernel: KernelTwin | None = None
    recognize: Callable[[Record], str | None] | None = None
    likely: Callable[[Record], Mapping[str, str]] | None = None

    def capabilities_of(self, options: Options) -> Capabilities:
        """The capabilities with these options."""
        if self.carries is None:
            return self.capabilities
        return replace(self.capabilities, carries=self.carries(options))

    def read_options(self, values: Mapping[str, Any]) -> Options:
        """Checks options and returns them; values may be texts, as from a command line or a URI.

        Raises:
            ConfigError: an option is unknown, and the message names the nearest one; or its value is invalid.
        """
        return option_values.read(self.name, self.options, values)
