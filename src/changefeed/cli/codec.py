"""Decoders and encoders from what a command line says."""

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


def options(name: str, given: Mapping[str, str]) -> Options:
    """The options of the protocol `name`, with the rules of a file that they name.

    Raises:
        ConfigError: the protocol or an option is unknown, or an option's value does not fit.
    """
    return protocol(name).read_options(with_rules(given))


def decoder(name: str, given: Mapping[str, str]) -> Decoder:
    """The decoder of the protocol `name`, with the kernel where it is compiled in; raises as `options` does."""
    chosen = options(name, given)
    return build_decoder(name, chosen, stores_of(chosen))


def encoder(name: str, given: Mapping[str, str]) -> Encoder:
    """The encoder of the protocol `name`, with the kernel where that can write for it; raises as `options` does."""
    chosen = options(name, given)
    return build_encoder(name, chosen, stores_of(chosen))


def decode(logs: Iterable[Path], decoder: Decoder, name: str) -> Iterator[tuple[Decoded, int]]:
    """What the logs hold, a batch at a time, with the number of its records.

    Records that still wait for their remainder where the last log ends are dead letters.
    """
    for log in logs:
        for records in record_log.read(log):
            yield decoder.decode(records), len(records)
    if letters := unfinished(decoder, name):
        yield Decoded(dead=letters), 0


def finish(encoder: Encoder) -> Iterator[pa.RecordBatch]:
    """The records that an encoder writes when there are no more changes."""
    if isinstance(encoder, ClosingEncoder):
        yield encoder.finish()
