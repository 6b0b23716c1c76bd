"""Decoders and encoders from what a command line says."""

from __future__ import annotations

from collections.abc import Mapping

from changefeed.cli.dispatchers import with_rules
from changefeed.cli.startup import without_pandas
from changefeed.kernel import decoder as build_decoder
from changefeed.protocols import protocol
from changefeed.protocols.base import Decoder, Encoder
from changefeed.stores import stores_of

without_pandas()


def decoder(name: str, given: Mapping[str, str]) -> Decoder:
    """The decoder of the protocol `name`; with the kernel where it is compiled in.

    Raises:
        ConfigError: the protocol or an option is unknown, or an option's value does not fit.
    """
    options = protocol(name).read_options(with_rules(given))
    return build_decoder(name, options, stores_of(options))


def encoder(name: str, given: Mapping[str, str]) -> Encoder:
    """The encoder of the protocol `name`; raises as `decoder` does."""
    chosen = protocol(name)
    options = chosen.read_options(with_rules(given))
    return chosen.encoder(options, stores_of(options))
