"""Records of debezium-mysql that say nothing."""

from __future__ import annotations

from typing import Any


def silent(record: dict[str, Any]) -> bool:
    """A tombstone."""
    return record["value"] is None
