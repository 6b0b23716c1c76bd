"""Records of tencent-dts without an event."""

from __future__ import annotations

from typing import Any

from changefeed.protocols.tencent_dts import messages as dts
from changefeed.wire import protobuf

# Valid values without an event: a record that is cut down to one of them is not dead.
NOTHING = (b"\x08\x01", b"\x08\x01\x10\x01")


def silent(record: dict[str, Any]) -> bool:
    """Whether the record is a part of an event at another record, or has entries without events, such as a rollback's."""
    envelope = protobuf.read(dts.ENVELOPE, record["value"])
    return bool(envelope.get("total", 0) > 1) or record["value"][:2] == b"\x08\x01"
