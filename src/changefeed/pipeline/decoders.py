"""Decoders of JSON documents by type, each built once.

msgspec collects what it needs about a class when a type is decoded first. Two threads that do this for the same class at one time
can end the process with a segmentation fault (seen with msgspec 0.22), so decoders are built one after the other.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar, cast

import msgspec

_T = TypeVar("_T")

_decoders: dict[type, msgspec.json.Decoder[Any]] = {}
_building = threading.Lock()


def decoder_of(kind: type[_T]) -> msgspec.json.Decoder[_T]:
    """Returns the decoder of a type; any number of threads may use it."""
    decoder = _decoders.get(kind)
    if decoder is None:
        with _building:
            decoder = _decoders.get(kind)
            if decoder is None:
                decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return cast("msgspec.json.Decoder[_T]", decoder)
