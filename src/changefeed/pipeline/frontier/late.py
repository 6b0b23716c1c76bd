"""Tables that come by a topic or a partition that joined when the barrier had passed.

A partition is behind as long as its own mark has not reached the barrier. Changes at or below the barrier that it brings
of tables that the pipeline has, or had, count as sent again. A table that the pipeline has never had is held from its
first change on, until no partition is behind; the next cut then takes it in whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from changefeed.pipeline.pending.store import ChunkInfo
from changefeed.pipeline.planning.table_path import table_path
from changefeed.pipeline.state import Hold, State


def with_new_tables(state: State, fresh: Iterable[ChunkInfo], excluded: Callable[[str], bool]) -> State:
    """The state with a hold on each table that a partition which is behind brings for the first time.

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
        known = (
            chunk.name in state.tables or chunk.name in held or table_path(chunk.database, chunk.table) in state.left
        )
        if not known and not excluded(chunk.name) and _is_behind(state, (chunk.topic, chunk.partition)):
            held[chunk.name] = Hold(None, late=True)
    return replace(state, held=held)


def released(state: State, partitions: Collection[tuple[str, int]]) -> State:
    """The state with the late tables released, once none of the partitions is behind."""
    if not any(hold.late for hold in state.held.values()):
        return state
    if any(_is_behind(state, partition) for partition in state.partitions().union(partitions)):
        return state
    return replace(state, held={n: replace(h, released=True) if h.late else h for n, h in state.held.items()})


def _is_behind(state: State, partition: tuple[str, int]) -> bool:
    topic, number = partition
    mark = state.resolved.get(topic, {}).get(number)
    return state.barrier is not None and (mark is None or mark < state.barrier)
