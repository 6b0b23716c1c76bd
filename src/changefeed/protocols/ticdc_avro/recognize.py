"""Recognizes records of this protocol: Confluent's header in front of key and value, or the first byte of a message."""

from __future__ import annotations

from changefeed.protocols.base import SampleRecord

_MARK_BYTES = 9  # kind and ts


def recognize(record: SampleRecord) -> str | None:
    """Returns why the record seems to be of this protocol; None if it does not. Avro of other protocols has the same header."""
    key, value = record.key, record.value
    if _mark(value):
        return {1: "the value is a DDL message, 01 {", 2: "the value is a resolved message, 02 and a ts"}.get(
            (value or b"")[0], "the value is a delete marker, 03 and a ts"
        )
    parts = [data for data in (key, value) if data is not None]
    if not parts or not all(data[:1] == b"\x00" and len(data) > 4 and any(data[1:5]) for data in parts):
        return None  # no schema has the id 0, which other bytes may seem to be
    return "Confluent's header, 00 and a schema id: Avro"


def likely(record: SampleRecord) -> dict[str, str]:
    """Returns the options that the bytes show: messages other than rows are only written with `avro-enable-watermark`."""
    if not _mark(record.value):
        return {}
    options = {"enable-tidb-extension": "true", "avro-enable-watermark": "true"}
    return options | ({"profile": "newarch"} if (record.value or b"")[0] == 3 else {})


def _mark(value: bytes | None) -> bool:
    if not value:
        return False
    return value.startswith(b"\x01{") or (value[0] in (2, 3) and len(value) == _MARK_BYTES)
