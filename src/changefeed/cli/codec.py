"""Decoders and encoders from what a command line says."""

from __future__ import annotations

from collections.abc import Mapping

from changefeed.cli.startup import without_pandas
from changefeed.kernel import decoder as build_decoder
from changefeed.protocols import protocol
from changefeed.protocols.base import Decoder, Encoder, Options, Stores
from changefeed.stores import stores

without_pandas()


def decoder(name: str, given: Mapping[str, str]) -> Decoder:
    """The decoder of the protocol `name`; with the kernel where it is compiled in.

    Raises:
        ConfigError: the protocol or an option is unknown, or an option's value does not fit.
    """
    options = protocol(name).read_options(given)
    return build_decoder(name, options, _stores(options))


def encoder(name: str, given: Mapping[str, str]) -> Encoder:
    """The encoder of the protocol `name`; raises as `decoder` does."""
    chosen = protocol(name)
    options = chosen.read_options(given)
    return chosen.encoder(options, _stores(options))


def _stores(options: Options) -> Stores:
    uri = getattr(options, "claim_check_storage_uri", None)
    return Stores() if uri is None else stores(uri, options.claim_check_max_bytes)  # type: ignore[attr-defined]
