"""Alternatives to a decoder: the usual library for a protocol's bytes, without types and checks.

JSON           json.loads of every value
Avro           fastavro, with the schemas parsed beforehand
ProtoBuf       Python message objects of the protobuf package; the parts of each row are read, as values are made lazily
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from changefeed.errors import MissingExtraError
from changefeed.protocols.tencent_dts import messages as dts
from changefeed.wire.protobuf import MessageDescriptor

_HEADER = 5  # Confluent's: magic and schema id
# Field -> the message in it, for fields that `dts` declares as spans.
_SPANS: dict[tuple[str, str], MessageDescriptor] = {
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
    """Returns the function that converts every value to Python objects."""
    return lambda: all(json.loads(value) for value in values)


def framed_json_loads(values: Sequence[bytes], schemas: Mapping[int, str]) -> Callable[[], Any]:
    """Returns the same as `json_loads` for values that are messages, each after its length."""
    return json_loads([body for value in values for body in messages(value)], schemas)


def messages(value: bytes) -> list[bytes]:
    """Splits an Open Protocol value into its messages."""
    bodies, at = [], 0
    while at < len(value):
        end = at + 8 + int.from_bytes(value[at : at + 8], "big")
        bodies.append(value[at + 8 : end])
        at = end
    return bodies


def fastavro(values: Sequence[bytes], schemas: Mapping[int, str]) -> Callable[[], Any]:
    """Returns the function that converts every datum to a Python dict.

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
    """Returns the function that parses every envelope and its entries to message objects, and reads the parts of their rows.

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
    """Reads the parts of an entry's rows."""
    header, rows = entry.header, entry.event.dmlEvent
    _ = header.timestamp, header.serverId, header.fileName, header.position, header.gtid, header.seqId
    _ = header.schemaName, header.tableName, [(c.name, c.originalType, c.isKey) for c in rows.columns]
    for row in rows.rows:
        for data in (*row.oldColumns, *row.newColumns):
            _ = data.dataType, data.charset, data.sv or data.bv


def _describe(file: Any, table: MessageDescriptor) -> None:
    """Adds a message and its nested messages to a file of descriptors."""
    if table.name in {known.name for known in file.message_type}:
        return
    described = file.message_type.add(name=table.name)
    for f in table.fields:
        inner = f.kind if isinstance(f.kind, MessageDescriptor) else _SPANS.get((table.name, f.name))
        label = described.field.add(name=f.name, number=f.number, label=3 if f.most else 1)
        if inner is None:
            kind = "bytes" if f.kind == "span" else str(f.kind)
            label.type = label.DESCRIPTOR.enum_types_by_name["Type"].values_by_name[f"TYPE_{kind.upper()}"].number
        else:
            label.type, label.type_name = label.TYPE_MESSAGE, f".dts.{inner.name}"
            _describe(file, inner)


# Format of a form's values -> the library's name, and the function that prepares it.
PEERS: dict[str, tuple[str, Callable[[Sequence[bytes], Mapping[int, str]], Callable[[], Any]]]] = {
    "json": ("json.loads", json_loads),
    "framed json": ("json.loads", framed_json_loads),
    "avro": ("fastavro", fastavro),
    "protobuf": ("protobuf", protobuf),
}
