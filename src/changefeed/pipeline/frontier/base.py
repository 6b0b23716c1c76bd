"""The contract of a frontier strategy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from changefeed.model.event import SchemaChange
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.state import Hold, State
from changefeed.stages.changes import Window

if TYPE_CHECKING:
    from changefeed.pipeline.frontier.by_key import TableFrontier

# The point to stop at: a commit_ts, or the upstream's name of a transaction or of a resolved event.
Until = int | str | None
Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Reading:
    """The progress of reading from which a step begins.

    Attributes:
        state: with the batch counted, but not applied.
        chunks: all pending chunks.
        fresh: the chunks among them that are not in the ledger yet.
        partitions: the partitions of the source.
        until: the point to stop at.
        caught_up: the source had nothing more to read when the last batch began.
        idle: nothing has been read since.
        ended: partitions of which nothing was left to read after the last batch -> highest commit_ts read before that
            batch. They have passed it: what a partition still gets was committed later than what all others had a batch ago.
    """

    state: State
    chunks: list[ChunkInfo]
    fresh: list[ChunkInfo]
    partitions: Collection[Partition]
    until: Until = None
    caught_up: bool = False
    idle: bool = False
    ended: Mapping[Partition, int] = field(default_factory=dict)


class Frontier(Protocol):
    """The windows of changes that one step applies, for each table."""

    @property
    def state(self) -> State:
        """The state before the step's writes, with the barrier that the step reaches."""
        ...

    @property
    def after(self) -> int | None:
        """The step applies changes with after < commit_ts; None from the beginning, or without barrier."""
        ...

    @property
    def through(self) -> int | None:
        """The commit_ts up to which the step applies changes, inclusive; None without a barrier."""
        ...

    @property
    def includes_after(self) -> bool:
        """Whether rows at `after` itself belong to the step, see `transactions.reads_at`."""
        ...

    @property
    def late_changes(self) -> Sequence[SchemaChange]:
        """Schema changes at `after` itself that belong to the step, see `transactions.late_changes`."""
        ...

    @property
    def table_frontier(self) -> TableFrontier | None:
        """The frontier of each table, with `consistency: key`; otherwise None."""
        ...

    @property
    def moves(self) -> bool:
        """Whether there may be changes to apply."""
        ...

    def retain(self, chunks: list[ChunkInfo], unknown: Container[str], held: Mapping[str, Hold]) -> State:
        """Returns the state with the folders that are still pending after the step.

        Args:
            chunks: all pending chunks.
            unknown: tables that were not known before their last rows came, see `Planned`.
            held: the tables that are held after the step, see `Planned`.
        """
        ...

    def applied(self, chunk: ChunkInfo, unknown: Container[str], held: Mapping[str, Hold]) -> Iterable[Window]:
        """The windows of a chunk whose rows the step applies; other arguments as for `retain`."""
        ...

    def pending(self, chunk: ChunkInfo, held: Mapping[str, Hold], retained: State) -> Iterable[Window]:
        """The windows of a chunk whose rows are still pending after the step; `retained` still names its folder."""
        ...


class FrontierStrategy(Protocol):
    """Decides how far the tables advance, given what has been read."""

    def arrived(self, state: State, fresh: list[ChunkInfo]) -> State:
        """The state with tables held that must wait because of a new batch, before the batch is counted."""
        ...

    def check(self, state: State, fresh: list[ChunkInfo], count: Callable[[ChunkInfo, Window], int]) -> None:
        """Checks that the changes of a batch that count as sent again were sent before, see `heads.py`.

        Args:
            state: before the batch.
            fresh: the batch's chunks.
            count: the number of rows of a chunk in a window.

        Raises:
            UnsupportedError: a change was not sent before.
        """
        ...

    def repeated(self, state: State, chunk: ChunkInfo) -> list[Window]:
        """The windows of a chunk whose rows were applied before the batch, because they were sent again."""
        ...

    def advance(self, reading: Reading) -> Frontier:
        """The frontier of the next step."""
        ...

    def is_reached(self, state: State, until: Until) -> bool:
        """Whether the tables have reached `until` or passed it."""
        ...

    def waits(self, state: State) -> bool:
        """Whether changes may wait for the source to have nothing more to read."""
        ...

    @property
    def needs_ends(self) -> bool:
        """Whether `ended` makes a difference: schema changes are not sent to every partition."""
        ...

    @property
    def drops_resent(self) -> bool:
        """Whether each change is applied once even if the producer sends it again."""
        ...
