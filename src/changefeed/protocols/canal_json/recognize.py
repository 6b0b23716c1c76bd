"""Recognizes records of this protocol: JSON with `isDdl`, compressed or not."""

from __future__ import annotations

import re

from changefeed.errors import ProtocolError
from changefeed.protocols.base import SampleRecord
from changefeed.wire import compression

_OPENINGS = {"ticdc": b'{"id":', "canal": b'{"data":'}
_SEEN = (b'"isDdl":', b'"database":', b'"type":"')
_FULL_TYPES = re.compile(rb'"mysqlType":\{[^}]*\(')
_MOST = 1 << 24  # bytes that are worth inflating for a look


def recognize(record: SampleRecord) -> str | None:
    """Returns why the record seems to be of this protocol; None if it does not."""
    name, text = _inflated(record.value or b"")
    if not text.startswith(b"{") or not all(seen in text for seen in _SEEN):
        return None
    return "the value is JSON with isDdl, database and type" + ("" if name == "none" else f" in {name}")


def likely(record: SampleRecord) -> dict[str, str]:
    """Returns the options that the bytes of the record show."""
    name, text = _inflated(record.value or b"")
    options = {} if name == "none" else {"large-message-handle-compression": name}
    if text.startswith(_OPENINGS["canal"]):
        options["profile"] = "canal"
    elif _FULL_TYPES.search(text):
        options["content-compatible"] = "true"
    if b'"_tidb":{' in text:
        options["enable-tidb-extension"] = "true"
    return options


def _inflated(value: bytes) -> tuple[str, bytes]:
    """Returns the compression of the value, and the decompressed text."""
    for opening in _OPENINGS.values():
        name = compression.guessed(value, opening)
        if name != "none":
            try:
                return name, compression.inflate(value, name, _MOST)
            except ProtocolError:
                continue
    return "none", value
