"""Sets of row numbers as bytes: the deletion vectors of Delta and Iceberg, without what each format puts around them.

Row numbers count from 0 in the order of the file. The Delta protocol calls the set `RoaringBitmapArray`; its portable form is the
64-bit form of the Roaring format, which pyroaring reads and writes:

    little-endian    int32            int64           for each bitmap, in rising order of its number
                     ┌────────────┬────────────────┬──────────────────────────┬──────────────────────────────┐
    vector           │ 1681511377 │ count of       │ number: int32, the high  │ 32-bit bitmap: the low half  │
                     │ magic      │ bitmaps        │ half of the row numbers  │ of the row numbers           │
                     └────────────┴────────────────┴──────────────────────────┴──────────────────────────────┘
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from changefeed.errors import MissingExtraError
from changefeed.sinks.apply.layout import RowNumbers

_MAGIC = struct.pack("<i", 1681511377)


def is_installed() -> bool:
    """Whether pyroaring is installed."""
    try:
        _bitmap()
    except MissingExtraError:
        return False
    return True


def encoded(rows: RowNumbers) -> bytes:
    """Encodes row numbers as a vector."""
    bitmap = _bitmap()(rows.astype(np.uint64))
    bitmap.run_optimize()
    return _MAGIC + bytes(bitmap.serialize())


def decoded(vector: bytes) -> RowNumbers:
    """Decodes a vector to its row numbers, in ascending order.

    Raises:
        ValueError: the bytes are not a vector.
    """
    if vector[:4] != _MAGIC:
        raise ValueError(f"begins with {vector[:4]!r}, not with the magic number of a portable bitmap array")
    kind = _bitmap()
    bitmap = kind.deserialize(vector[4:])
    return np.frombuffer(bitmap.to_array(), np.uint64).astype(np.int64)


def _bitmap() -> Any:
    try:
        from pyroaring import BitMap64
    except ImportError as error:
        raise MissingExtraError("Deletion vectors", "spark") from error
    return BitMap64
