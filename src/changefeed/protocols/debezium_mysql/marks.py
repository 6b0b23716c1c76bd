"""Reads and writes transaction marks and heartbeats.

    topic                          key               value
    <prefix>.transaction           {"id":…}          {"status":"BEGIN","id":…,"event_count":…,"data_collections":…,"ts_ms":…}
    __debezium-heartbeat.<prefix>  {"serverName":…}  {"ts_ms":…}

Rule 1. The origin's `schemas` records which of key and value had a schema: `true` for the block in front that every
        connector writes, else the block itself, of Avro with its id.
Rule 2. The origin's `key` is there where the key is not the one that follows from the value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from changefeed.connect import java_json
from changefeed.connect.parts import RAW, Block, ConnectPart
from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model.event import Heartbeat, Instant, TransactionMark
from changefeed.model.position import Place
from changefeed.protocols.debezium_mysql import blocks
from changefeed.protocols.debezium_mysql.envelope import integer, required, text
from changefeed.protocols.debezium_mysql.values.reading import show
from changefeed.wire import base64_text

_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
TRANSACTION_MEMBERS = ("status", "id", "event_count", "data_collections", "ts_ms")


def instant(tree: dict[str, Any], path: str, name: str = "ts_ms") -> Instant:
    """Reads a member with milliseconds since 1970.

    Raises:
        SchemaError: the member is missing, or outside the years 1 to 9999.
    """
    ms = required(integer(tree, name, path), name, path)
    if not _FIRST_MS <= ms <= _LAST_MS:
        raise SchemaError(f"the time lies outside of the years 1 to 9999 - at `{path}.{name}`")
    return Instant(ms * 1000, 3)


def sides(key: ConnectPart | None, value: ConnectPart, key_block: str, block: str) -> dict[str, Any]:
    """Returns `{"schemas": …}` for the origin."""
    members: dict[str, Any] = {}
    if key is not None and key.block.text:
        members["key"] = _side(key.block, key_block)
    if value.block.text:
        members["value"] = _side(value.block, block)
    return {"schemas": members}


def _side(block: Block, standard: str) -> Any:
    if block.avro:
        return {"avro": block.id, "schema": block.text}
    return block.text == standard or block.text


def key_origin(key: ConnectPart | None, expected: dict[str, Any]) -> dict[str, Any]:
    """Returns `{"key": …}` for the origin; empty if the key is the expected one."""
    if key is not None and key.payload == expected:
        return {}
    return {"key": None if key is None else key_text(key)}


def key_text(key: ConnectPart) -> Any:
    """Returns the key for an origin: its JSON, or its bytes as {"raw": …}."""
    return {"raw": base64_text.show(key.payload)} if key.block.raw else java_json.write(key.payload)


def key_tree(shown: Any) -> tuple[Any, Block | None]:
    """Returns the key that `key_text` has written, and its block if it is its bytes."""
    if isinstance(shown, dict):
        return base64_text.hide(shown["raw"]), RAW
    return java_json.read(shown.encode(), "origin"), None


@dataclass(frozen=True, slots=True)
class RecordTrees:
    """A record to write: trees of key and value, and their schemas; no key if `key_block` is None."""

    key: Any
    key_block: Block | None
    value: Any
    block: Block


def joined(
    origin: dict[str, Any], key: dict[str, Any], value: dict[str, Any], key_block: str, block: str
) -> RecordTrees:
    """Returns the record with key, value and schemas according to the origin's `schemas` and `key`."""
    schemas = origin.get("schemas", {})
    shown: Any = key
    of_key: Block | None = _block(schemas.get("key"), key_block)
    if "key" in origin:
        if origin["key"] is None:
            of_key = None
        else:
            shown, raw = key_tree(origin["key"])
            of_key = raw or of_key
    return RecordTrees(shown, of_key, value, _block(schemas.get("value"), block))


def _block(member: Any, standard: str) -> Block:
    if isinstance(member, dict):
        return Block(str(member.get("schema")), True, member.get("avro"))
    return Block(standard if member is True else member if isinstance(member, str) else "")


def read_transaction(key: ConnectPart | None, value: ConnectPart, place: Place) -> TransactionMark:
    """Reads a transaction mark.

    Raises:
        SchemaError: the value is not a transaction mark.
    """
    tree = value.payload
    if tree.keys() != set(TRANSACTION_MEMBERS):
        raise SchemaError(f"transaction mark has {', '.join(tree)}, expected {', '.join(TRANSACTION_MEMBERS)}")
    status = tree["status"]
    if status not in ("BEGIN", "END"):
        raise SchemaError(f"{show(status)} is not a status - at `status`")
    known = required(text(tree, "id", "transaction"), "id", "transaction")
    return TransactionMark(
        status.lower(),
        known,
        place,
        integer(tree, "event_count", "transaction"),
        _tables(tree["data_collections"]),
        instant(tree, "transaction"),
        {
            **sides(key, value, blocks.TRANSACTION_KEY, blocks.TRANSACTION),
            **key_origin(key, {"id": known}),
        },
    )


def _tables(tree: Any) -> dict[str, int] | None:
    if tree is None:
        return None
    counts: dict[str, int] = {}
    for item in tree if isinstance(tree, list) else [tree]:
        if not isinstance(item, dict) or item.keys() != {"data_collection", "event_count"}:
            raise SchemaError(f"{show(item)} is not a count of a table - at `data_collections`")
        name = text(item, "data_collection", "data_collections")
        count = integer(item, "event_count", "data_collections")
        if name is None or count is None or name in counts:
            raise SchemaError(f"{show(item)} is not a count of a table - at `data_collections`")
        counts[name] = count
    return counts


def write_transaction(mark: TransactionMark) -> RecordTrees:
    """Returns the record of a transaction mark.

    Raises:
        UnsupportedError: the mark has no time.
    """
    if mark.instant is None:
        raise UnsupportedError(f"debezium-mysql: transaction {mark.status} at {mark.place} needs a commit time")
    tables = mark.tables
    value = {
        "status": mark.status.upper(),
        "id": mark.id,
        "event_count": mark.event_count,
        "data_collections": None
        if tables is None
        else [{"data_collection": name, "event_count": count} for name, count in tables.items()],
        "ts_ms": mark.instant.us // 1000,
    }
    return joined(mark.origin, {"id": mark.id}, value, blocks.TRANSACTION_KEY, blocks.TRANSACTION)


def read_heartbeat(key: ConnectPart | None, value: ConnectPart, place: Place) -> Heartbeat:
    """Returns the heartbeat for a record whose value is only a time."""
    origin = sides(key, value, blocks.HEARTBEAT_KEY, blocks.HEARTBEAT)
    name = key.payload.get("serverName") if key is not None and isinstance(key.payload, dict) else None
    if type(name) is str:
        origin["serverName"] = name
    origin |= key_origin(key, {"serverName": name})
    return Heartbeat(place, instant(value.payload, "heartbeat"), origin)


def read_tombstone(key: bytes | None, value: bytes | None, place: Place, more: dict[str, Any]) -> Heartbeat:
    """Returns the heartbeat for a tombstone that changes no row; `more`: the members that its headers add to the origin."""
    shown = {name: base64_text.show(data) for name, data in (("key", key), ("value", value)) if data is not None}
    return Heartbeat(place, None, {"tombstone": shown, **more})


def write_tombstone(event: Heartbeat) -> tuple[bytes | None, bytes | None]:
    """Returns key and value of a tombstone that was read as a heartbeat."""
    shown = event.origin["tombstone"]
    key, value = (base64_text.hide(shown[name]) if name in shown else None for name in ("key", "value"))
    return key, value


def write_heartbeat(event: Heartbeat, name: str) -> RecordTrees:
    """Returns the record of a heartbeat; `name`: the logical name, if its origin does not have one.

    Raises:
        UnsupportedError: the heartbeat has no time.
    """
    if event.instant is None:
        raise UnsupportedError(f"debezium-mysql: heartbeat at {event.place} needs a commit time")
    value = {"ts_ms": event.instant.us // 1000}
    key = {"serverName": event.origin.get("serverName", name)}
    return joined(event.origin, key, value, blocks.HEARTBEAT_KEY, blocks.HEARTBEAT)
