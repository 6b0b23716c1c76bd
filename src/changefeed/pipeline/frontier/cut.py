"""The frontier of a cut: all tables move together from one barrier to the next."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from changefeed.model.event import SchemaChange
from changefeed.pipeline.frontier.ends import is_waiting
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.state import Hold, State
from changefeed.stages.changes import Window


@dataclass(frozen=True, slots=True)
class CutFrontier:
    """See `Frontier`."""

    state: State
    after: int | None
    includes_after: bool = False
    late_changes: Sequence[SchemaChange] = ()

    table_frontier = None

    @property
    def through(self) -> int | None:
        """See `Frontier`."""
        return self.state.barrier

    @property
    def moves(self) -> bool:
        """See `Frontier`."""
        if self.through is None:
            return False
        released = any(hold.released for hold in self.state.held.values())
        return self.through != self.after or self.includes_after or bool(self.late_changes) or released

    def retain(self, chunks: list[ChunkInfo], unknown: Container[str], held: Mapping[str, Hold]) -> State:
        """See `Frontier`."""
        return replace(self.state, pending=still_pending(self.state, chunks, held))

    def applied(self, chunk: ChunkInfo, unknown: Container[str], held: Mapping[str, Hold]) -> Iterable[Window]:
        """See `Frontier`."""
        before, after = self.state.held.get(chunk.name), held.get(chunk.name)
        if before is not None and after is not None and not before.released:
            return []
        return [Window(before.after if before else self.after, after.after if after else self.through)]

    def pending(self, chunk: ChunkInfo, held: Mapping[str, Hold], retained: State) -> Iterable[Window]:
        """See `Frontier`."""
        hold = held.get(chunk.name)
        return [Window(hold.after if hold else self.through)]


def repeated(state: State, chunk: ChunkInfo) -> list[Window]:
    """The window at or below the barrier, or at or below the point where the chunk's table is held."""
    applied = state.held[chunk.name].after if chunk.name in state.held else state.barrier
    return [] if applied is None else [Window(None, applied)]


def still_pending(state: State, chunks: list[ChunkInfo], held: Mapping[str, Hold]) -> tuple[str, ...]:
    """The folders with changes, named resolved events or ends above the barrier, incomplete fragments, or changes of held tables.

    A schema change may concern a table that its event does not name (RENAME, DROP DATABASE): while any table is held, all schema
    changes are kept.
    """
    waiting = {
        c.folder
        for c in chunks
        if (c.kind == "rows" and (c.name in held or _above(c, state.barrier)))
        or (c.kind == "schema" and (bool(held) or _above(c, state.barrier)))
        or (c.mark is not None and _above(c, state.barrier))
        or is_waiting(c, state.ends)
    }
    return tuple(folder for folder in state.pending if folder in waiting or folder == state.waiting)


def _above(chunk: ChunkInfo, upto: int | None) -> bool:
    return upto is not None and (chunk.max_ts is None or chunk.max_ts > upto)
