"""How a record of this protocol looks: JSON whose source block names TiCDC."""

from __future__ import annotations

from changefeed.protocols.base import Record

_SOURCE = b'"connector":"TiCDC"'


def recognize(record: Record) -> str | None:
    """Why the record seems to be of this protocol, or None; a compressed one shows nothing."""
    value = record.value or b""
    return 'the value is JSON with "connector":"TiCDC"' if value.startswith(b"{") and _SOURCE in value else None


def likely(record: Record) -> dict[str, str]:
    """Options that the bytes tell."""
    value, found = record.value or b"", {}
    if b'"op":"m"' in value or b'"tidb_type":' in value:
        found["enable-tidb-extension"] = "true"
    if b',"schema":{' not in value:
        found["debezium-disable-schema"] = "true"
    if b'"start_ts":' in value:
        found["debezium-include-start-ts"] = "true"
    return found
