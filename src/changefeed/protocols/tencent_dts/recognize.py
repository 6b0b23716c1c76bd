"""Recognizes records of this protocol: an Envelope of version 1, and a `ps` in the headers."""

from __future__ import annotations

from changefeed.protocols.base import SampleRecord

_VERSION, _TOTAL, _DATA = b"\x08\x01", b"\x10", b'"'  # fields 1, 2 and 4, each with its number and wire type


def recognize(record: SampleRecord) -> str | None:
    """Returns why the record seems to be of this protocol; None if it does not."""
    value = record.value or b""
    after = value[len(_VERSION) : len(_VERSION) + 1]
    if not value.startswith(_VERSION) or after not in (_TOTAL, _DATA):
        return None
    header = ", with the header ps" if "ps" in record.headers else ""
    return f"the value is an Envelope, version 1{header}"
