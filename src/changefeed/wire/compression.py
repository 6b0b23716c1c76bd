"""Compressed message values: `snappy` is the raw block format, `lz4` the frame format (magic 04 22 4d 18).

A message does not declare its compression; only LZ4 has magic bytes, with which no JSON text begins. The inflated size is
limited before anything is inflated. The compressed bytes are the same as those of the producers' libraries: a compressor
is free to choose its matches, and C libraries choose different ones.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from changefeed.errors import ConfigError, ProtocolError
from changefeed.wire import lz4_frame, snappy_block

COMPRESSIONS = ("none", "snappy", "lz4")
_CHUNK = 1 << 20
_SNAPPY_RATIO = 22  # three bytes expand to 64 at most
_SNAPPY_HEAD = 10  # maximum number of bytes before the first literal: the sizes of the text and of the literal


def check_available(name: str) -> None:
    """Checks that this installation can read the compression.

    Raises:
        ConfigError: pyarrow was built without it.
    """
    if name != "none" and not pa.Codec.is_available(name):
        raise ConfigError(f"this pyarrow was built without {name}: pip install --force-reinstall pyarrow")


def inflate(data: bytes, name: str, limit: int) -> bytes:
    """Decompresses a message; LZ4 is recognized by its magic bytes, also if `name` is another compression.

    Raises:
        ProtocolError: the bytes cannot be decompressed, or have more than `limit` bytes decompressed.
    """
    if data.startswith(lz4_frame.MAGIC):
        name = "lz4"
    return _INFLATE[name](data, limit)


def guessed(data: bytes, opening: bytes) -> str:
    """Guesses the compression of a text that begins with `opening`; `none` if the bytes do not show one."""
    if data.startswith(lz4_frame.MAGIC):
        return "lz4"
    return "snappy" if not data.startswith(opening) and opening in data[: len(opening) + _SNAPPY_HEAD] else "none"


def deflate(data: bytes, name: str) -> bytes:
    """Compresses a message with the codec `none`, `snappy` or `lz4`."""
    return _DEFLATE[name](data)


def _lz4(data: bytes, limit: int) -> bytes:
    if not data:
        raise _broken("lz4", "the value is empty")
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "lz4") as stream:
            inflated = bytearray()
            while chunk := stream.read(_CHUNK):
                inflated += chunk
                _within(len(inflated), limit)
    except (OSError, pa.ArrowException) as error:
        raise _broken("lz4", str(error)) from error
    return bytes(inflated)


def _snappy(data: bytes, limit: int) -> bytes:
    size, shift, at = 0, 0, 0
    while True:  # the block opens with its inflated size, seven bits a byte
        if at == len(data) or shift > 28:
            raise _broken("snappy", "no length in front")
        size |= (data[at] & 0x7F) << shift
        if data[at] < 0x80:
            break
        at, shift = at + 1, shift + 7
    _within(size, limit)
    if size > _SNAPPY_RATIO * len(data):
        raise _broken("snappy", f"{len(data)} bytes cannot grow to {size}")
    try:
        return bytes(pa.Codec("snappy").decompress(data, decompressed_size=size, asbytes=True))
    except (OSError, pa.ArrowException) as error:
        raise _broken("snappy", str(error)) from error


def _within(size: int, limit: int) -> None:
    if size > limit:
        raise ProtocolError(f"value inflates to more than {limit} bytes", reason="too-large")


def _broken(name: str, why: str) -> ProtocolError:
    message = f'value is not {name} ({why.rstrip(".")}). Is "large-message-handle-compression" right?'
    return ProtocolError(message, reason="bad-compression")


_INFLATE: dict[str, Callable[[bytes, int], bytes]] = {
    "none": lambda data, limit: data,
    "snappy": _snappy,
    "lz4": _lz4,
}
_DEFLATE: dict[str, Callable[[bytes], bytes]] = {
    "none": lambda data: data,
    "snappy": snappy_block.compress,
    "lz4": lz4_frame.compress,
}
