"""DTS records for tests, written by the protobuf package from the service's own description of its messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from changefeed.columnar.events import Row, in_order
from changefeed.model.batch import Decoded, record_batch
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores
from changefeed.protocols.tencent_dts.decoder import Decoder

DTS = protocol("tencent-dts")
_DESCRIPTOR = Path(__file__).parents[2] / "data" / "tencent-dts" / "subscribe_descriptor.fdp.bin"
_FILE = descriptor_pb2.FileDescriptorProto.FromString(_DESCRIPTOR.read_bytes())
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_FILE)
GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:6"
ID = ("id", "int(11)", True)
NIL: dict[str, Any] = {}
NA = {"dataType": 14}


def message(name: str, /, **members: Any) -> Any:
    """A message of the protobuf package; members may be dicts."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_FILE.package}.{name}"))(**members)


def entry(kind: int, event: dict[str, Any], **header: Any) -> Any:
    """An Entry with a header as the service writes it."""
    plain = {"sourceType": 1, "timestamp": 1767312000, "gtid": GTID, "seqId": 1, "isLast": True}
    return message("Entry", header={**plain, "messageType": kind, **header}, event=event)


def dml(columns: list[tuple[str, str, bool]], *rows: dict[str, Any], op: int = 0, **header: Any) -> Any:
    """A DML Entry of shop.t; a row is `{"newColumns": [Data, …]}`."""
    described = [{"name": name, "originalType": original, "isKey": key} for name, original, key in columns]
    body = {"dmlEventType": op, "columns": described, "rows": list(rows)}
    return entry(2, {"dmlEvent": body}, schemaName="shop", tableName="t", **header)


def number(data_type: int, text: str) -> dict[str, Any]:
    """A `Data` with a number."""
    return {"dataType": data_type, "sv": text}


def string(data: bytes, charset: str = "utf8") -> dict[str, Any]:
    """A `Data` with a text."""
    return {"dataType": 13, "charset": charset, "bv": data}


def inserted(original: str, data: dict[str, Any]) -> Any:
    """An Entry that inserts one row: id 1, and the value v."""
    return dml([ID, ("v", original, False)], {"newColumns": [number(3, "1"), data]})


def checkpoint(seq_id: int) -> Any:
    """A CHECKPOINT entry with this sequence."""
    return entry(6, {"checkpointEvent": {"syncedGtid": GTID, "fileName": "f", "position": 4}}, seqId=seq_id)


def data_of(*entries: Any) -> bytes:
    """The bytes of an Entries."""
    return bytes(message("Entries", items=entries).SerializeToString())


def envelope(data: bytes, total: int = 1, index: int = 0, version: int = 1) -> bytes:
    """The bytes of an Envelope."""
    return bytes(message("Envelope", version=version, total=total, index=index, data=data).SerializeToString())


def record(value: bytes | None, offset: int = 0, ps: int | None = None, **more: Any) -> dict[str, Any]:
    """A record; the sequence and a shard become headers."""
    headers = [] if ps is None else [{"key": "ps", "value": str(ps).encode()}]
    if "shard" in more:
        headers.append({"key": "ShardId", "value": more.pop("shard")})
    return {"topic": "t", "partition": 0, "offset": offset, "key": None, "value": value, "headers": headers, **more}


def split(data: bytes, size: int, offset: int = 0, ps: int | None = None, **more: Any) -> list[dict[str, Any]]:
    """The records of a group, cut every `size` bytes."""
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return [
        record(envelope(part, len(parts), i), offset + i, None if ps is None else ps + i, **more)
        for i, part in enumerate(parts)
    ]


def decoder(**options: Any) -> Decoder:
    """A new reference decoder."""
    reference = DTS.decoder(DTS.read_options(options), Stores())
    assert isinstance(reference, Decoder)
    return reference


def decode(*records: dict[str, Any], **options: Any) -> Decoded:
    """Decodes records by the reference decoder."""
    return decoder(**options).decode(record_batch(records))


def encode(changes: Decoded, **options: Any) -> pa.RecordBatch:
    """Encodes changes."""
    return DTS.encoder(DTS.read_options(options), Stores()).encode(changes)


def errors(decoded: Decoded) -> list[str]:
    """The messages of the dead letters."""
    return [letter.error for letter in decoded.dead]


def rows(decoded: Decoded) -> list[Row]:
    """The rows, in order."""
    return [event for event in in_order(decoded) if isinstance(event, Row)]
