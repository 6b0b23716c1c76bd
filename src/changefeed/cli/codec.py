"""Decoders and encoders, built from the options of a command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from changefeed import record_log
from changefeed.cli.dispatchers import with_rules
from changefeed.cli.startup import without_pandas
from changefeed.codec.decoding import decoder as build_decoder
from changefeed.codec.encoding import encoder as build_encoder
from changefeed.model.batch import Decoded
from changefeed.protocols import protocol
from changefeed.protocols.base import ClosingEncoder, Decoder, Encoder, Options, unfinished
from changefeed.stores import stores_of

without_pandas()


def options(name: str, values: Mapping[str, str]) -> Options:
    """The options of the protocol `name`, with the dispatch rules of the file that `dispatchers` names.

    Raises:
        ConfigError: the protocol or an option is unknown, or the value of an option is not valid.
    """
    return protocol(name).read_options(with_rules(values))


def decoder(name: str, values: Mapping[str, str]) -> Decoder:
    """The decoder of the protocol `name`, with the kernel if it is installed; raises as `options` does."""
    chosen = options(name, values)
    return build_decoder(name, chosen, stores_of(chosen))


def encoder(name: str, values: Mapping[str, str]) -> Encoder:
    """The encoder of the protocol `name`, with the kernel if it can write this protocol; raises as `options` does."""
    chosen = options(name, values)
    return build_encoder(name, chosen, stores_of(chosen))


def decode(logs: Iterable[Path], decoder: Decoder, name: str) -> Iterator[tuple[Decoded, int]]:
    """Decoded batches of the logs, each with its number of records.

    Fragments that are incomplete at the end of the last log become dead letters.
    """
    for log in logs:
        for records in record_log.read(log):
            yield decoder.decode(records), len(records)
    if letters := unfinished(decoder, name):
        yield Decoded(dead=letters), 0


def finish(encoder: Encoder) -> Iterator[pa.RecordBatch]:
    """The records that the encoder still holds after the last change."""
    if isinstance(encoder, ClosingEncoder):
        yield encoder.finish()
