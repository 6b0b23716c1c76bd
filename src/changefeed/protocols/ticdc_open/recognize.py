"""Recognizes records of this protocol: a version and a length in front of `{"ts":`."""

from __future__ import annotations

from changefeed.protocols.base import SampleRecord
from changefeed.wire import lz4_frame

_VERSION = (1).to_bytes(8, "big")
_HEAD = 16  # version and first length of a key


def recognize(record: SampleRecord) -> str | None:
    """Returns why the record seems to be of this protocol; None if it does not."""
    key = record.key or b""
    if not key.startswith(_VERSION) or not key[_HEAD:].startswith(b'{"ts":'):
        return None
    return 'the key is a version 1, a length, and {"ts":…}'


def likely(record: SampleRecord) -> dict[str, str]:
    """Returns the options that the bytes show: classic gives rows a `rid`, and a value is JSON unless it is compressed."""
    key, body = record.key or b"", (record.value or b"")[8:]
    options = {}
    if b'"tbl":' in key and b'"t":1}' in key:
        options["profile"] = "classic" if b'"rid":' in key else "newarch"
    if body and not body.startswith(b"{"):
        options["large-message-handle-compression"] = "lz4" if body.startswith(lz4_frame.MAGIC) else "snappy"
    return options
