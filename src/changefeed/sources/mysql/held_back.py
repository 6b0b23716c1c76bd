"""Holds the events of a transaction back until its end, when a stream can tell which of its rows do not count.

    GTID  rows  rows  ROLLBACK        marked as undone, and so is a part up to a savepoint: `rolled_back.py`
    GTID  rows  XA_PREPARE            marked as prepared: `xa.py`
    GTID  XA COMMIT                   the same; the stream reads the rows again, from the place of the transaction
    GTID  rows  XID                   as they are

Rule 1. The events of a transaction are held until the next one begins, or the log ends.
Rule 2. Those of one that is larger than a batch are let go before: a rollback is refused then (`rolled_back.py`). A transaction
        that may be prepared is held whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from changefeed.sources.mysql.dump import GTIDS, LogEvent
from changefeed.sources.mysql.rolled_back import Rollbacks, Undone
from changefeed.sources.mysql.source_offset import Prepared
from changefeed.sources.mysql.xa import PreparedLog, ends_prepared


def held_back(events: Iterable[LogEvent], most_bytes: int) -> Iterator[LogEvent]:
    """Yields the events, with marks.

    Args:
        events: of the log.
        most_bytes: see Rule 2.
    """
    rollbacks, prepared = Rollbacks(), PreparedLog(find=lambda name, before: Prepared(before, before))
    held, size, undone = list[LogEvent](), 0, list[Undone]()
    xa_end: LogEvent | None = None  # of the held events, XA_PREPARE or the statement that ends a prepared transaction
    for event in events:
        if event.code in GTIDS or (size > most_bytes and not prepared.is_inside):
            yield from _marked(held, undone, xa_end)
            held, size, undone, xa_end = [], 0, [], None
        held.append(event)
        size += len(event.data)
        if prepared.add(event) is not None or ends_prepared(event):
            xa_end = event
        if (rows := rollbacks.add(event)) is not None and held[0].at.number <= rows.start.number:
            undone.append(rows)
    yield from _marked(held, undone, xa_end)


def _marked(events: list[LogEvent], undone: Sequence[Undone], xa_end: LogEvent | None) -> Iterator[LogEvent]:
    """Yields events, of which those behind the end of their transaction belong to the log's files."""
    for event in events:
        at = event.at.number
        if event.placed and xa_end is not None and at <= xa_end.at.number:
            yield replace(event, is_prepared=True)
        elif event.placed and any(start.number <= at <= end.number for start, end in undone):
            yield replace(event, is_undone=True)
        else:
            yield event
