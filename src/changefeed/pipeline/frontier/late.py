"""Tables of a topic or partition that joined after the barrier had moved.

A partition is behind as long as its own resolved commit_ts is below the barrier. If it sends changes at or below the barrier, for
tables that the pipeline has or had, they count as sent again. A table that is new to the pipeline is held from its first change
until no partition is behind; the next cut then includes all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.planning.table_path import table_path
from changefeed.pipeline.state import Hold, State


def with_new_tables(state: State, fresh: Iterable[ChunkInfo], excluded: Callable[[str], bool]) -> State:
    """The state with a hold on each new table from a partition that is behind.

    Args:
        state: before the batch.
        fresh: the batch's chunks.
        excluded: whether a table, by `database.table`, is skipped.
    """
    if state.barrier is None:
        return state
    held = dict(state.held)
    for chunk in fresh:
        if chunk.kind not in ("rows", "schema") or not chunk.database or not chunk.table:
            continue
        is_known = (
            chunk.name in state.tables or chunk.name in held or table_path(chunk.database, chunk.table) in state.left
        )
        if not is_known and not excluded(chunk.name) and is_behind(state, (chunk.topic, chunk.partition)):
            held[chunk.name] = Hold(None, late=True)
    return replace(state, held=held)


def released(state: State, partitions: Collection[tuple[str, int]]) -> State:
    """The state with the late tables released, if none of the partitions is behind."""
    if not any(hold.late for hold in state.held.values()):
        return state
    if any(is_behind(state, partition) for partition in state.partitions().union(partitions)):
        return state
    return replace(state, held={n: replace(h, released=True) if h.late else h for n, h in state.held.items()})


def is_behind(state: State, partition: tuple[str, int]) -> bool:
    """Whether a partition's own resolved commit_ts is below the barrier."""
    topic, number = partition
    mark = state.resolved.get(topic, {}).get(number)
    return state.barrier is not None and (mark is None or mark < state.barrier)
