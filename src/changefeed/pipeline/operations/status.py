"""The progress of a pipeline, read from its ledger: `changefeed status`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.dead_letters import table_of
from changefeed.pipeline.ledger import read_ledger
from changefeed.pipeline.operations.expire import readable
from changefeed.pipeline.operations.expired import gone
from changefeed.pipeline.paths import own_folder
from changefeed.pipeline.state import Counts, State
from changefeed.pipeline.store.base import StoreReader

NEWEST = 100  # cuts that are shown unless more are asked for


@dataclass(frozen=True, slots=True)
class PublishedCut:
    """Versions of tables that belong together: read at these, the tables are in one state that the upstream had.

    Attributes:
        commit_ts: up to which all tables were applied; None where the upstream has no such numbers.
        name: the last transaction's GTID, or a checkpoint's GTID set, where the upstream has names; else None.
        tables: `database.table` -> version.
    """

    commit_ts: int | None
    name: str | None
    tables: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `changefeed status --json`."""
        return {"commit_ts": self.commit_ts, **({"name": self.name} if self.name else {}), "tables": self.tables}


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a pipeline: its positions, its cuts and what waits.

    Attributes:
        pipeline: its name.
        epoch: how many runs, replays and repairs there were; 0 before the first.
        positions: topic -> partition -> offset of the next record to read.
        cuts: one a barrier, oldest first. Cuts whose tables have expired are left out.
        pending: row changes that wait above the barrier, or for their table to be released.
        dead_letters: how many wait.
        counts: where everything that was read has gone: rows = applied + repeated + pending.
        older_cuts: whether older cuts are left out because of the number that was asked for.
    """

    pipeline: str
    epoch: int
    positions: dict[str, dict[int, int]]
    cuts: tuple[PublishedCut, ...]
    pending: int
    dead_letters: int
    counts: Counts
    older_cuts: bool = False

    @property
    def cut(self) -> PublishedCut | None:
        """The newest cut; None before the first."""
        return self.cuts[-1] if self.cuts else None

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `changefeed status --json`; `older_cuts` only if true."""
        return {
            "pipeline": self.pipeline,
            "epoch": self.epoch,
            "positions": {topic: {str(p): n for p, n in of.items()} for topic, of in self.positions.items()},
            "cuts": [cut.to_dict() for cut in self.cuts],
            **({"older_cuts": True} if self.older_cuts else {}),
            "pending": self.pending,
            "dead_letters": self.dead_letters,
            "counts": asdict(self.counts),
        }


def status(definition: Definition, cuts: int | None = NEWEST) -> Status:
    """Positions, cuts, and where everything that was read has gone.

    Args:
        definition: the pipeline.
        cuts: how many of the newest; None: all.

    Raises:
        ConfigError: the ledger is another pipeline's.
        SinkError: the ledger cannot be read.
    """
    ledger = read_ledger(definition)
    latest = ledger.latest()
    state = latest.state if latest else State()
    published = list(islice(_published(ledger, definition), None if cuts is None else cuts + 1))
    return Status(
        definition.pipeline.name,
        latest.epoch if latest else 0,
        {topic: dict(sorted(of.items())) for topic, of in sorted(state.positions.items())},
        tuple(published[:cuts][::-1]),
        state.counts.pending,
        table_of(definition).waiting(),
        state.counts,
        cuts is not None and len(published) > cuts,
    )


def _published(ledger: StoreReader, definition: Definition) -> Iterator[PublishedCut]:
    """The cuts that can be read, the newest of each barrier, newest first."""
    expired, seen = gone(own_folder(definition)), set[tuple[str, int]]()
    for cut in ledger.history(newest_first=True):
        if not readable(cut, expired) or (cut.commit_ts is None and not cut.tables):
            continue
        key = ("step", cut.step) if cut.commit_ts is None else ("commit_ts", cut.commit_ts)
        if key not in seen:
            seen.add(key)
            yield PublishedCut(cut.commit_ts, cut.mark, cut.versions())
