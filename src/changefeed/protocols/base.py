"""The contract of a protocol: options, a decoder, an encoder, and its capabilities.

A protocol is a folder in this package and a line in `PROTOCOLS`. Its `__init__.py` has one `PROTOCOL: Protocol`. Decoders and
encoders do no I/O: data outside the record (a claim-check body, a registered schema) comes through `Stores`.
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


class Redefine(Interface):
    """Converts values to the types that DDL declares."""

    def __call__(
        self, inferred: ColumnType, defined: ColumnType, charset: str | None = None, /
    ) -> Callable[[Any], Any]:
        """Returns a conversion of ready values.

        It raises SchemaError for a value that means nothing in the declared type, IrregularError for one that it cannot hold.

        Args:
            inferred: the type inferred from a record.
            defined: the type that DDL declares.
            charset: the column's character set by the producer's definition; None if unknown.
        """
        ...


class Decoder(Interface):
    """Decodes records to changes. Built in the process that uses it, from a protocol's name and options; for one thread."""

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """Decodes records, a batch with the columns of `model.batch.RECORDS`.

        Never raises for the content of a record: a record that contradicts the protocol becomes a dead letter.
        """
        ...

    def forget(self) -> None:
        """Drops the shapes of earlier rows, but not the state about the order of records."""
        ...


@runtime_checkable
class OrderedDecoder(Decoder, Interface):
    """A decoder whose result for a record depends on earlier records, not only through their shapes."""

    def mark(self) -> Any:
        """Returns the decoder's state, between two calls of `decode`."""
        ...

    def rewind(self, mark: Any) -> None:
        """Restores a state of `mark`, also after a `decode` that has raised."""
        ...


@runtime_checkable
class TombstoneDecoder(OrderedDecoder, Interface):
    """A decoder of a protocol in which a record without value may be a delete, which depends on the record before it.

    `decode(records)` is `settle(records, decode_values(records))`; the kernel may decode the values instead.
    """

    def decode_values(self, records: pa.RecordBatch) -> Decoded:
        """Decodes the records that are not tombstones."""
        ...

    def settle(self, records: pa.RecordBatch, decoded: Decoded) -> Decoded:
        """Returns the events of all records, given those of the records that are not tombstones."""
        ...


@runtime_checkable
class FragmentDecoder(Decoder, Interface):
    """A decoder of a protocol in which an event may span several records.

    Records of an incomplete event are kept for the next `decode` of the same decoder.
    """

    def waiting(self) -> pa.RecordBatch:
        """Returns the records of incomplete events, in the order in which they came.

        A new decoder that gets these records, and then the next ones, returns the same as this one would.
        """
        ...


def unfinished(decoder: Decoder, protocol: str) -> list[DeadLetter]:
    """Returns a dead letter for each record of an event that is still incomplete at the end of the records."""
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
    """Encodes changes to records. Built from a protocol's name and options; for one thread."""

    def encode(self, changes: Decoded) -> pa.RecordBatch:
        """Encodes `changes` into records, a batch with the columns of `model.batch.RECORDS`.

        Raises:
            UnsupportedError: the protocol cannot represent a change; the message names it.
        """
        ...


@runtime_checkable
class ClosingEncoder(Encoder, Interface):
    """An encoder that may write records after the last change."""

    def finish(self) -> pa.RecordBatch:
        """Returns the last records, after all changes have been encoded."""
        ...


@runtime_checkable
class NumberingEncoder(Encoder, Interface):
    """An encoder that numbers the events that it writes.

    Attributes:
        last_number: number of the last event. If it is set on a new encoder, that continues with the next number.
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
    """Base class of every protocol's options, with the producer's names and values; each field has a description."""

    @property
    def dispatches(self) -> tuple[str, ...]:
        """The set options that send rows to other topics or partitions than those of the changes."""
        return ()

    @property
    def claim_checks(self) -> ClaimChecks | None:
        """The claim-check folder, for values that are too large for messages; None if the options set none."""
        return None

    @property
    def one_writer(self) -> bool:
        """Whether only one encoder at a time may use these options."""
        return False


def _named(name: str, default: Any = None) -> Any:
    return msgspec.field(name=name, default=default)


class RegistryOptions(Options, frozen=True):
    """Base class of the options of protocols that use a schema registry; names with dots are Confluent's."""

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
    timeout: Annotated[
        float, Meta(description="time limit for a request and its complete answer, in seconds", gt=0)
    ] = 5.0
    max_retries: Annotated[
        int, Meta(description="maximum number of retries of a request, if a retry may help", ge=0, le=10)
    ] = _named("max.retries", 3)
    retries_wait_ms: Annotated[
        int,
        Meta(
            description="longest wait before the first retry, in milliseconds; it doubles with each further one", ge=0
        ),
    ] = _named("retries.wait.ms", 1000)
    retries_max_wait_ms: Annotated[
        int, Meta(description="longest wait before any retry, in milliseconds", ge=0, le=60_000)
    ] = _named("retries.max.wait.ms", 20000)
    cache_capacity: Annotated[int, Meta(description="maximum number of schemas in memory", gt=0)] = _named(
        "cache.capacity", 1000
    )

    @property
    def one_writer(self) -> bool:
        """Whether new schemas are written to a file: then only one encoder at a time may use these options."""
        return self.schema_registry is not None and not self.schema_registry.startswith(("http://", "https://"))


@dataclass(frozen=True, slots=True)
class Stores:
    """Access to data outside the records, for decoders and encoders, as plain functions.

    Attributes:
        get_body: name of a claim-check file -> its bytes; None if no store is configured.
        put_body: stores the bytes of a claim-check file under its name; None if no store is configured.
        get_schema: id -> the text of the schema. Raises LookupError if the schema registry does not have the id,
            SchemaRegistryError if it cannot be reached.
        register_schema: (subject, text) -> id; a text that is registered already keeps its id. Raises SchemaRegistryError
            if the schema registry refuses it or cannot be reached.
    """

    get_body: Callable[[str], bytes] | None = None
    put_body: Callable[[str, bytes], None] | None = None
    get_schema: Callable[[int], str] | None = None
    register_schema: Callable[[str, str], int] | None = None


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One record, as the argument of `Protocol.recognize` and `Protocol.likely`."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The parts of an event that the protocol carries, and its guarantees; the loss table is made from this.

    Attributes:
        carries: the keys of `model.keys.KEYS` that a foreign event still has after it was encoded and decoded.
        provides: keys that the producer's own records have, but foreign events never get.
        requires: key -> another key, without which an event loses it: some protocols mark an update only by its old row.
        cuts: how to know that everything up to some point was sent: `marks` in every partition (resolved events, or
            heartbeats with a sequence), complete `transactions`, or `nothing`.
        missing_commit_ts: some rows have neither commit_ts nor sequence; it is estimated from the records around them.
        headers: whether the protocol uses record headers.
        fragments: an event may span several records; the decoder is a `FragmentDecoder`.
        key_only: a row that is too large may be sent with only its key, and `ohk` in its origin.
        broadcast: a schema change, or a resolved event at or above it, is sent to every partition of its topic, after all
            earlier rows of its tables. Otherwise each partition is in order.
        ddl_in_first: with `broadcast`, a schema change itself is in partition 0 alone: a row of another partition may be read
            before a schema change that it follows.
        uncaptured_ddl: there may be schema changes of tables whose rows are not sent, because the producer does not capture them.
        session_database: the database of a schema change is that of the session that executed it; otherwise it may be that of a
            table that the statement names.
        binlog_places: every commit_ts is a place in a binlog, although cuts are not made from transactions.
        copies_again: the source can copy a table again on request, see `sources.copies`.
        restored_ddl: the upstream is TiDB. It generated the text of the schema changes from its parsed form, see
            `mysql.ddl.parse`; and each row of a transaction is sent in its final state, in any order, see `stages.latest`.
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
    ddl_in_first: bool = False
    restored_ddl: bool = False
    uncaptured_ddl: bool = False
    session_database: bool = False
    binlog_places: bool = False
    copies_again: bool = False

    @property
    def ops(self) -> frozenset[str]:
        """The ops that the protocol distinguishes."""
        return frozenset(key.removeprefix("op.") for key in self.carries if key.startswith("op."))

    @property
    def schema_changes(self) -> bool:
        """Whether the protocol has schema changes."""
        return "schema" in self.carries

    @property
    def resolved(self) -> bool:
        """Whether the protocol has resolved events."""
        return "resolved" in self.carries

    @property
    def transactions(self) -> bool:
        """Whether the protocol has events for the begin and end of transactions."""
        return "transaction-mark" in self.carries

    @property
    def heartbeats(self) -> bool:
        """Whether the producer sends heartbeats."""
        return "heartbeat" in self.carries

    @property
    def cut_key(self) -> str | None:
        """The key in `model.keys.KEYS` that the protocol's cuts require; None without cuts."""
        return {"marks": "resolved" if self.resolved else "checkpoint", "transactions": "transaction-mark"}.get(
            self.cuts
        )


@dataclass(frozen=True, slots=True)
class Form:
    """The form of record values under some options; the benchmarks measure each form.

    Attributes:
        name: empty for the usual form.
        options: options of a producer that sends many rows; the others have their defaults.
        values: the format of values, which decides the library that the benchmark compares with.
    """

    name: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    values: Literal["json", "framed json", "avro", "protobuf"] = "json"


@dataclass(frozen=True, slots=True)
class KernelTwin:
    """The class of the Rust kernel that decodes the protocol's rows exactly as the protocol's decoder does.

    Attributes:
        call: options -> name of the class, and its keyword arguments; None if it does not support these options.
        topics: whether a shape is registered for one topic, and `decode` gets the records' topics.
        headers: whether `decode` gets the records' headers.
        record_groups: whether records are grouped before they are decoded, by a `codec.record_groups.GroupDecoder`.
    """

    call: Callable[[Any], tuple[str, Mapping[str, Any]] | None]
    topics: bool = False
    headers: bool = False
    record_groups: bool = False


@dataclass(frozen=True, slots=True)
class Protocol:
    """A change protocol: its decoder, encoder, options and capabilities.

    Attributes:
        ticdc_names: names of the protocol in a TiCDC sink URI; empty if TiCDC does not write it.
        aliases: other names that people try; the error for such a name suggests this protocol.
        reasons: reasons of dead letters that only this protocol has -> their meaning, for the page of errors.
        forms: the forms of its record values.
        capabilities: the maximum capabilities; `capabilities_of` returns those with some options.
        redefine: converts values to the types that DDL defines, by the protocol's options; None if records declare
            their types.
        carries: options -> keys that are carried with them; None if options make no difference.
        variants: options with which more or less is carried than with the defaults, for the loss table and its tests.
        self_describing: whether the decoder sees in the records what they carry, independently of its options.
        verbatim: whether events that were read from the protocol are written unchanged, independently of the options.
        kernel: the corresponding class of the Rust kernel; None if only the decoder can read the protocol.
        recognize: record -> why it seems to be of this protocol, None if it does not. A quick test, not a proof.
        likely: record of this protocol -> options that its bytes show.
        fixed_topics: options -> the topics whose records all go to partition 0, if each other record goes to the partition that
            Kafka's default partitioner gives its key; None if the encoder chooses the partitions.
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
    recognize: Callable[[SampleRecord], str | None] | None = None
    likely: Callable[[SampleRecord], Mapping[str, str]] | None = None
    fixed_topics: Callable[[Any], frozenset[str]] | None = None

    def capabilities_of(self, options: Options) -> Capabilities:
        """Returns the capabilities with these options."""
        if self.carries is None:
            return self.capabilities
        return replace(self.capabilities, carries=self.carries(options))

    def read_options(self, values: Mapping[str, Any]) -> Options:
        """Validates options and returns them; values may be strings, as from a command line or a URI.

        Raises:
            ConfigError: an option is unknown, and the message names the nearest one; or its value is invalid.
        """
        return option_values.read(self.name, self.options, values)
