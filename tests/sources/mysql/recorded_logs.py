"""Recorded binary logs, as a server sends them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from changefeed.mysql.binlog.framing import split_file
from changefeed.sources.mysql.batches import LogBatch, divide
from changefeed.sources.mysql.dump import LogEvent
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.tables import Captured
from changefeed.sources.mysql.xa import PreparedLog

VECTORS = Path(__file__).parents[2] / "mysql" / "binlog" / "vectors"
FILE = "binlog.000007"
TYPES = {("logged", "t0"): {"u": "uuid", "in4": "inet4", "in6": "inet6"}}
CAPTURED = Captured(("*.*",), TYPES)


def log(name: str) -> list[LogEvent]:
    """The events of a recorded log, as a server sends them from its start."""
    frames = list(split_file((VECTORS / f"{name}.binlog").read_bytes()))
    sent = []
    for frame in frames:
        end = frame.position + len(frame.data)
        sent.append(
            LogEvent(frame.data[4], LogPosition(FILE, frame.position), LogPosition(FILE, end), frame.data, placed=True)
        )
    return sent


def batches(sent: list[LogEvent], most_bytes: int) -> Iterator[LogBatch]:
    """All batches of a log."""
    at, maps, prepared = sent[0].at, tuple[bytes, ...](), PreparedLog()
    while True:
        batch = divide(from_position(sent, at), at, maps, most_bytes, prepared=prepared)
        if not batch.slices:
            return
        yield batch
        at, maps, prepared = batch.end, batch.maps, PreparedLog(dict(batch.prepared))


def from_position(sent: list[LogEvent], at: LogPosition) -> Iterator[LogEvent]:
    """The events from a position on; a server sends the format description again, without a place."""
    first = sent[0]
    if at != first.at:
        yield LogEvent(first.code, at, at, first.data, placed=False)
    yield from (event for event in sent if event.at.number >= at.number)
