"""Computes the row checksum: CRC-32 (IEEE) over the values of the new row in sequence, without names and separators.

    NULL                                       nothing
    integers, YEAR, BIT, ENUM index, SET mask  8 bytes, little-endian, two's complement
    FLOAT, DOUBLE                              8 bytes, little-endian double; NaN and infinities as 0
    text and binary kinds                      length as uint32, little-endian, then the bytes
    DATE, DATETIME, TIME, DECIMAL, JSON        the same over what MySQL prints
    TIMESTAMP                                  the same, in UTC whatever the producer's zone
    VECTOR                                     dimension as uint32, then each float32, little-endian

The order is that of the fields. classic sorts them by column id, newarch keeps the order of the table; after ADD COLUMN …
FIRST the two differ, so a checksum that does not match is not a proof of damage.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from typing import Any
from zlib import crc32

from changefeed.model import values as model
from changefeed.model.table import Column
from changefeed.model.types import BINARIES, INTEGERS, ColumnType

_UINT64 = 2**64


def checksum(columns: Iterable[Column], image: Mapping[str, Any], irregular: Mapping[str, bytes]) -> int | None:
    """Returns the checksum of a row; None if the value of an enum or set is not a member of its type."""
    total = 0
    for column in columns:
        value = image[column.name]
        if value is None and column.name in irregular:
            data: bytes | None = _sized(irregular[column.name])
        else:
            data = b"" if value is None else _bytes(value, column.type)
        if data is None:
            return None
        total = crc32(data, total)
    return total


def _bytes(value: Any, t: ColumnType) -> bytes | None:
    name = t.name
    if name in INTEGERS or name in ("year", "bit", "boolean"):
        return _integer(int(value))
    if name in ("enum", "set"):
        return _members(value, t)
    if name in ("float", "double"):
        return struct.pack("<d", value if math.isfinite(value) else 0.0)
    if name in BINARIES:
        return _sized(value)
    if name == "vector":
        return struct.pack(f"<I{len(value)}f", len(value), *value)
    if name == "timestamp":
        return _sized(model.write_datetime(value, t.length or 0).encode())
    text = model.writer(t)(value)
    return _sized(text.encode("utf-8", "surrogatepass"))


def _integer(value: int) -> bytes:
    return (value % _UINT64).to_bytes(8, "little")


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data


def _members(value: str, t: ColumnType) -> bytes | None:
    places = {member: place for place, member in enumerate(t.members or ())}
    names = [value] if t.name == "enum" else value.split(",") if value else []
    if any(name not in places for name in names):
        return None
    if t.name == "enum":
        return _integer(places[value] + 1)
    return _integer(sum(1 << places[name] for name in names))
