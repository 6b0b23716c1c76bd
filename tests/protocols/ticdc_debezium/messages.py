"""Debezium records of TiCDC for tests, made by hand."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from changefeed.columnar.events import Row, in_order
from changefeed.model.batch import Decoded, record_batch
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.protocols import protocol
from changefeed.protocols.base import Options, Stores

DEBEZIUM = protocol("ticdc-debezium")
TS = 463267587983154927
SOURCE = (
    f'{{"version":"2.4.0.Final","connector":"TiCDC","name":"default","ts_ms":{TS >> 18},"snapshot":"false","db":"shop",'
    '"table":"t","server_id":0,"gtid":null,"file":"","pos":0,"row":0,"thread":0,"query":null,'
    f'"commit_ts":{TS},"cluster_id":"default"}}'
)
KEY = '{"payload":{"id":1}}'
ID = '{"type":"int32","optional":false,"field":"id"}'


def insert(image: str, source: str = SOURCE, more: str = "") -> str:
    """The payload of an insert."""
    return f'{{"source":{source},"ts_ms":7,"transaction":null,"op":"c","before":null,"after":{image}{more}}}'


def document(payload: str, schema: str | None = None) -> str:
    """A key or a value."""
    return f'{{"payload":{payload}' + ("" if schema is None else f',"schema":{schema}') + "}"


def row_schema(*fields: str) -> str:
    """The schema block of a row with these fields, with the members that the decoder reads."""
    images = [f'{{"type":"struct","field":"{which}","fields":[{",".join(fields)}]}}' for which in ("before", "after")]
    return f'{{"type":"struct","fields":[{",".join(images)}]}}'


def field(column: str, kind: str, /, **members: Any) -> str:
    """A field of a schema block."""
    return json.dumps({"type": kind, "optional": True, "field": column, **members})


def record(value: str | bytes | None, key: str | bytes | None = KEY) -> dict[str, Any]:
    """A record of topic shop."""
    texts = {"key": key, "value": value}
    return {
        "topic": "shop",
        "partition": 0,
        "offset": 7,
        **{name: text.encode() if isinstance(text, str) else text for name, text in texts.items()},
    }


def options(**settings: Any) -> Options:
    """Options; their names have `_` for `-`."""
    return DEBEZIUM.read_options({name.replace("_", "-"): value for name, value in settings.items()})


def decode(*records: Any, **settings: Any) -> Decoded:
    """Decodes the records."""
    return DEBEZIUM.decoder(options(**settings), Stores()).decode(record_batch(records))


def encode(changes: Decoded, **settings: Any) -> pa.RecordBatch:
    """Encodes changes."""
    return DEBEZIUM.encoder(options(**settings), Stores()).encode(changes)


def values(batch: pa.RecordBatch) -> list[Any]:
    """The records' values as decoded JSON."""
    return [json.loads(value) for value in batch.column("value").to_pylist()]


def errors(decoded: Decoded) -> list[str]:
    """The messages of the dead letters."""
    return [letter.error for letter in decoded.dead]


def rows(decoded: Decoded) -> list[Row]:
    """The rows, in order."""
    return [event for event in in_order(decoded) if isinstance(event, Row)]


def shape(*columns: tuple[str, str] | Column, wire: str = "") -> TableShape:
    """A table shop.t with the key id, and columns by name and type."""
    made = [c if isinstance(c, Column) else Column(c[0], ColumnType.parse(c[1]), True, False) for c in columns]
    return TableShape("shop", "t", (Column("id", ColumnType("int"), False, True), *made), wire=wire)
