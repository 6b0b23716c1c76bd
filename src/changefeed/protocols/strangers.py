"""Recognizes formats that changefeed cannot decode, so that messages can name them."""

from __future__ import annotations

import msgspec

from changefeed.protocols import PROTOCOLS
from changefeed.protocols.base import SampleRecord

# name -> members that an object of this format has
_FORMATS: dict[str, frozenset[str]] = {
    "Tencent DTS in JSON": frozenset({"messageType", "fileName", "position", "sourceType"}),
    "Maxwell": frozenset({"database", "table", "type", "ts", "data"}),
    "TiCDC Simple Protocol": frozenset({"version", "type", "commitTs", "buildTs"}),
    "Debezium of another connector": frozenset({"op", "source"}),
}
# Without those that have become protocols.
_JSON = {known: members for known, members in _FORMATS.items() if known.lower().replace(" ", "-") not in PROTOCOLS}
_ENVELOPES = ("payload",)


def name(record: SampleRecord) -> str | None:
    """Returns the name of the unsupported format that the record seems to have; None if it is unknown."""
    data = record.value if record.value is not None else record.key
    if data is None:
        return "a record without key and value"
    text = data.lstrip()
    if text[:1] in (b"{", b"["):
        return _object(text)
    if text[:1] == b"\x00" and len(data) > 4:
        return "Avro or another format with Confluent's header"
    return None


def _object(text: bytes) -> str:
    try:
        tree = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return "text that looks like JSON and is none"
    for inner in _ENVELOPES:
        if isinstance(tree, dict) and isinstance(tree.get(inner), dict):
            tree = tree[inner]
    members = set(tree) if isinstance(tree, dict) else set[str]()
    return next((known for known, needed in _JSON.items() if needed <= members), "plain JSON")
