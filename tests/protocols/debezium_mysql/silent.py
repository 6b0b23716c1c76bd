"""Records of debezium-mysql without an event."""

from __future__ import annotations

from typing import Any


def silent(record: dict[str, Any]) -> bool:
    """Whether the record is a tombstone."""
    return record["value"] is None
