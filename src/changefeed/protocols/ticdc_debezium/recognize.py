"""Recognizes records of this protocol: JSON whose source block names TiCDC, compressed or not."""

from __future__ import annotations

from changefeed.errors import ProtocolError
from changefeed.protocols.base import SampleRecord
from changefeed.wire import compression

_OPENING, _SOURCE = b'{"payload":', b'"connector":"TiCDC"'
_MOST = 1 << 24  # bytes that are worth inflating for a look


def recognize(record: SampleRecord) -> str | None:
    """Returns why the record seems to be of this protocol; None if it does not."""
    name, text = _inflated(record.value or b"")
    if not text.startswith(b"{") or _SOURCE not in text:
        return None
    return f"the value is JSON with {_SOURCE.decode()}" + ("" if name == "none" else f" in {name}")


def likely(record: SampleRecord) -> dict[str, str]:
    """Returns the options that the bytes of the record show."""
    name, text = _inflated(record.value or b"")
    options = {} if name == "none" else {"large-message-handle-compression": name}
    if b'"op":"m"' in text or b'"tidb_type":' in text:
        options["enable-tidb-extension"] = "true"
    if b',"schema":{' not in text:
        options["debezium-disable-schema"] = "true"
    if b'"start_ts":' in text:
        options["debezium-include-start-ts"] = "true"
    return options


def _inflated(value: bytes) -> tuple[str, bytes]:
    """Returns the compression of the value, and the decompressed text."""
    name = compression.guessed(value, _OPENING)
    try:
        return name, compression.inflate(value, name, _MOST)
    except ProtocolError:
        return "none", value
