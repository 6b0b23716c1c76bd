"""Records of debezium-mysql without an event."""

from __future__ import annotations

from typing import Any


def silent(record: dict[str, Any]) -> bool:
    """Whether the record is a tombstone."""
    return record["value"] is None


def has_any_key(record: dict[str, Any]) -> bool:
    """Whether another converter than Connect's for data has written the key, such as StringConverter: it may be any bytes."""
    return not (record["key"] or b"{").startswith((b"{", b"\0"))
