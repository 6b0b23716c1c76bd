"""What one would run instead of a decoder: the usual library for a protocol's bytes, nothing typed, nothing checked.

JSON           json.loads of every value
Avro           fastavro, with the schemas parsed beforehand
ProtoBuf       Python message objects of the protobuf package, asked for what a row consists of: it makes no value before
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from changefeed.errors import MissingExtraError
from changefeed.protocols.tencent_dts import messages as dts
from changefeed.wire.protobuf import Message

_HEADER = 5  # Confluent's: magic and schema id
# Field -> the message in it, where our tables leave a span.
_SPANS: dict[tuple[str, str], Message] = {
    ("Entries", "items"): dts.ENTRY,
    ("Entry", "header"): dts.HEADER,
    ("Entry", "event"): dts.EVENT,
    ("Event", "dmlEvent"): dts.DML_EVENT,
    ("DMLEvent", "columns"): dts.COLUMN,
    ("DMLEvent", "rows"): dts.CHANGE,
    ("RowChange", "oldColumns"): dts.DATA,
    ("RowChange", "newColumns"): dts.DATA,
}


def json_loads(values: Sequence[bytes], schemas: Mapping[int, str]) -> Callable[[], Any]:
    """Every value as Python objects."""
    return lambda: all(json.loads(value) for value in values)


def framed_json_loads(values: Sequence[bytes], schemas: Mapping[int, str]) -> Callable[[], Any]:
    """Every message of values that are messages with their lengths in front."""
    return json_loads([body for value in values for body in messages(value)], schemas)


def messages(value: bytes) -> list[bytes]:
    """The messages of an Open Protocol value."""
    found, at = [], 0
    while at < len(value):
        end = at + 8 + int.from_bytes(value[at : at + 8], "big")
        found.append(value[at + 8 : end])
        at = end
    return found


def fastavro(values: Sequence[bytes], schemas: Mapping[int, str]) -> Callable[[], Any]:
    """Every datum as a Python dict.

    Raises:
        MissingExtraError: fastavro is not installed.
    """
    try:
        from fastavro import parse_schema, schemaless_reader
    except ImportError as error:
        raise MissingExtraError("the comparison with fastavro", "all") from error
    parsed = {number: parse_schema(json.loads(text)) for number, text in schemas.items()}
    data = [(parsed[int.from_bytes(value[1:_HEADER], "big")], value[_HEADER:]) for value in values]

    def run() -> None:
        for schema, datum in data:
            schemaless_reader(io.BytesIO(datum), schema)

    return run


def protobuf(values: Sequence[bytes], schemas: Mapping[int, str]) -> Callable[[], Any]:
    """Every envelope and the entries in it as message objects, and what their rows consist of.

    Raises:
        MissingExtraError: protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise MissingExtraError("the comparison with protobuf", "all") from error
    file = descriptor_pb2.FileDescriptorProto(name="dts.proto", package="dts", syntax="proto3")
    for root in (dts.ENVELOPE, dts.ENTRIES):
        _describe(file, root)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    envelope, entries = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"dts.{name}")) for name in ("Envelope", "Entries")
    )

    def run() -> None:
        for value in values:
            for entry in entries.FromString(envelope.FromString(value).data).items:
                _read(entry)

    return run


def _read(entry: Any) -> None:
    """Asks an entry for what a row consists of."""
    said, rows = entry.header, entry.event.dmlEvent
    _ = said.timestamp, said.serverId, said.fileName, said.position, said.gtid, said.seqId
    _ = said.schemaName, said.tableName, [(c.name, c.originalType, c.isKey) for c in rows.columns]
    for row in rows.rows:
        for data in (*row.oldColumns, *row.newColumns):
            _ = data.dataType, data.charset, data.sv or data.bv


def _describe(file: Any, table: Message) -> None:
    """Adds a message, and those in it, to a file of descriptors."""
    if table.name in {known.name for known in file.message_type}:
        return
    described = file.message_type.add(name=table.name)
    for f in table.fields:
        inner = f.kind if isinstance(f.kind, Message) else _SPANS.get((table.name, f.name))
        label = described.field.add(name=f.name, number=f.number, label=3 if f.most else 1)
        if inner is None:
            kind = "bytes" if f.kind == "span" else str(f.kind)
            label.type = label.DESCRIPTOR.enum_types_by_name["Type"].values_by_name[f"TYPE_{kind.upper()}"].number
        else:
            label.type, label.type_name = label.TYPE_MESSAGE, f".dts.{inner.name}"
            _describe(file, inner)


# What a form's values are -> the library's name, and what runs it.
PEERS: dict[str, tuple[str, Callable[[Sequence[bytes], Mapping[int, str]], Callable[[], Any]]]] = {
    "json": ("json.loads", json_loads),
    "framed json": ("json.loads", framed_json_loads),
    "avro": ("fastavro", fastavro),
    "protobuf": ("protobuf", protobuf),
}
