"""The lines of a file, decompressed according to its name, in bounded memory."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from changefeed.errors import SourceError

_BUFFER = 1 << 20
_INFLATED = 1 << 16  # bytes decompressed at once; if a stream is truncated, the last of these are lost
MAX_LINE_BYTES = (
    3 << 27
)  # 384 MiB: the largest Kafka record that TiCDC allows by default is 256, which base64 makes 342
_PIECE = 1 << 20
_COMPRESSION = {".gz": "gzip", ".zst": "zstd"}


def compression(path: Path) -> str | None:
    """The compression according to the file's name, by Arrow's name for it."""
    return _COMPRESSION.get(path.suffix)


def lines(path: Path, at: int = 0) -> Iterator[bytes]:
    """The lines from byte `at` on, each with its line feed; the last line may have none.

    Raises:
        SourceError: the file cannot be opened or read, is truncated, or has a line of more than 384 MiB.
    """
    read = 0
    try:
        with _open(path, at) as file:
            while piece := file.readline(_PIECE):
                line = piece if len(piece) < _PIECE or piece[-1:] == b"\n" else _whole(file, piece)
                if line is None or len(line) > MAX_LINE_BYTES:
                    raise SourceError(
                        f"{path}: the line of record {read} after the start of this read has more than {MAX_LINE_BYTES} bytes"
                    )
                yield line
                read += 1
    except FileNotFoundError as error:
        raise SourceError(f"{path} does not exist") from error
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}; {read} records could be read before that") from error


def _whole(file: BinaryIO, first: bytes) -> bytes | None:
    """A long line, or None if it is too long; at most the limit is read."""
    pieces, size = [first], len(first)
    while pieces[-1][-1:] != b"\n" and (piece := file.readline(_PIECE)):
        size += len(piece)
        if size > MAX_LINE_BYTES:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def _open(path: Path, at: int) -> BinaryIO:
    codec = compression(path)
    if codec is not None:
        return io.BufferedReader(pa.input_stream(str(path), compression=codec), _INFLATED)
    file = path.open("rb", buffering=_BUFFER)
    if at:
        file.seek(at)
    return file
