"""The workload, the same for every protocol: changes of an orders table, generated from a seed.

85 % inserts, 10 % updates with both images, 5 % deletes, with NULLs, escapes and non-ASCII characters. Each protocol's own
encoder writes them.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.base import ClosingEncoder, Form, Stores

_AT_ONCE = 4_000
_FIRST_TS = 463_267_594_595_935_302
_NAMES = ("Ada Lovelace", "Łukasz Nowak", "O'Hara and Sons", 'Anna "Q" Berg', "北京 Trading", "a plain customer")
_TYPES = {
    "id": "bigint",
    "customer": "varchar(100)",
    "status": "enum('new','paid','shipped','cancelled')",
    "total": "decimal(24,4)",
    "note": "text",
    "placed": "date",
    "updated": "timestamp(6)",
    "weight": "double",
    "qty": "int",
}
SHAPE = TableShape(
    "shop",
    "orders",
    tuple(Column(name, ColumnType.parse(text), name != "id", name == "id") for name, text in _TYPES.items()),
)
# Name of a form of a protocol's values -> the protocol's name, and the form.
FORMS: dict[str, tuple[str, Form]] = {
    ", ".join(filter(None, (name, form.name))): (name, form) for name in PROTOCOLS for form in protocol(name).forms
}


@dataclass(frozen=True, slots=True)
class Workload:
    """Records of one form of a protocol.

    Attributes:
        form: a key of `FORMS`.
        schemas: id -> Avro schema.
        rows: number of row changes in the records.
    """

    form: str
    protocol: str
    options: Mapping[str, str]
    batches: list[pa.RecordBatch]
    schemas: dict[int, str]
    rows: int

    @property
    def values(self) -> list[bytes]:
        """The record values that are not null."""
        values = (value for batch in self.batches for value in batch.column("value").to_pylist())
        return [value for value in values if value is not None]


def workload(form: str, rows: int, *, seed: int = 1) -> Workload:
    """Encodes `rows` changes in this form."""
    (name, chosen), schemas, ids = FORMS[form], dict[int, str](), dict[str, int]()

    def register(subject: str, schema: str) -> int:
        schemas.setdefault(ids.setdefault(schema, len(ids) + 1), schema)
        return ids[schema]

    known = protocol(name)
    encoder = known.encoder(
        known.read_options(chosen.options), Stores(get_schema=schemas.__getitem__, register_schema=register)
    )
    batches = [encoder.encode(made) for made in changes(rows, random.Random(seed))]
    if isinstance(encoder, ClosingEncoder):
        batches.append(encoder.finish())
    return Workload(form, name, chosen.options, [batch for batch in batches if len(batch)], schemas, rows)


def changes(rows: int, r: random.Random) -> Iterator[Decoded]:
    """Yields `rows` changes in batches."""
    for start in range(0, rows, _AT_ONCE):
        builder = BatchBuilder()
        for number in range(start, min(rows, start + _AT_ONCE)):
            kind = r.random()
            op = "delete" if kind < 0.05 else "update" if kind < 0.15 else "insert"
            ts = _FIRST_TS + (number << 18)
            builder.add(
                SHAPE,
                Place("orders", 0, number, None, number - start),
                op,
                before=None if op == "insert" else _image(r, number),
                after=None if op == "delete" else _image(r, number),
                commit_ts=ts,
                commit_time=ts >> 18,
            )
        yield Decoded(builder.build())


def _image(r: random.Random, number: int) -> dict[str, Any]:
    bits = r.getrandbits(64)
    return {
        "id": number + 1,
        "customer": f"{_NAMES[bits % 6]} {number}",
        "status": ("new", "paid", "shipped", "cancelled")[bits % 4],
        "total": Decimal(bits % 10**9).scaleb(-4) if bits % 10 else None,
        "note": f"order {bits:x}" if bits % 7 else None,
        "placed": datetime.date(2026, bits // 28 % 12 + 1, bits % 28 + 1),
        "updated": 1_767_225_600_000_000 + bits % 10**12,
        "weight": bits / 2**60,
        "qty": bits % 100_000,
    }
