"""The contract of a frontier strategy."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Protocol

from changefeed.pipeline.pending.store import ChunkInfo
from changefeed.pipeline.state import State
from changefeed.stages.changes import Window

if TYPE_CHECKING:
    from changefeed.pipeline.frontier.by_key import TableFrontier
    from changefeed.pipeline.planning.plan import Planned

# Where to stop: a commit_ts, or the upstream's name of a transaction or of a mark.
Until = int | str | None
Partition = tuple[str, int]


class Frontier(Protocol):
    """How far each table may advance in one step."""

    @property
    def state(self) -> State:
        """Before the step's writes; it has the barrier that the step reaches."""
        ...

    @property
    def after(self) -> int | None:
        """The step applies changes with after < commit_ts; None from the beginning, or where there is no barrier."""
        ...

    @property
    def through(self) -> int | None:
        """The step applies changes with commit_ts <= through; None where there is no barrier."""
        ...

    @property
    def again(self) -> bool:
        """Whether rows at `after` itself belong to the step, see `transactions.reads_at`."""
        ...

    @property
    def table_frontier(self) -> TableFrontier | None:
        """How far each table goes by itself, where there is no barrier; else None."""
        ...

    @property
    def moves(self) -> bool:
        """Whether there may be anything to apply."""
        ...

    def reached(self, planned: Planned, chunks: list[ChunkInfo]) -> State:
        """The state after the step's writes, but for counts and versions."""
        ...

    def applied(self, chunk: ChunkInfo, planned: Planned) -> Iterable[Window]:
        """The windows of a chunk whose rows the step applies."""
        ...

    def pending(self, chunk: ChunkInfo, planned: Planned, reached: State) -> Iterable[Window]:
        """The windows of a chunk whose rows wait after the step; `reached` still names its folder."""
        ...


class FrontierStrategy(Protocol):
    """Decides how far the tables advance, from what has been read."""

    def arrived(self, state: State, fresh: list[ChunkInfo]) -> State:
        """The state before a batch is counted in: with a hold on tables that must wait because of it."""
        ...

    def repeated(self, state: State, chunk: ChunkInfo) -> list[Window]:
        """The windows of a chunk whose rows have been applied before the batch: they were sent again."""
        ...

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
    ) -> Frontier:
        """How far the tables advance.

        Args:
            state: with the batch counted in, and nothing of it applied.
            chunks: all that is pending.
            fresh: those of them that the ledger does not know yet.
            partitions: those that the source knows.
            until: how far at most.
            caught_up: the source had nothing more to read when the last batch began.
            idle: nothing has come since.
        """
        ...

    def is_reached(self, state: State, until: Until) -> bool:
        """Whether the tables are at `until`, or beyond."""
        ...

    def waits(self, state: State) -> bool:
        """Whether something may wait only as long as the source has more to read."""
        ...

    @property
    def drops_resent(self) -> bool:
        """Whether each change is applied once, though the producer sends it again."""
        ...
