"""The error for bytes of a binlog that cannot be parsed."""

from __future__ import annotations

from changefeed.errors import ProtocolError


class BinlogError(ProtocolError):
    """An event contradicts the format of the binlog, or is of a type that this parser does not have.

    Attributes:
        position: offset of the event in its binlog file; None if the event carries none.
        event: name of the event's type, such as `TABLE_MAP_EVENT`, or its number; None if there is no whole header.
        reason: a stable code: `truncated`, `bad-checksum`, `unknown-event`, …
        byte: offset of the contradiction in the event (for compressed events: in the decompressed part), or None.
    """

    default_reason = "binlog"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        byte: int | None = None,
        position: int | None = None,
        event: str | None = None,
    ) -> None:
        place = "" if position is None else f" at position {position}"
        at = "" if byte is None else f" at byte {byte}"
        super().__init__(f"binlog: {event or 'event'}{place}: {message}{at}", reason=reason, byte=byte)
        self.position = position
        self.event = event
