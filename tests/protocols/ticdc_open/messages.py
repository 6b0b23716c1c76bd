"""Records of Open Protocol for tests, made by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from changefeed.columnar.events import Row, in_order
from changefeed.model.batch import Decoded, record_batch
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores
from changefeed.protocols.ticdc_open import framing

OPEN = protocol("ticdc-open")
TS = 463267587983154927
ID = '"id":{"t":3,"h":true,"f":11,"v":1}'


def key(extra: str = "", table: str = "t") -> bytes:
    """An event key as newarch writes it."""
    return f'{{"ts":{TS},"scm":"shop","tbl":"{table}","t":1{extra}}}'.encode()


def insert(*columns: str) -> bytes:
    """A row value with the column id and more."""
    return ('{"u":{' + ",".join((ID, *columns)) + "}}").encode()


def record(*messages: tuple[bytes, bytes], topic: str = "orders", partition: int = 3, offset: int = 118204) -> Any:
    """A record that holds these messages."""
    framed_key, framed_value = framing.join(messages)
    return {"topic": topic, "partition": partition, "offset": offset, "key": framed_key, "value": framed_value}


def decode(*records: Any, stores: Stores | None = None, **options: Any) -> Decoded:
    """Decodes the records by the reference decoder; names of options have `_` for `-`."""
    chosen = OPEN.read_options({name.replace("_", "-"): value for name, value in options.items()})
    return OPEN.decoder(chosen, stores or Stores()).decode(record_batch(records))


def encode(changes: Decoded, stores: Stores | None = None, **options: Any) -> pa.RecordBatch:
    """Encodes changes."""
    chosen = OPEN.read_options({name.replace("_", "-"): value for name, value in options.items()})
    return OPEN.encoder(chosen, stores or Stores()).encode(changes)


def messages(batch: pa.RecordBatch) -> list[list[tuple[str, str]]]:
    """Keys and values of each record's messages, as text."""
    return [
        [(m.key.decode(), m.value.decode("utf-8", "surrogateescape")) for m in framing.split(k.as_py(), v.as_py())]
        for k, v in zip(batch.column("key"), batch.column("value"), strict=True)
    ]


def errors(decoded: Decoded) -> list[str]:
    """The messages of the dead letters."""
    return [letter.error for letter in decoded.dead]


def rows(decoded: Decoded) -> list[Row]:
    """The rows, in order."""
    return [event for event in in_order(decoded) if isinstance(event, Row)]
