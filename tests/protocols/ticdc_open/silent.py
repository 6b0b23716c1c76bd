"""Records of ticdc-open without an event."""

from __future__ import annotations

from typing import Any


def silent(record: dict[str, Any]) -> bool:
    """Whether the record has no messages."""
    return bool(record["key"] == (1).to_bytes(8, "big"))
