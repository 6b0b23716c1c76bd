"""Reads and writes deletion vectors: which rows of a data file are no longer part of a table.

`bitmaps.py` encodes the row numbers of a vector. The entry of a data file in the log has a descriptor of its vector, which is in
a file beside the data files (`storageType` "u"; `pathOrInlineDv` ends with 20 characters of Z85, the UUID in the file's name; the
characters before are a folder):

    deletion_vector_<UUID>.bin        big-endian
    ┌─────────┬────────────────┬──────────┬────────────────┬────────────────┬──────────┬───┐
    │ version │ size of the    │ vector 1 │ CRC-32 of      │ size of the    │ vector 2 │   │
    │ 1, int8 │ vector, int32  │          │ the vector     │ vector, int32  │          │ … │
    └─────────┴────────────────┴──────────┴────────────────┴────────────────┴──────────┴───┘
               ▲ `offset` of vector 1                       ▲ `offset` of vector 2

`sizeInBytes` is the size of the vector only. `storageType` "p" is like "u", with a full path. "i" is a vector in the log
itself: `pathOrInlineDv` is the vector in Z85, padded with zeros to a multiple of 4. These are read but never written: VACUUM of
Delta 4.4.0 fails on a table that has one (`scala.MatchError` in `getDeletionVectorRelativePathAndSize`).
"""

from __future__ import annotations

import base64
import posixpath
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from changefeed.errors import SinkError
from changefeed.sinks.apply.bitmaps import decoded
from changefeed.sinks.apply.layout import RowNumbers
from changefeed.sinks.ways_out import TABLE_DAMAGED
from changefeed.storage import Folder
from changefeed.storage.local import LocalFolder

_FRAME = 8  # bytes around a vector: its size and its checksum
_VERSION = b"\x01"
_UUID_CHARACTERS = 20
# The same digits by their value: of RFC 1924, which Python's base64 has, and of Z85.
_RFC_1924 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85, _FROM_Z85 = bytes.maketrans(_RFC_1924, _Z85), bytes.maketrans(_Z85, _RFC_1924)

Descriptor = Mapping[str, Any]


def in_a_file(vectors: Sequence[tuple[bytes, int]]) -> tuple[str, bytes, list[dict[str, Any]]]:
    """Builds a file of (vector, number of rows) pairs; returns its name, its bytes, and the descriptor of each vector."""
    identifier = uuid.uuid4()
    content, descriptors = bytearray(_VERSION), []
    for vector, count in vectors:
        place = {"offset": len(content), "sizeInBytes": len(vector), "cardinality": count}
        descriptors.append({"storageType": "u", "pathOrInlineDv": z85(identifier.bytes), **place})
        content += struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    return _name(identifier), bytes(content), descriptors


def end_of(descriptor: Descriptor) -> int:
    """Returns the size that a vector's file has at least, with the vector's size and checksum around it."""
    return int(descriptor.get("offset") or 0) + int(descriptor["sizeInBytes"]) + _FRAME


def path_of(descriptor: Descriptor) -> str | None:
    """Returns the path of a vector's file, relative to the table's folder or absolute; None for a vector in the log.

    Raises:
        ValueError: the descriptor is invalid.
    """
    text = str(descriptor["pathOrInlineDv"])
    match descriptor["storageType"]:
        case "i":
            return None
        case "p":
            return unquote(text).removeprefix("file://")
        case "u":
            identifier = uuid.UUID(bytes=from_z85(text[-_UUID_CHARACTERS:]))
            return posixpath.join(text[:-_UUID_CHARACTERS], _name(identifier))
    raise ValueError(f"storageType is {descriptor['storageType']!r}, not 'i', 'u' or 'p'")


def read(folder: Folder, descriptor: Descriptor) -> RowNumbers:
    """Reads the vector of a descriptor; returns its row numbers.

    Args:
        folder: the table's folder.
        descriptor: the descriptor from the log.

    Raises:
        SinkError: the vector cannot be read.
    """
    path = None
    try:
        path = path_of(descriptor)
        rows = decoded(_stored(folder, path, descriptor) if path else _inline(descriptor))
        if len(rows) != descriptor["cardinality"]:
            raise ValueError(f"holds {len(rows)} rows, not {descriptor['cardinality']}")
    except (OSError, ValueError, LookupError, struct.error, pa.ArrowException, SinkError) as error:
        where = posixpath.join(folder.path, path) if path else folder.path
        raise SinkError(
            f"{where}: a deletion vector of the table cannot be read: {error}. {TABLE_DAMAGED}",
            transient=isinstance(error, SinkError) and error.transient,
        ) from error
    return rows


def _inline(descriptor: Descriptor) -> bytes:
    return from_z85(descriptor["pathOrInlineDv"])[: descriptor["sizeInBytes"]]


def _stored(folder: Folder, path: str, descriptor: Descriptor) -> bytes:
    if path.startswith("/"):  # `storageType` "p": a table that was copied without its files
        folder, path = LocalFolder("/"), path[1:]
    size = int(descriptor["sizeInBytes"])
    ranges = [(0, 1), (int(descriptor.get("offset") or 0), size + _FRAME)]
    version, content = folder.read_ranges(path, ranges)
    if version != _VERSION:
        raise ValueError(f"version is {version!r}, not {_VERSION!r}")
    if struct.unpack(">i", content[:4])[0] != size:
        raise ValueError(f"no vector of {size} bytes begins at byte {descriptor.get('offset')}")
    vector = content[4:-4]
    if zlib.crc32(vector) != struct.unpack(">I", content[-4:])[0]:
        raise ValueError(f"the checksum of the vector at byte {descriptor.get('offset')} is wrong")
    return vector


def z85(data: bytes) -> str:
    """Encodes bytes in Z85, padded with zeros to a multiple of 4."""
    return base64.b85encode(data, pad=True).translate(_TO_Z85).decode()


def from_z85(text: str) -> bytes:
    """Decodes Z85, including the padding that `z85` has added.

    Raises:
        ValueError: the text is not Z85.
    """
    digits = text.encode()
    if len(digits) % 5 or digits.translate(None, _Z85):
        raise ValueError(f"{text!r:.40} is not Z85")
    return base64.b85decode(digits.translate(_FROM_Z85))


def _name(identifier: uuid.UUID) -> str:
    return f"deletion_vector_{identifier}.bin"
