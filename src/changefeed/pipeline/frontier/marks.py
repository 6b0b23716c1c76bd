"""The barrier from resolved events: the commit_ts to which all tables may move together.

It is the smallest resolved commit_ts of all partitions. A partition without a resolved event blocks it, because earlier changes
may still follow there. Resolved events that go back after a restart of the producer are ignored. So are changes that are sent
again below the barrier: they have been applied. Rows between the barrier and their partition's resolved commit_ts wait; they
are never dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from changefeed.pipeline.frontier import gone, heads, late
from changefeed.pipeline.frontier.base import Reading, Until
from changefeed.pipeline.frontier.cut import CutFrontier, repeated
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.state import State
from changefeed.stages.changes import Window


@dataclass(frozen=True, slots=True)
class Marks:
    """See `FrontierStrategy`.

    Attributes:
        excluded: whether a table, by `database.table`, is skipped.
        restored_ddl: whether TiDB wrote the DDL, see `mysql.ddl.parse`.
    """

    excluded: Callable[[str], bool]
    restored_ddl: bool = False

    drops_resent = True
    needs_ends = False

    def arrived(self, state: State, fresh: list[ChunkInfo]) -> State:
        """See `late.py`: new tables of partitions that are behind wait; and `gone.py`."""
        state = gone.with_statements(state, fresh, restored=self.restored_ddl)
        return late.with_new_tables(state, fresh, self.excluded)

    def check(self, state: State, fresh: list[ChunkInfo], count: Callable[[ChunkInfo, Window], int]) -> None:
        """See `FrontierStrategy`."""
        heads.check(state, fresh, count)

    def repeated(self, state: State, chunk: ChunkInfo) -> list[Window]:
        """See `FrontierStrategy`."""
        return repeated(state, chunk)

    def advance(self, reading: Reading) -> CutFrontier:
        """See `FrontierStrategy`."""
        state, until = late.released(reading.state, reading.partitions), reading.until
        point = named(reading.chunks, until) if isinstance(until, str) else until
        commit_ts = barrier(state, reading.partitions, point)
        mark = name_of(reading.chunks, commit_ts) if commit_ts != state.barrier else state.mark
        return CutFrontier(replace(state, barrier=commit_ts, mark=mark), state.barrier)

    def is_reached(self, state: State, until: Until) -> bool:
        """See `FrontierStrategy`."""
        if isinstance(until, int):
            return state.barrier is not None and state.barrier >= until
        return until is not None and until == state.mark

    def waits(self, state: State) -> bool:
        """False: changes wait for resolved events only, never for the source to be idle."""
        return False


def named(chunks: Iterable[ChunkInfo], name: str) -> int | None:
    """Returns the commit_ts of the resolved event with this name; None if it has not been read yet."""
    return next((c.max_ts for c in chunks if c.mark == name), None)


def name_of(chunks: Iterable[ChunkInfo], commit_ts: int | None) -> str | None:
    """Returns the name of the resolved event at this commit_ts; None if it has none."""
    return next((c.mark for c in chunks if c.mark is not None and c.max_ts == commit_ts), None)


def barrier(state: State, partitions: Iterable[tuple[str, int]], until: int | None) -> int | None:
    """Returns the commit_ts up to which everything has been read, at most `until`; None if a partition has no resolved event.

    The barrier never goes back: a new partition without a resolved event leaves it unchanged.
    """
    all_partitions = state.partitions().union(partitions)
    marks = [state.resolved.get(topic, {}).get(partition) for topic, partition in all_partitions]
    if not marks or any(mark is None for mark in marks):
        return state.barrier
    lowest = min(mark for mark in marks if mark is not None)
    if until is not None:
        lowest = min(lowest, until)
    return lowest if state.barrier is None else max(lowest, state.barrier)
