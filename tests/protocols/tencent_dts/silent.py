"""Records of tencent-dts that say nothing."""

from __future__ import annotations

from typing import Any

from changefeed.protocols.tencent_dts import messages as dts
from changefeed.wire import protobuf

# Values that are known, and that mean nothing: what is cut down to one is not dead.
NOTHING = (b"\x08\x01", b"\x08\x01\x10\x01")


def silent(record: dict[str, Any]) -> bool:
    """A part of an event that lies at another record, or entries without events, as a rollback's."""
    envelope = protobuf.read(dts.ENVELOPE, record["value"])
    return bool(envelope.get("total", 0) > 1) or record["value"][:2] == b"\x08\x01"
