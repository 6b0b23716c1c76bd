"""What templates need of each row beside its images, by whole columns. NULL leaves a row to the encoder."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.wire import tso

_MOST_MS = tso.LIMIT >> tso.LOGICAL_BITS
_PER_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000)}


def commit_ts(rows: pa.RecordBatch) -> pa.Array:
    """The commit ts; of rows from elsewhere the first one of their commit time."""
    found = rows.column("commit_ts")
    if not found.null_count:
        return found
    times, by = _PER_MS[rows.schema.field("commit_time").type.unit]
    time = rows.column("commit_time").cast(pa.int64())
    ms = pc.divide(pc.multiply(time, times), by)
    told = pc.and_(pc.greater_equal(time, 0), pc.less(ms, _MOST_MS))
    ms = pc.if_else(told, ms, pa.scalar(None, pa.int64())).cast(pa.uint64())
    return pc.coalesce(found, pc.shift_left(ms, pa.scalar(tso.LOGICAL_BITS, pa.uint64())))


def silent(origin: pa.Array, names: str) -> pa.Array:
    r"""Whether an origin, or none, surely has no member of these names (`a|b`); what is escaped may be anything."""
    return pc.invert(pc.coalesce(pc.match_substring_regex(origin, rf'"(?:{names})"|\\u'), False))
