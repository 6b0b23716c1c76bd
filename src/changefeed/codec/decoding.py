"""Decoders by a protocol's name: the Rust kernel with the reference as its fallback, or the reference alone.

Rule 1. The protocol declares which class of the kernel decodes it, and with which arguments (`KernelTwin`).
Rule 2. Everything works without the kernel, but slower; this is logged once as a warning.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Mapping
from importlib import import_module, metadata
from types import MappingProxyType
from typing import Any, Literal

from changefeed.codec.defects import guarded
from changefeed.codec.kernel_decoder import Kernel, KernelDecoder
from changefeed.codec.record_groups import GroupKernelDecoder
from changefeed.errors import ConfigError
from changefeed.protocols import protocol
from changefeed.protocols.base import Decoder, KernelTwin, Options, Stores


def _installed() -> Any:
    try:
        return import_module("changefeed_kernel")
    except ModuleNotFoundError:
        return None


changefeed_kernel = _installed()
_log = logging.getLogger(__name__)
_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


def decoder(
    name: str,
    options: Mapping[str, Any] | Options = _NO_OPTIONS,
    stores: Stores | None = None,
    *,
    kernel: Literal["auto", "on", "off"] = "auto",
) -> Decoder:
    """Returns the decoder of a protocol: kernel and reference if the kernel supports it, else the reference alone.

    Args:
        name: the protocol's name.
        options: the protocol's `Options`, or a mapping to validate as such.
        stores: access to data outside the records, such as claim-check bodies.
        kernel: `off` uses the reference alone; `on` fails if the kernel is not available, `auto` falls back.

    Raises:
        ConfigError: protocol or options are unknown, or the kernel is `on` and not installed.
    """
    chosen = protocol(name)
    checked = options if isinstance(options, Options) else chosen.read_options(options)
    reference = functools.partial(chosen.decoder, checked, stores or Stores())
    twin = chosen.kernel
    make = kernel_of(twin, checked) if twin is not None and kernel != "off" else None
    if twin is None or make is None or changefeed_kernel is None:
        if kernel == "on":
            why = f"is not installed: {how_to_install()}" if make else f"has no decoder for {name} with these options"
            raise ConfigError(f"the kernel {why}")
        if make is not None:
            _warn_slow()
        return guarded(name, reference())
    return (GroupKernelDecoder if twin.record_groups else KernelDecoder)(name, reference(), twin, make)


def kernel_of(twin: KernelTwin, options: Options) -> Callable[[], Kernel] | None:
    """Returns a function that builds the kernel's decoder; None if the kernel does not support these options."""
    call = twin.call(options)
    if call is None:
        return None
    name, arguments = call
    return lambda: getattr(changefeed_kernel, name)(**arguments)


def how_to_install() -> str:
    """Returns how to install the kernel: its wheel if this is a release, whose metadata requires it, else from a checkout."""
    try:
        required = metadata.requires("changefeed") or []
    except metadata.PackageNotFoundError:
        required = []
    for requirement in required:
        if match := re.match(r"changefeed-kernel==[^\s;]+", requirement):
            return f"run `pip install {match[0]}`"
    return "run `pip install ./kernel` in a checkout of changefeed (needs cargo)"


@functools.cache
def _warn_slow() -> None:
    _log.warning("the kernel is not installed, decoding in Python is about 100 times slower: %s", how_to_install())
