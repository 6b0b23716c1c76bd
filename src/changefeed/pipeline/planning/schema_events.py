"""Distinct schema changes among chunks."""

from __future__ import annotations

from collections.abc import Iterable

from changefeed.model.event import SchemaChange
from changefeed.pipeline.pending.chunk_info import ChunkInfo


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
