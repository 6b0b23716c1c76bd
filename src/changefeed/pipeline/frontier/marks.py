"""The barrier from resolved events: the commit_ts to which all tables may move together.

It is the smallest resolved commit_ts of all partitions. A partition without a resolved event blocks it, because earlier changes
may still follow there. Resolved events that go back after a restart of the producer are ignored. So are changes that are sent
again below the barrier: they have been applied. Rows between the barrier and their partition's resolved commit_ts wait; they
are never dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from changefeed.pipeline.frontier import late
from changefeed.pipeline.frontier.base import Partition, Until
from changefeed.pipeline.frontier.cut import CutFrontier, repeated
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.state import State
from changefeed.stages.changes import Window


@dataclass(frozen=True, slots=True)
class Marks:
    """See `FrontierStrategy`.

    Attributes:
        excluded: whether a table, by `database.table`, is skipped.
    """

    excluded: Callable[[str], bool]

    drops_resent = True
    needs_ends = False

    def arrived(self, state: State, fresh: list[ChunkInfo]) -> State:
        """See `late.py`: new tables of partitions that are behind wait."""
        return late.with_new_tables(state, fresh, self.excluded)

    def repeated(self, state: State, chunk: ChunkInfo) -> list[Window]:
        """See `FrontierStrategy`."""
        return repeated(state, chunk)

    def advance(
        self,
        state: State,
        chunks: list[ChunkInfo],
        fresh: list[ChunkInfo],
        partitions: Collection[Partition],
        until: Until,
        *,
        caught_up: bool,
        idle: bool,
        ended: Mapping[Partition, int],
    ) -> CutFrontier:
        """See `FrontierStrategy`."""
        state = late.released(state, partitions)
        point = named(chunks, until) if isinstance(until, str) else until
        at = barrier(state, partitions, point)
        mark = name_of(chunks, at) if at != state.barrier else state.mark
        return CutFrontier(replace(state, barrier=at, mark=mark), state.barrier)

    def is_reached(self, state: State, until: Until) -> bool:
        """See `FrontierStrategy`."""
        if isinstance(until, int):
            return state.barrier is not None and state.barrier >= until
        return until is not None and until == state.mark

    def waits(self, state: State) -> bool:
        """Never: a mark comes, or it does not."""
        return False


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
