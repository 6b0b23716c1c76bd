"""The state after a batch has been read and before it is applied; and the state without topics that were removed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import pyarrow.compute as pc

from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.state import NOTHING, FolderSum, Hold, Positions, State
from changefeed.stages.lone_tombstones import still_last


def absorbed(
    state: State,
    fresh: list[ChunkInfo],
    staged: tuple[str, FolderSum],
    source_offset: str,
    repeated: int,
    *,
    quarantine: bool,
) -> State:
    """The state after reading a batch and before applying any of it; with `quarantine`, dead letters quarantine their table.

    Args:
        state: before the batch.
        fresh: the batch's chunks.
        staged: name of the batch's folder in the pending store, and its sum.
        source_offset: where the source continues.
        repeated: number of its rows that have been applied before.
    """
    folder, total = staged
    counts = state.counts
    counts = replace(
        counts,
        records=counts.records + _sum(fresh, "read"),
        rows=counts.rows + _sum(fresh, "rows"),
        dead=counts.dead + _sum(fresh, "dead"),
        repeated=counts.repeated + repeated,
    )
    resolved = highest(state.resolved, ((c.topic, c.partition, c.max_ts) for c in fresh if c.kind == "resolved"))
    latest = _latest(state, fresh)
    positions = highest(state.positions, ((c.topic, c.partition, c.last + 1) for c in fresh if c.kind == "read"))
    dated_records = {topic: dict(partitions) for topic, partitions in state.dated.items()}
    for chunk in fresh:
        if chunk.dated is not None:
            dated_records.setdefault(chunk.topic, {})[chunk.partition] = dict(chunk.dated)
    kinds = ("rows", "schema", "transactions", "waiting")
    keeps = any(c.kind in kinds or c.mark for c in fresh)
    waiting = folder if any(c.kind == "waiting" for c in fresh) else None
    held = dict(state.held)
    if quarantine:
        for chunk in fresh:
            if chunk.kind == "dead":
                held[chunk.name] = replace(held.get(chunk.name, Hold(state.barrier)), released=False, late=False)
    return replace(
        state,
        counts=counts,
        resolved=resolved,
        latest=latest,
        dated=still_last(dated_records, positions),
        positions=positions,
        source=source_offset,
        waiting=waiting,
        pending=(*state.pending, folder) if keeps else state.pending,
        sums=state.sums | ({folder: total} if keeps else {}),
        held=held,
    )


def _latest(state: State, fresh: list[ChunkInfo]) -> Positions:
    """`State.latest` after a batch. A new topic with a dead letter, or with tombstones only, is in it, too: it may have rows."""
    dated = ((c.topic, c.partition, c.max_ts) for c in fresh if c.kind in ("rows", "schema", "resolved"))
    ends = (
        c.topic
        for c in fresh
        if c.transactions is not None and pc.any(c.transactions.column("mark").is_valid()).as_py()
    )
    known_topics = state.positions.keys() | ends
    unseen = (c for c in fresh if c.kind in ("dead", "tombstones") and c.topic not in known_topics)
    return highest(highest(state.latest, dated), ((c.topic, c.partition, NOTHING) for c in unseen))


def without(state: State, topics: Collection[str], source_offset: str) -> State:
    """The state of a source that continues at `source_offset` without these topics, which no longer block the barrier.

    Their pending changes stay, and are applied when the resolved events of the other topics cover them.
    """

    def without_topics(positions: Positions) -> Positions:
        return {topic: offsets for topic, offsets in positions.items() if topic not in topics}

    return replace(
        state,
        resolved=without_topics(state.resolved),
        latest=without_topics(state.latest),
        dated={topic: records for topic, records in state.dated.items() if topic not in topics},
        marks=without_topics(state.marks),
        heads={topic: of for topic, of in state.heads.items() if topic not in topics},
        statements={topic: of for topic, of in state.statements.items() if topic not in topics},
        ends=without_topics(state.ends),
        positions=without_topics(state.positions),
        source=source_offset,
    )


def _sum(chunks: list[ChunkInfo], kind: str) -> int:
    return sum(c.rows for c in chunks if c.kind == kind)


def highest(positions: Positions, updates: Iterable[tuple[str, int, int | None]]) -> Positions:
    """The highest value for each topic and partition: that in `positions`, or one of the updates."""
    merged = {topic: dict(offsets) for topic, offsets in positions.items()}
    for topic, partition, value in updates:
        if value is not None:
            offsets = merged.setdefault(topic, {})
            offsets[partition] = max(value, offsets.get(partition, value))
    return merged
