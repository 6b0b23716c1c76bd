"""Contracts of the pipeline's own storage beside the ledger (`store/base.py`): pending store and dead letters.

Implementations: `pending/store.py` and `dead_letters.py`, `pending/memory.py` and the tests' own in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from changefeed.model.definition import Table
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.planning.actions import Plan, Selection
from changefeed.pipeline.state import FolderSum, Positions
from changefeed.sinks.base import Changes

if TYPE_CHECKING:
    from changefeed.pipeline.pending.changes import RowOptions
    from changefeed.pipeline.pending.counting import Across


class Pending(Protocol):
    """The pending store: decoded changes, in folders that are written once, kept until a frontier covers them."""

    def stage(self, chunks: Any, epoch: int) -> tuple[str, FolderSum]:
        """Writes chunks to a new folder; returns its name, which begins with the epoch, and its sum."""
        ...

    def check(self, folders: Iterable[str], sums: Mapping[str, FolderSum]) -> None:
        """Compares folders with their sums.

        Raises:
            SinkError: a file is missing or has changed.
        """
        ...

    def index(self, folders: Iterable[str], sums: Mapping[str, FolderSum]) -> list[ChunkInfo]:
        """The chunks of the folders, without the payloads of rows and dead letters; raises as `check`."""
        ...

    def waiting(self, folder: str) -> Any:
        """The incomplete fragments of a folder, in the form that a batch takes."""
        ...

    def dead(self, folder: str) -> Iterable[Mapping[str, Any]]:
        """The chunks with the dead letters of a folder."""
        ...

    def changes(self, plan: Plan, selection: Selection, table: Table, options: RowOptions) -> Changes:
        """The changes that a write of a plan applies to a table."""
        ...

    def across(self, windows: Across) -> Counter[str]:
        """Counts the rows on each side of a bound, in chunks that have rows on both; see `counting.py`."""
        ...

    def delete_all_but(self, folders: Iterable[str], epoch: int) -> None:
        """Deletes every folder that is not listed and does not belong to a newer epoch."""
        ...


class Letters(Protocol):
    """The dead letters of a pipeline."""

    def take(self, pending: Any, folder: str, fresh: list[ChunkInfo]) -> None:
        """Stores the dead letters of a batch.

        Raises:
            ProtocolError: there are dead letters, and the policy is to stop.
        """
        ...

    def mark(self, places: Iterable[str]) -> None:
        """Marks the dead letters at these positions as replayed."""
        ...

    def settle(self, positions: Positions) -> None:
        """Marks the dead letters of records that have not been passed yet as replayed: the run reads these records again."""
        ...
