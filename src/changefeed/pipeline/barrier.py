"""The barrier by marks: up to where all tables may move together.

It is the smallest resolved mark over all partitions. A partition without a mark holds it: nobody knows what is still on
its way there. Marks that go back after a restart of the producer are ignored, and so is what was sent again below the
barrier: it has been applied. Rows between the barrier and their own partition's mark wait; they are never dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from changefeed.pipeline.pending import ChunkInfo
from changefeed.pipeline.state import FolderSum, Hold, Positions, State
from changefeed.pipeline.transactions import is_waiting


def named(chunks: Iterable[ChunkInfo], name: str) -> int | None:
    """The commit_ts of the mark to which the upstream gave this name; None when it was not read yet."""
    return next((c.max_ts for c in chunks if c.mark == name), None)


def name_of(chunks: Iterable[ChunkInfo], commit_ts: int | None) -> str | None:
    """The name of the mark at this commit_ts; None when it has none."""
    return next((c.mark for c in chunks if c.mark is not None and c.max_ts == commit_ts), None)


def barrier(state: State, partitions: Iterable[tuple[str, int]], until: int | None) -> int | None:
    """The commit_ts up to which everything has been read, at most `until`; None when some partition has no mark yet.

    It never goes back: a new partition without a mark leaves it where it is.
    """
    known = state.partitions().union(partitions)
    marks = [state.resolved.get(topic, {}).get(partition) for topic, partition in known]
    if not marks or any(mark is None for mark in marks):
        return state.barrier
    lowest = min(mark for mark in marks if mark is not None)
    if until is not None:
        lowest = min(lowest, until)
    return lowest if state.barrier is None else max(lowest, state.barrier)


def holders(state: State, partitions: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """The partitions without a mark: each of them alone holds the barrier."""
    known = state.partitions().union(partitions)
    return sorted((topic, p) for topic, p in known if state.resolved.get(topic, {}).get(p) is None)


def absorbed(
    state: State,
    fresh: list[ChunkInfo],
    staged: tuple[str, FolderSum],
    token: str,
    repeated: int,
    *,
    quarantine: bool,
) -> State:
    """The state after reading a batch and before applying any of it; with `quarantine`, dead letters hold their table.

    Args:
        state: before the batch.
        fresh: the batch's chunks.
        staged: the folder with them, and what it holds.
        token: where the source goes on.
        repeated: how many of its rows have been applied before.
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
    resolved = _highest(state.resolved, ((c.topic, c.partition, c.max_ts) for c in fresh if c.kind == "resolved"))
    dated = ("rows", "schema", "resolved")
    latest = _highest(state.latest, ((c.topic, c.partition, c.max_ts) for c in fresh if c.kind in dated))
    positions = _highest(state.positions, ((c.topic, c.partition, c.last + 1) for c in fresh if c.kind == "read"))
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
        positions=positions,
        source=token,
        waiting=waiting,
        pending=(*state.pending, folder) if keeps else state.pending,
        sums=state.sums | ({folder: total} if keeps else {}),
        held=held,
    )


def without(state: State, topics: Collection[str], token: str) -> State:
    """The state of a source that goes on at `token` and no longer has these topics: their marks hold nothing back.

    Changes of theirs that are pending stay, and are applied when the marks of the others cover them.
    """

    def left(known: Positions) -> Positions:
        return {topic: offsets for topic, offsets in known.items() if topic not in topics}

    return replace(
        state,
        resolved=left(state.resolved),
        latest=left(state.latest),
        marks=left(state.marks),
        positions=left(state.positions),
        source=token,
    )


def still_pending(state: State, chunks: list[ChunkInfo], held: Mapping[str, Hold]) -> tuple[str, ...]:
    """The folders that hold changes, named marks or ends above the barrier, what waits, or what a held table will need.

    A schema change may concern a table that its event does not name (RENAME, DROP DATABASE): with any table in
    quarantine all of them are kept.
    """
    waiting = {
        c.folder
        for c in chunks
        if (c.kind == "rows" and (c.name in held or _above(c, state.barrier)))
        or (c.kind == "schema" and (bool(held) or _above(c, state.barrier)))
        or (c.mark is not None and _above(c, state.barrier))
        or is_waiting(c, state.ended)
    }
    return tuple(folder for folder in state.pending if folder in waiting or folder == state.waiting)


def _above(chunk: ChunkInfo, upto: int | None) -> bool:
    return upto is not None and (chunk.max_ts is None or chunk.max_ts > upto)


def _sum(chunks: list[ChunkInfo], kind: str) -> int:
    return sum(c.rows for c in chunks if c.kind == kind)


def _highest(known: Positions, found: Iterable[tuple[str, int, int | None]]) -> Positions:
    merged = {topic: dict(offsets) for topic, offsets in known.items()}
    for topic, partition, value in found:
        if value is not None:
            here = merged.setdefault(topic, {})
            here[partition] = max(value, here.get(partition, value))
    return merged
