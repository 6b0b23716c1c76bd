"""Records to measure with: rows of an orders table in Open Protocol, deterministic from a seed, about 440 bytes a value.

Half of them come as the classic producer writes them, half as the new architecture does. One row in ten is an update,
with both images; one in a hundred has NULLs, an escape or a character beyond ASCII.
"""

from __future__ import annotations

import random
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from changefeed.model.batch import RECORDS

TOPIC = "orders"
_START_MS = 1_767_225_600_000
_NAMES = ("Ada Lovelace", "Łukasz Nowak", "O'Hara & Sons", 'Anna "Q" Berg', "北京 Trading", "plain customer")


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    members: str

    def write(self, value: str) -> str:
        return f'"{self.name}":{{{self.members},"v":{value}}}'


_TABLE = (
    _Column("id", '"t":8,"h":true,"f":139'),
    _Column("customer_id", '"t":8,"f":1'),
    _Column("status", '"t":247,"f":0'),
    _Column("total", '"t":246,"f":65'),
    _Column("customer", '"t":15,"f":64'),
    _Column("note", '"t":252,"f":64'),
    _Column("placed", '"t":10,"f":1'),
    _Column("updated", '"t":7,"f":65'),
    _Column("weight", '"t":5,"f":65'),
    _Column("qty", '"t":3,"f":129'),
)
