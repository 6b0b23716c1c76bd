"""Reads and writes one Entry: a header, an event, and their parts that the origin keeps.

    0a 63 10 01 18 02 20 … 68 01 │ 12 … 12 …
    header: sourceType, messageType, timestamp …, isLast │ event: one body

Rule 1. `header.messageType` is the kind of the event. A body of another kind is an error; so is an empty entry, which would
        otherwise be the BEGIN of an unnamed database.
Rule 2. The origin has the header's fields by their names, without zeros; but always `sourceType`, and `isLast` if it is
        false. Fields that are attributes of the event are not repeated there.
Rule 3. `unknown` has unknown fields, by the message that contained them; `absent` names the empty messages that were left
        out, so that the same bytes can be written again.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.protocols.tencent_dts.messages import BEGIN, BODIES, DDL, DML, ENTRY, EVENT, HEADER
from changefeed.protocols.tencent_dts.shapes import pairs
from changefeed.wire import protobuf

Origin = dict[str, Any]
_IN_HEADER = ("version", "serverId", "fileName", "position", "gtid", "seqId", "eventIndex")
_MUST_HAVE_BODY = frozenset({DML, DDL})


@dataclass(frozen=True, slots=True)
class DtsEntry:
    """One entry whose header and event have been read.

    Attributes:
        kind: the message type.
        body: members of the body; for a DMLEvent, its position in the data.
        origin: the part of the origin of its events that comes from header and event.
    """

    kind: int
    header: dict[str, Any]
    body: Any
    origin: Origin


def read_entry(data: bytes, start: int, end: int) -> DtsEntry:
    """Reads the entry at a position in the data.

    Raises:
        ProtocolError: the bytes are not an entry.
    """
    entry = protobuf.read(ENTRY, data, start, end)
    header = protobuf.read(HEADER, data, *entry["header"]) if "header" in entry else {}
    event = protobuf.read(EVENT, data, *entry["event"]) if "event" in entry else {}
    kind = header.get("messageType", BEGIN)
    if kind not in BODIES:
        raise ProtocolError(f"message type {kind} is unknown", reason="unknown-kind", byte=start)
    if not header and not event:
        raise SchemaError("the entry has neither header nor event", byte=start)
    name = BODIES[kind]
    for other in BODIES.values():
        if other != name and other in event:
            raise SchemaError(f"message of type {kind} has a {other}", byte=start)
    if kind in _MUST_HAVE_BODY and name not in event:
        raise SchemaError(f"message of type {kind} has no {name}", byte=start)
    origin = _origin(header)
    if "properties" in event:
        origin["eventProperties"] = pairs(event["properties"])
    there = {"header": "header" in entry, "event": "event" in entry, "body": name in event}
    absent = [part for part, is_there in there.items() if not is_there]
    if absent:
        origin["absent"] = absent
    body = event.get(name, {})
    for part, message in (("entry", entry), ("header", header), ("event", event), ("body", body)):
        if isinstance(message, dict):
            keep_unknown(origin, part, message)
    return DtsEntry(kind, header, body, origin)


def keep_unknown(origin: Origin, part: str, message: dict[str, Any]) -> None:
    """Keeps the unknown fields of a message."""
    if protobuf.UNKNOWN in message:
        kept = base64.b64encode(message[protobuf.UNKNOWN]).decode()
        origin.setdefault("unknown", {})[part] = kept


def _origin(header: dict[str, Any]) -> Origin:
    origin: Origin = {"sourceType": header.get("sourceType", 0)}
    origin |= {name: header[name] for name in _IN_HEADER if header.get(name)}
    if not header.get("isLast"):
        origin["isLast"] = False
    if "properties" in header:
        origin["properties"] = pairs(header["properties"])
    return origin


def write_header(kind: int, origin: Origin, members: dict[str, Any]) -> bytes:
    """Returns the bytes of a header; `members` are the fields that come from attributes of the event."""
    header: dict[str, Any] = {"messageType": kind, "sourceType": origin.get("sourceType", 0), **members}
    header |= {name: origin.get(name) for name in _IN_HEADER}
    header["isLast"] = origin.get("isLast", True)
    header["properties"] = write_pairs(origin.get("properties"))
    header[protobuf.UNKNOWN] = unknown(origin, "header")
    return protobuf.write(HEADER, header)


def write_entry(kind: int, origin: Origin, header: bytes, body: bytes | dict[str, Any]) -> bytes:
    """Returns the bytes of an entry."""
    absent = origin.get("absent") or ()
    if isinstance(body, dict):
        body[protobuf.UNKNOWN] = unknown(origin, "body")
    event = {
        BODIES[kind]: None if "body" in absent else body,
        "properties": write_pairs(origin.get("eventProperties")),
        protobuf.UNKNOWN: unknown(origin, "event"),
    }
    entry = {
        "header": None if "header" in absent else header,
        "event": None if "event" in absent else protobuf.write(EVENT, event),
        protobuf.UNKNOWN: unknown(origin, "entry"),
    }
    return protobuf.write(ENTRY, entry)


def write_pairs(pairs: Any) -> list[dict[str, str]]:
    """Converts properties from the form in the origin to the form for writing."""
    return [{"key": key, "value": value} for key, value in pairs or ()]


def unknown(origin: Origin, part: str) -> bytes:
    """Returns the unknown fields of a message that the origin has kept."""
    return base64.b64decode((origin.get("unknown") or {}).get(part, ""), validate=True)
