"""Records of TiCDC's Open Protocol of one small table, for Kafka."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.services.kafka import Record


def row(ts: int, id: int, partition: int = 0, table: str = "t") -> Record:
    """An insert into d.t, or into another table of d."""
    key = _framed(json.dumps({"ts": ts, "scm": "d", "tbl": table, "t": 1}).encode())
    value = _framed(json.dumps({"u": {"id": {"t": 8, "h": True, "f": 11, "v": id}}}).encode())
    return (1).to_bytes(8, "big") + key, value, [], partition


def mark(ts: int, *partitions: int) -> list[Record]:
    """A resolved event on each of these partitions, or on the first."""
    key = (1).to_bytes(8, "big") + _framed(json.dumps({"ts": ts, "t": 3}).encode())
    return [(key, b"", [], partition) for partition in partitions or (0,)]


def _framed(value: bytes) -> bytes:
    return len(value).to_bytes(8, "big") + value
