"""Reads and writes notifications and signals: records of a connector that are not about rows.

    topic                        key              value
    notification.sink.topic.name {"id":…}         {"id":…,"type":…,"aggregate_type":…,"additional_data":{…},"timestamp":…}
    signal.kafka.topic           srv1             {"type":"execute-snapshot","data":{…}}, of a user, for the connector to read

Rule 1. Both are decoded as heartbeats: they change no table. The origin's `notification` has all members except the timestamp,
        in order; `schemas` and `key` are as in `marks`.
Rule 2. A signal was typed by a user: the origin's `signal` has it verbatim, and its key beside it.
"""

from __future__ import annotations

from typing import Any

from changefeed.connect.parts import ConnectPart
from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model.event import Heartbeat
from changefeed.model.position import Place
from changefeed.protocols.debezium_mysql import blocks
from changefeed.protocols.debezium_mysql.marks import RecordTrees, instant, joined, key_origin, sides
from changefeed.protocols.debezium_mysql.values.reading import show
from changefeed.wire import base64_text

MEMBERS = ("id", "type", "aggregate_type", "additional_data", "timestamp")
_TEXTS = ("id", "type", "aggregate_type")
_SIGNAL = ({"type", "data"}, {"id", "type", "data"})


def read_notification(key: ConnectPart | None, value: ConnectPart, place: Place) -> Heartbeat:
    """Reads a notification: a value with `aggregate_type`.

    Raises:
        SchemaError: the value is not a notification.
    """
    tree = value.payload
    if tuple(tree) != MEMBERS:
        raise SchemaError(f"notification has {', '.join(tree)}, expected {', '.join(MEMBERS)}")
    for name in _TEXTS:
        if type(tree[name]) is not str:
            raise SchemaError(f"{show(tree[name])} is not a string - at `notification.{name}`")
    data = tree["additional_data"]
    if data is not None and not (isinstance(data, dict) and all(type(text) is str for text in data.values())):
        raise SchemaError(f"{show(data)} is not an object of strings - at `notification.additional_data`")
    origin = {
        "notification": {name: tree[name] for name in MEMBERS if name != "timestamp"},
        **sides(key, value, blocks.NOTIFICATION_KEY, blocks.NOTIFICATION),
        **key_origin(key, {"id": tree["id"]}),
    }
    return Heartbeat(place, instant(tree, "notification", "timestamp"), origin)


def write_notification(event: Heartbeat) -> RecordTrees:
    """Returns key and value of a notification.

    Raises:
        UnsupportedError: the event has no time.
    """
    if event.instant is None:
        raise UnsupportedError(f"debezium-mysql: notification at {event.place} needs a commit time")
    notification = event.origin["notification"]
    value = {**notification, "timestamp": event.instant.us // 1000}
    return joined(event.origin, {"id": notification.get("id")}, value, blocks.NOTIFICATION_KEY, blocks.NOTIFICATION)


def is_signal(value: ConnectPart) -> bool:
    """Whether a value is a signal."""
    tree = value.payload
    if value.schema is not None or not isinstance(tree, dict) or tree.keys() not in _SIGNAL:
        return False
    return type(tree["type"]) is str and type(tree["data"]) in (dict, str, type(None))


def read_signal(key: bytes | None, value: bytes, place: Place) -> Heartbeat:
    """Reads a signal; its key may be any text."""
    signal: dict[str, Any] = {"value": base64_text.show(value)}
    if key is not None:
        signal["key"] = base64_text.show(key)
    return Heartbeat(place, None, {"signal": signal})


def write_signal(event: Heartbeat) -> tuple[bytes | None, bytes]:
    """Returns key and value of a signal."""
    signal = event.origin["signal"]
    return base64_text.hide(signal["key"]) if "key" in signal else None, base64_text.hide(signal["value"])
