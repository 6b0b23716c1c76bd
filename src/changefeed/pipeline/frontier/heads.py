"""Checks the claim that changes at or below the barrier were sent before.

A partition is in order for each table, also when its producer sends again. So a change above all that its partition has ever sent
of its table was not sent before. If it is at or below the barrier, a resolved event or the end of a transaction has promised too
much, or several producers write to the topic, and the promises of one do not hold for the others:

    changefeed 1   aa 732   resolved 742                         aa 752
    changefeed 2                          bb 532   resolved 542            the barrier is at 742: bb 532 was never read

Rule 1. Such a change is neither dropped nor applied: the run stops, and names the partition, the table and both commit_ts.
Rule 2. A partition that is behind the barrier, or has sent nothing before, is not checked: it has joined late, see `late.py`.
Rule 3. Rows without a key in a binlog go to any partition: a table of Debezium counts in all its partitions together.
Rule 4. A ledger of an earlier version has no heads: what had been read by then is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NoReturn

import pyarrow.compute as pc

from changefeed.errors import UnsupportedError
from changefeed.frames.sent import table_hash
from changefeed.pipeline.frontier.late import is_behind
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.state import NOTHING, State
from changefeed.stages.changes import Window

_SCHEMA_CHANGES = ""  # the name under which schema changes are kept


def with_heads(state: State, before: State, fresh: Iterable[ChunkInfo]) -> State:
    """The state with the highest commit_ts that each partition has sent of each table.

    Args:
        state, before: after and before the batch.
        fresh: the batch's chunks.
    """
    heads = {topic: {p: dict(tables) for p, tables in of.items()} for topic, of in before.heads.items()}
    for chunk in fresh:
        if chunk.max_ts is not None and chunk.kind in ("rows", "schema"):
            tables = heads.setdefault(chunk.topic, {}).setdefault(chunk.partition, {})
            name = _key(chunk)
            tables[name] = max(chunk.max_ts, tables.get(name, NOTHING))
    checked = before.checked
    if checked is None:  # the first batch with heads
        checked = NOTHING if (newest := before.newest()) is None else newest
    return replace(state, heads=heads, checked=checked)


def unsent(state: State, chunk: ChunkInfo, applied: int | None) -> list[Window]:
    """The window of a chunk whose changes were not sent before, but are at or below `applied`."""
    of_partition = state.heads.get(chunk.topic, {}).get(chunk.partition)
    if applied is None or not of_partition or chunk.kind not in ("rows", "schema"):
        return []
    head = max(of_partition.get(_key(chunk), NOTHING), NOTHING if state.checked is None else state.checked)
    return [Window(head, applied)] if head < applied else []


def check(state: State, chunks: Iterable[ChunkInfo], count: Callable[[ChunkInfo, Window], int]) -> None:
    """Checks the changes of a batch that are at or below the barrier; `count` returns the rows of a chunk in a window.

    Raises:
        UnsupportedError: a change was not sent before.
    """
    for chunk in chunks:
        if is_behind(state, (chunk.topic, chunk.partition)):
            continue
        applied = state.held[chunk.name].after if chunk.name in state.held else state.barrier
        for window in unsent(state, chunk, applied):
            if chunk.min_ts is None or chunk.max_ts is None or chunk.min_ts > (applied or 0):
                continue
            if chunk.max_ts > (window.after or 0) and count(chunk, window):
                _stop(chunk, max(chunk.min_ts, (window.after or 0) + 1), applied or 0)


def check_places(state: State, chunks: Iterable[ChunkInfo]) -> None:
    """The same for rows with places in a binlog, by their lines; see Rule 3.

    Raises:
        UnsupportedError: a row was not sent before.
    """
    if state.barrier is None:
        return
    chunks = list(chunks)
    of_tables: dict[str, int] = {}
    for partitions in state.heads.values():
        for tables in partitions.values():
            for name, ts in tables.items():
                of_tables[name] = max(ts, of_tables.get(name, NOTHING))
    lines = [(chunk.topic, chunk.partition, chunk.places) for chunk in chunks if chunk.places is not None]
    for chunk in chunks:
        if chunk.kind != "rows" or chunk.min_ts is None or chunk.min_ts > state.barrier or chunk.name in state.held:
            continue
        head = max(of_tables.get(chunk.name, NOTHING), NOTHING if state.checked is None else state.checked)
        for topic, partition, places in lines:
            if head < state.barrier and (topic, partition) == (chunk.topic, chunk.partition):
                ts = places.column("commit_ts")
                below = pc.and_(pc.greater(ts, head), pc.less_equal(ts, state.barrier))
                of_table = pc.and_(below, pc.equal(places.column("table"), table_hash(chunk.name)))
                if pc.any(of_table).as_py():
                    _stop(chunk, pc.min(ts.filter(of_table)).as_py(), state.barrier)


def _key(chunk: ChunkInfo) -> str:
    return chunk.name if chunk.kind == "rows" else _SCHEMA_CHANGES


def _stop(chunk: ChunkInfo, ts: int, applied: int) -> NoReturn:
    what = f"a row of {chunk.name}" if chunk.kind == "rows" else f"a schema change of {chunk.name}"
    raise UnsupportedError(
        f"{chunk.topic}:{chunk.partition} has sent {what} at {ts}, which it had not sent before, after it was complete up to "
        f"{applied}, where the tables are: several producers write to this topic, or the producer has broken its promise. "
        "Give each producer topics of its own, and start a new pipeline in an empty folder; with `consistency: key` it may "
        "read such a topic as it is"
    )
