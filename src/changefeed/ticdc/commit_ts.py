"""The commit_ts of an event, and of whole columns of rows, for protocols whose messages carry one.

Rule 1. A foreign event with only a commit time gets the first commit_ts of that millisecond, as TiDB would assign it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.columnar.events import Row
from changefeed.errors import UnsupportedError
from changefeed.model.event import Resolved, SchemaChange
from changefeed.ticdc import tso

_MOST_MS = tso.LIMIT >> tso.LOGICAL_BITS
_PER_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000)}


def commit_ts(event: Row | SchemaChange | Resolved) -> int | None:
    """The commit_ts of an event; None if it has neither a commit_ts nor a commit time."""
    if event.commit_ts is not None:
        return event.commit_ts
    if event.instant is None or event.instant.us < 0:
        return None
    return tso.at(event.instant.us // 1000)


def needed_ts(event: Row | SchemaChange, protocol: str) -> int:
    """The same as `commit_ts`, for a protocol that requires one.

    Raises:
        UnsupportedError: the event has neither.
    """
    ts = commit_ts(event)
    if ts is None:
        named = event if isinstance(event, Row) else f"{event.type} at {event.place}"
        raise UnsupportedError(f"{named}: {protocol} needs a commit_ts or a commit time")
    return ts


def column(rows: pa.RecordBatch) -> pa.Array:
    """The commit_ts of the rows of a table batch; NULL for a row that only the encoder can handle."""
    declared = rows.column("commit_ts")
    if not declared.null_count:
        return declared
    times, by = _PER_MS[rows.schema.field("commit_time").type.unit]
    time = rows.column("commit_time").cast(pa.int64())
    ms = pc.divide(pc.multiply(time, times), by)
    known = pc.and_(pc.greater_equal(time, 0), pc.less(ms, _MOST_MS))
    ms = pc.if_else(known, ms, pa.scalar(None, pa.int64())).cast(pa.uint64())
    return pc.coalesce(declared, pc.shift_left(ms, pa.scalar(tso.LOGICAL_BITS, pa.uint64())))
