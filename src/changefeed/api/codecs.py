"""Decoders and encoders by protocol name: `decoder` and `encoder` of `import changefeed`.

Options have the names that the producer gives them, such as `time-zone`; in Python, `time_zone` is the same option.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from changefeed.api.dispatchers import with_rules
from changefeed.codec.decoding import decoder as build_decoder
from changefeed.codec.encoding import encoder as build_encoder
from changefeed.errors import ConfigError
from changefeed.model import change
from changefeed.model.batch import Decoded
from changefeed.model.change import Event
from changefeed.model.record import Record, Records, batch_of, records_of
from changefeed.protocols import protocol as protocol_named
from changefeed.protocols.base import ClosingEncoder, Options, unfinished
from changefeed.redaction import remember
from changefeed.stores import stores_of


class Decoder:
    """Decodes one stream of records to changes. Remembers table shapes between calls, so use one decoder per thread.

    Attributes:
        protocol: the protocol's name.
        records: number of records that have been passed to it so far.
    """

    def __init__(self, protocol: str, options: Mapping[str, Any]) -> None:
        chosen = read_options(protocol, options)
        self.protocol = protocol
        self.records = 0
        self._decoder = build_decoder(protocol, chosen, stores_of(chosen))

    def __call__(self, records: Records) -> Decoded:
        """Decodes records.

        Args:
            records: an Arrow `RecordBatch` or `Table` with the columns of Spark's Kafka source (`key`, `value`, `topic`,
                `partition`, `offset`, `timestamp`, `timestampType`, `headers`; `key` and `value` suffice), or an iterable of
                `Record`s, tuples with the fields of `Record`, or dicts with its field names.

        Returns:
            Row changes by table, other events, and dead letters. A record that cannot be decoded is a dead letter and
            raises no error.

        Raises:
            SchemaError: an element of `records` is not a record.
            SourceError: a claim-check file cannot be read.
            SchemaRegistryError: the schema registry cannot be reached.
        """
        batch = batch_of(records, self.records)
        self.records += len(batch)
        return self._decoder.decode(batch)

    def finish(self) -> Decoded:
        """Ends the input: returns a dead letter for each record of an event that is incomplete. None for most protocols."""
        return Decoded(dead=unfinished(self._decoder, self.protocol))

    def __repr__(self) -> str:
        return f"<changefeed decoder of {self.protocol}, {self.records:,} records so far>"


class Encoder:
    """Encodes changes to one stream of records. Remembers table shapes between calls, so use one encoder per thread.

    Attributes:
        protocol: the protocol's name.
    """

    def __init__(self, protocol: str, options: Mapping[str, Any]) -> None:
        chosen = read_options(protocol, options)
        self.protocol = protocol
        self._encoder = build_encoder(protocol, chosen, stores_of(chosen))

    def __call__(self, changes: Decoded | Iterable[Event]) -> list[Record]:
        """Encodes changes to records; leaves out dead letters among them.

        Args:
            changes: the result of a decoder, or events in order.

        Raises:
            UnsupportedError: the protocol cannot carry one of the events; the message names it.
            SchemaError: a value does not fit its column.
        """
        parts = [changes] if isinstance(changes, Decoded) else change.decoded(changes)
        return [record for part in parts for record in records_of(self.encode(part))]

    def encode(self, changes: Decoded) -> pa.RecordBatch:
        """Encodes changes to an Arrow batch of records.

        Args:
            changes: what a decoder returns for a batch of records.

        Returns:
            A batch with the columns of Spark's Kafka source: key, value, topic, partition, offset, timestamp, headers.

        Raises:
            UnsupportedError: the protocol cannot carry one of the events; the message names it.
        """
        return self._encoder.encode(changes)

    def finish(self) -> list[Record]:
        """Ends the output: returns the last records, which some protocols send after the last change."""
        return [record for batch in self.last() for record in records_of(batch)]

    def last(self) -> Iterator[pa.RecordBatch]:
        """Ends the output as `finish` does; the records are in Arrow batches."""
        if isinstance(self._encoder, ClosingEncoder):
            yield self._encoder.finish()

    def __repr__(self) -> str:
        return f"<changefeed encoder of {self.protocol}>"


def decoder(protocol: str, **options: Any) -> Decoder:
    """Returns a decoder of a protocol. It uses the Rust kernel if that is installed and supports the protocol.

    Args:
        protocol: the protocol's name; `list_protocols` returns all names.
        **options: options of the protocol, by the producer's names with `_` for `-`: `time_zone="Asia/Shanghai"`.

    Raises:
        ConfigError: the protocol or an option is unknown, or an option's value does not fit.

    Example:
        >>> import changefeed as cf
        >>> cf.decoder("ticdc-open", time_zone="Asia/Shanghai")
        <changefeed decoder of ticdc-open, 0 records so far>
    """
    return Decoder(protocol, options)


def encoder(protocol: str, **options: Any) -> Encoder:
    """Returns an encoder of a protocol. It uses the Rust kernel if that is installed and supports the protocol.

    Args:
        protocol: the protocol's name; `list_protocols` returns all names.
        **options: options of the protocol, by the producer's names with `_` for `-`.

    Raises:
        ConfigError: the protocol or an option is unknown, or an option's value does not fit.
    """
    return Encoder(protocol, options)


def read_options(protocol: str, options: Mapping[str, Any]) -> Options:
    """Validates the options of a protocol; reads the dispatch rules from a file if an option names one.

    Args:
        protocol: the protocol's name.
        options: the options by the producer's names, such as `time-zone`, or by Python's, such as `time_zone`.

    Raises:
        ConfigError: the protocol or an option is unknown, or an option's value does not fit.
    """
    return protocol_named(protocol).read_options(with_rules(by_producer(protocol, options)))


def by_producer(protocol: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Renames options to the producer's names: `time_zone` to `time-zone`. Later messages show none of their secrets."""
    fields = msgspec.structs.fields(protocol_named(protocol).options)
    python = {field.name: field.encode_name for field in fields}
    renamed: dict[str, Any] = {}
    for name, value in options.items():
        own = python.get(name, name)
        if own in renamed:
            raise ConfigError(f"option {own} is set twice")
        renamed[own] = str(value) if isinstance(value, Path) else value
        remember(own, value)
    return renamed
