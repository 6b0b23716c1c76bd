"""Records of ticdc-avro for tests, made by hand."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from changefeed.columnar.events import Row, in_order
from changefeed.model.batch import BatchBuilder, Decoded, record_batch
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores
from changefeed.wire.confluent import header
from tests.protocols.conformance.cases import Schemas

AVRO = protocol("ticdc-avro")
TS = 463267587983154927
INT = {"type": "int", "connect.parameters": {"tidb_type": "INT"}}
EXTENSION = {"enable_tidb_extension": True}
CHECKSUMS = {
    **EXTENSION,
    "integrity_check_level": "correctness",
    "avro_decimal_handling_mode": "string",
    "avro_bigint_unsigned_handling_mode": "string",
}


def stores(schemas: Schemas) -> Stores:
    return Stores(get_schema=schemas.get, register_schema=schemas.register)


def schema(*fields: dict[str, Any], name: str = "t") -> str:
    """A record's schema."""
    tree = {"type": "record", "name": name, "namespace": "default.shop", "fields": list(fields)}
    return json.dumps(tree, separators=(",", ":"))


def record(key: bytes | None, value: bytes | None, topic: str = "shop_t") -> dict[str, Any]:
    return {"topic": topic, "partition": 3, "offset": 118204, "key": key, "value": value}


def datum(schemas: Schemas, text: str, data: bytes) -> bytes:
    """A key or a value with its header."""
    return header(schemas.register("any", text)) + data


def decode(schemas: Schemas, *records: dict[str, Any], **options: Any) -> Decoded:
    """Decodes the records by the reference decoder; names of options have `_` for `-`."""
    return AVRO.decoder(read(options), stores(schemas)).decode(record_batch(records))


def encode(schemas: Schemas, changes: Decoded, **options: Any) -> pa.RecordBatch:
    """Encodes changes."""
    return AVRO.encoder(read(options), stores(schemas)).encode(changes)


def read(options: dict[str, Any]) -> Any:
    return AVRO.read_options({name.replace("_", "-"): value for name, value in options.items()})


def rows(decoded: Decoded) -> list[Row]:
    """The rows, in order."""
    return [event for event in in_order(decoded) if isinstance(event, Row)]


def column(name: str, kind: str, *, key: bool = False, nullable: bool = True, default: str | None = None) -> Column:
    return Column(name, ColumnType.parse(kind), nullable and not key, key, default)


def change(
    columns: list[Column], before: dict[str, Any] | None, after: dict[str, Any] | None, op: str = "", **more: Any
) -> Decoded:
    """One row of shop.t of another protocol."""
    batch = BatchBuilder()
    kind = op or ("delete" if after is None else "insert" if before is None else "update")
    shape = TableShape("shop", "t", tuple(columns))
    fields = {"commit_ts": TS, "commit_time": TS >> 18, **more}
    batch.add(shape, Place("shop_t", 3, 118204), kind, before=before, after=after, **fields)
    return Decoded(batch.build())


def records(batch: pa.RecordBatch) -> list[tuple[bytes | None, bytes | None]]:
    return list(zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True))
