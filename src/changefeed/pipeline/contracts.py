"""What a step needs of the pipeline's own storage beside the ledger (`store/base.py`): pending store and dead letters.

On Spark they are `pending/store.py` and `dead_letters.py`; in memory, for tests, `pending/memory.py` and the tests' own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from changefeed.model.definition import Table
from changefeed.pipeline.pending.store import ChunkInfo
from changefeed.pipeline.planning.actions import Plan, Selection
from changefeed.pipeline.state import FolderSum, Positions
from changefeed.sinks.base import Changes

if TYPE_CHECKING:
    from changefeed.pipeline.pending.changes import Options
    from changefeed.pipeline.pending.counting import Across


class CountedChanges(Changes, Protocol):
    """Changes that count what a write has read of them."""

    @property
    def least(self) -> int:
        """The fewest row changes that there can be; `rows` is the most."""
        ...

    @property
    def read(self) -> int:
        """How many were read, once they are applied."""
        ...


class Pending(Protocol):
    """The pending store: decoded changes, in folders that are written once, until a frontier covers them."""

    def stage(self, chunks: Any, epoch: int) -> tuple[str, FolderSum]:
        """Writes chunks to a folder of their own; returns its name, which begins with the epoch, and its sum."""
        ...

    def check(self, folders: Iterable[str], sums: Mapping[str, FolderSum]) -> None:
        """Compares folders with their sums.

        Raises:
            SinkError: something is missing, or has been changed.
        """
        ...

    def index(self, folders: Iterable[str], sums: Mapping[str, FolderSum]) -> list[ChunkInfo]:
        """The chunks of the folders, without the payloads of rows and dead letters; raises as `check`."""
        ...

    def waiting(self, folder: str) -> Any:
        """The incomplete fragments of a folder, in the form that a batch takes them."""
        ...

    def changes(self, plan: Plan, selection: Selection, table: Table, options: Options) -> CountedChanges:
        """The changes that a write of a plan applies to a table."""
        ...

    def across(self, wanted: Across) -> Counter[str]:
        """Counts rows of chunks that lie across a bound, see `counting.py`."""
        ...

    def delete_all_but(self, folders: Iterable[str], epoch: int) -> None:
        """Deletes every folder that is not named and not of a newer epoch."""
        ...


class Letters(Protocol):
    """The dead letters of a pipeline."""

    def take(self, pending: Any, folder: str, fresh: list[ChunkInfo]) -> None:
        """Writes down the dead letters of a batch.

        Raises:
            ProtocolError: there are some, and the policy is to stop.
        """
        ...

    def mark(self, places: Iterable[str]) -> None:
        """Notes that the letters at these positions have been replayed."""
        ...

    def settle(self, positions: Positions) -> None:
        """Marks the letters of records that have not been passed yet: the run reads them again."""
        ...
