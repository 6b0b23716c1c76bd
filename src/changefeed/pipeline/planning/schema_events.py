"""Schema changes among chunks: each once, and those of snapshots that were interrupted."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pyarrow.compute as pc

from changefeed.model.event import SchemaChange
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.protocols.origin import LAST, snapshot_mark


def distinct_changes(chunks: Iterable[ChunkInfo], after: int | None, upto: int | None) -> list[SchemaChange]:
    """The schema changes in (after, upto], each once, in order."""
    events: dict[tuple[int | None, str | None, str | None, str | None], SchemaChange] = {}
    sent = [c.event for c in chunks if c.event is not None and within(c.event.commit_ts, after, upto)]
    for event in sorted(sent, key=lambda e: (e.commit_ts or 0, e.place.topic, e.place.partition, e.place.offset)):
        events.setdefault((event.commit_ts, event.database, event.table, event.ddl), event)
    return list(events.values())


def within(ts: int | None, after: int | None, upto: int | None) -> bool:
    """Whether after < ts <= upto; changes without commit_ts occur only without bounds."""
    if ts is None:
        return after is None and upto is None
    return (after is None or ts > after) and (upto is None or ts <= upto)


def interrupted_snapshots(chunks: Iterable[ChunkInfo]) -> set[int]:
    """The commit_ts of snapshots without rows that a producer began, and began again with nothing streamed in between.

    Only the last schema change of such a snapshot shows that no rows follow, and a producer that is killed has not sent it.

    Args:
        chunks: all pending chunks.
    """
    chunks, marks = [*chunks], dict[int, set[str | None]]()
    for chunk in chunks:
        if chunk.event is not None and chunk.event.commit_ts is not None:
            marks.setdefault(chunk.event.commit_ts, set()).add(snapshot_mark(chunk.event))
    interrupted = set[int]()
    for ts, following in reversed([*pairwise(sorted(marks))]):
        is_rowless = LAST in marks[following] or following in interrupted
        if is_rowless and marks[ts] == {"true"} and not any(_has_row(chunk, ts, following) for chunk in chunks):
            interrupted.add(ts)
    return interrupted


def _has_row(chunk: ChunkInfo, after: int, upto: int) -> bool:
    """Whether a chunk shows a row in (after, upto]; of rows alone, it shows the first and the last commit_ts."""
    if chunk.transactions is not None:
        is_row, ts = pc.is_null(chunk.transactions.column("events")), chunk.transactions.column("commit_ts")
        inside = pc.and_(pc.greater(ts, after), pc.less_equal(ts, upto))
        return bool(pc.any(pc.and_(is_row, inside)).as_py())
    return chunk.kind == "rows" and any(
        ts is not None and within(ts, after, upto) for ts in (chunk.min_ts, chunk.max_ts)
    )
