"""One Entry: a header and an event, and what the origin keeps of them.

    0a 63 10 01 18 02 20 … 68 01 │ 12 … 12 …
    header: sourceType, messageType, timestamp …, isLast │ event: one body

Rule 1. `header.messageType` decides what the event is. A body of another kind beside or instead is an error; an empty
        entry is one too, as it would be the BEGIN of an unnamed database.
Rule 2. The origin has the header's fields by their names, zero ones left out, but for `sourceType`, which is always there,
        and `isLast`, which is there when it is false. Members that another key of the event has are not repeated there.
Rule 3. `unknown` has unknown fields, by the message they came in; `absent` the messages left out though they are
        empty, so that the same bytes can be written again.
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
    """One entry, read as far as its body.

    Attributes:
        kind: the message type.
        body: members of the body, or the place of a DMLEvent.
        origin: of its events, as far as header and event have it.
    """

    kind: int
    header: dict[str, Any]
    body: Any
    origin: Origin


def read_entry(data: bytes, start: int, end: int) -> DtsEntry:
    """The entry in these bytes.

    Raises:
        ProtocolError: they are none.
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
            raise SchemaError(f"message type {kind} with a {other}", byte=start)
    if kind in _MUST_HAVE_BODY and name not in event:
        raise SchemaError(f"message type {kind} without {name}", byte=start)
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
    """The bytes of a header; `members` are those that the event has in other keys."""
    header: dict[str, Any] = {"messageType": kind, "sourceType": origin.get("sourceType", 0), **members}
    header |= {name: origin.get(name) for name in _IN_HEADER}
    header["isLast"] = origin.get("isLast", True)
    header["properties"] = write_pairs(origin.get("properties"))
    header[protobuf.UNKNOWN] = unknown(origin, "header")
    return protobuf.write(HEADER, header)


def write_entry(kind: int, origin: Origin, header: bytes, body: bytes | dict[str, Any]) -> bytes:
    """The bytes of an entry."""
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
    """Properties from the origin's form."""
    return [{"key": key, "value": value} for key, value in pairs or ()]


def unknown(origin: Origin, part: str) -> bytes:
    """The unknown fields of a message."""
    return base64.b64decode((origin.get("unknown") or {}).get(part, ""), validate=True)
