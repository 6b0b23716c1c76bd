"""Decoders and encoders by a protocol's name: `decoder` and `encoder` of `import changefeed`.

Options have the producer's own names, as `time-zone`; in Python calls `time_zone` is the same option.
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
    """Bytes to changes, for one stream of records: it remembers what its records declare. Not shared between threads.

    Attributes:
        protocol: its name.
        records: how many records it has been given so far.
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
                `Record`s, or of tuples or dicts of the same.

        Returns:
            Row changes by table, other events, and dead letters: a record that cannot be decoded raises nothing.

        Raises:
            SchemaError: something in `records` is not a record.
            SourceError, SchemaRegistryError: a claim-check store or a schema registry failed.
        """
        batch = batch_of(records, self.records)
        self.records += len(batch)
        return self._decoder.decode(batch)

    def finish(self) -> Decoded:
        """Dead letters for the records whose remainder never came; nothing for most protocols."""
        return Decoded(dead=unfinished(self._decoder, self.protocol))

    def __repr__(self) -> str:
        return f"<changefeed decoder of {self.protocol}, {self.records:,} records so far>"


class Encoder:
    """Changes to bytes, for one stream of records.

    Attributes:
        protocol: its name.
    """

    def __init__(self, protocol: str, options: Mapping[str, Any]) -> None:
        chosen = read_options(protocol, options)
        self.protocol = protocol
        self._encoder = build_encoder(protocol, chosen, stores_of(chosen))

    def __call__(self, changes: Decoded | Iterable[Event]) -> list[Record]:
        """Encodes changes; dead letters among them are left out.

        Args:
            changes: what a decoder returned, or events in order.

        Raises:
            UnsupportedError: the protocol cannot carry one of them; the message names it.
            SchemaError: a value does not fit its column.
        """
        parts = [changes] if isinstance(changes, Decoded) else change.decoded(changes)
        return [record for part in parts for record in records_of(self.encode(part))]

    def encode(self, changes: Decoded) -> pa.RecordBatch:
        """The same in columns, those of Spark's Kafka source."""
        return self._encoder.encode(changes)

    def finish(self) -> list[Record]:
        """The last records, which some protocols send when there are no more changes."""
        return [record for batch in self.last() for record in records_of(batch)]

    def last(self) -> Iterator[pa.RecordBatch]:
        """The same in columns."""
        if isinstance(self._encoder, ClosingEncoder):
            yield self._encoder.finish()

    def __repr__(self) -> str:
        return f"<changefeed encoder of {self.protocol}>"


def decoder(protocol: str, **options: Any) -> Decoder:
    """A decoder, with the Rust kernel where it is installed and reads the protocol.

    Args:
        protocol: its name; `list_protocols` has them.
        **options: of the protocol, by the producer's own names: `time_zone="Asia/Shanghai"`.

    Raises:
        ConfigError: the protocol or an option is unknown, or an option's value does not fit.

    Example:
        >>> import changefeed as cf
        >>> cf.decoder("ticdc-open", time_zone="Asia/Shanghai")
        <changefeed decoder of ticdc-open, 0 records so far>
    """
    return Decoder(protocol, options)


def encoder(protocol: str, **options: Any) -> Encoder:
    """An encoder, with the Rust kernel where it is installed and writes the protocol.

    Args:
        protocol: its name; `list_protocols` has them.
        **options: of the protocol, by the producer's own names.

    Raises:
        ConfigError: the protocol or an option is unknown, or an option's value does not fit.
    """
    return Encoder(protocol, options)


def read_options(protocol: str, options: Mapping[str, Any]) -> Options:
    """The options of a protocol, checked, with the rules of a file that they name.

    Args:
        protocol: its name.
        options: by the producer's names, or as Python spells them.

    Raises:
        ConfigError: the protocol or an option is unknown, or an option's value does not fit.
    """
    return protocol_named(protocol).read_options(with_rules(by_producer(protocol, options)))


def by_producer(protocol: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by the producer's names: `time-zone` for `time_zone`. Secrets among them are kept out of messages."""
    fields = msgspec.structs.fields(protocol_named(protocol).options)
    python = {field.name: field.encode_name for field in fields}
    renamed: dict[str, Any] = {}
    for name, value in options.items():
        own = python.get(name, name)
        if own in renamed:
            raise ConfigError(f"{own} is given twice")
        renamed[own] = str(value) if isinstance(value, Path) else value
        remember(own, value)
    return renamed
