"""Schema changes among chunks, each once."""

from __future__ import annotations

from collections.abc import Iterable

from changefeed.model.event import SchemaChange
from changefeed.pipeline.pending.store import ChunkInfo


def distinct_changes(chunks: Iterable[ChunkInfo], after: int | None, upto: int | None) -> list[SchemaChange]:
    """The schema changes in (after, upto], each once, in their order."""
    found: dict[tuple[int | None, str | None, str | None, str | None], SchemaChange] = {}
    events = [c.event for c in chunks if c.event is not None and within(c.event.commit_ts, after, upto)]
    for event in sorted(events, key=lambda e: (e.commit_ts or 0, e.place.topic, e.place.partition, e.place.offset)):
        found.setdefault((event.commit_ts, event.database, event.table, event.ddl), event)
    return list(found.values())


def within(ts: int | None, after: int | None, upto: int | None) -> bool:
    """Whether after < ts <= upto; a change without commit_ts is only where there are no bounds."""
    if ts is None:
        return after is None and upto is None
    return (after is None or ts > after) and (upto is None or ts <= upto)
