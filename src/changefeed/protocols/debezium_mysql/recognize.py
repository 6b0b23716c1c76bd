"""Recognizes records of this protocol: JSON whose source block names the connector, or Avro with Confluent's header."""

from __future__ import annotations

from changefeed.protocols.base import SampleRecord

_CONNECTORS = {name: f'"connector":"{name}"'.encode() for name in ("mysql", "mariadb")}
_OTHER = b'"connector":"TiCDC"'
_MARKS = {  # what stands in values whose source block names no connector
    b'"before":': "an envelope",
    b'"status":"BEGIN"': "a transaction mark",
    b'"status":"END"': "a transaction mark",
    b'"io.debezium.connector.common.Heartbeat"': "a heartbeat",
    b'"aggregate_type":': "a notification",
}
_REWRITTEN = (b'"__deleted":"true"', b'"__deleted":"false"')  # what the transform adds to rows without envelope


_HEARTBEAT = (b'{"serverName":', b'{"ts_ms":')  # how key and value of one without schema begin


def recognize(record: SampleRecord) -> str | None:
    """Returns the evidence that a record is of this protocol; None if there is none.

    Rows without envelope are recognized if the transform rewrites deletes. A record in Avro of another protocol may have the
    same header.
    """
    value = record.value or b""
    if _OTHER in value:
        return None
    if value.startswith(b"{"):
        reasons = (f"the value is JSON with {text.decode()}" for text in _CONNECTORS.values() if text in value)
        marks = (f"the value is {what}: {text.decode()}" for text, what in _MARKS.items() if text in value)
        beat = (record.key or b"").startswith(_HEARTBEAT[0]) and value.startswith(_HEARTBEAT[1])
        rewritten = (f"the value is a row without envelope: {text.decode()}" for text in _REWRITTEN if text in value)
        return next(reasons, next(marks, next(rewritten, "key and value are a heartbeat's" if beat else None)))
    parts = [data for data in (record.key, record.value) if data is not None]
    if not parts or not all(data[:1] == b"\x00" and len(data) > 4 and any(data[1:5]) for data in parts):
        return None
    return "Confluent's header, 00 and a schema id: Avro"


def likely(record: SampleRecord) -> dict[str, str]:
    """Returns the options that decoding needs, as far as the bytes of the record show them."""
    value = record.value or b""
    if value[:1] == b"\x00":
        return {"converter": "avro"}
    return {"unwrap": "true"} if any(text in value for text in _REWRITTEN) else {}
