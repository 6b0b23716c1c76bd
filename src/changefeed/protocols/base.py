"""What a protocol is: options, a decoder, an encoder, and what it can carry.

A protocol is a folder here and a line in `PROTOCOLS`. Its `__init__.py` has one `PROTOCOL: Protocol`. Decoders and
encoders do no I/O: whatever lies outside the record (a claim-check body, a registered schema) comes through `Stores`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from typing import Protocol as Interface

import msgspec
import pyarrow as pa

from changefeed.errors import ConfigError, unknown_name
from changefeed.model.batch import Decoded
from changefeed.model.types import ColumnType


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


@dataclass(frozen=True, slots=True)
class Stores:
    """What decoders and encoders may need from outside a record, as plain functions.

    Attributes:
        get_body: name of a claim-check file -> its bytes; None when no store is configured.
        put_body: the same way out.
    """

    get_body: Callable[[str], bytes] | None = None
    put_body: Callable[[str, bytes], None] | None = None


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
    """One of the languages in which changes are spoken.

    Attributes:
        redefine: (type told, type defined) -> the function that takes ready values of the one to the other, where a
            better definition than the protocol's own (DDL) gives them another meaning; None where it never does.
    """

    name: str
    title: str
    capabilities: Capabilities
    options: type[Options]
    decoder: Callable[[Any, Stores], Decoder]
    encoder: Callable[[Any, Stores], Encoder]
    notes: Mapping[str, str] = field(default_factory=dict)
    redefine: Callable[[ColumnType, ColumnType], Callable[[Any], Any]] | None = None

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
