"""Reports of a run: `Progress` after each step, `Summary` at the end."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from changefeed.api.moments import time_of
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.frontier.marks import holders
from changefeed.pipeline.paths import tables_folder
from changefeed.pipeline.state import Counts, State
from changefeed.sources import source

if TYPE_CHECKING:
    from changefeed.pipeline.run import RunResult


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a pipeline after a step.

    Attributes:
        commit_ts: the barrier, up to which all tables have been applied; None before the first cut, and with
            `consistency: key`.
        commit_time: the time of `commit_ts` in ISO format, in UTC; None if the upstream's numbers are not times.
        counts: what has been read since the pipeline began, and how much of it is applied, repeated or pending.
        tables: number of tables.
        quarantined: tables that are held back because of their dead letters.
        late: tables that are in no cut until their topics have caught up.
        waits_for: partitions without a resolved event, as `topic:partition`, while changes wait for one.
        incomplete_transaction: a sentence about the transaction that all changes wait for, because the source lacks some of its
            events; None if there is none.
    """

    commit_ts: int | None
    commit_time: str | None
    counts: Counts
    tables: int
    quarantined: tuple[str, ...]
    late: tuple[str, ...]
    waits_for: tuple[str, ...]
    incomplete_transaction: str | None = None

    @classmethod
    def of(cls, definition: Definition, state: State) -> Progress:
        """Creates the progress report of a pipeline's state."""
        quarantined = state.quarantined()
        return cls(
            state.barrier,
            time_of(state.barrier),
            state.counts,
            len(state.tables),
            tuple(quarantined),
            tuple(sorted(state.held.keys() - quarantined)),
            tuple(_waits_for(definition, state)),
            state.incomplete.waits if state.incomplete else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields of a line `{"event": "step", …}` of `changefeed run --json`."""
        reached = _reached(self.commit_ts, self.counts, self.quarantined, self.incomplete_transaction)
        return {**reached, "tables": self.tables, "waits_for": list(self.waits_for)}


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table at the end of a run.

    Attributes:
        path: the table's location.
        version: the table version that belongs to the cut, in the table format's numbers; None if there is no table yet.
        before: the version when the run began; None for a new table.
        held: whether the table is quarantined, or waits for its topic to catch up; it then belongs to no cut.
        held_after: for a held table, the commit_ts up to which it was applied; None if nothing was applied.
    """

    path: str
    version: int | None
    before: int | None
    held: bool
    held_after: int | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a run.

    Attributes:
        pipeline: the pipeline's name.
        epoch: the number of the run; each run of a pipeline has a higher one.
        steps: number of steps that the run did.
        applied: number of row changes that the run applied.
        schema_changes: number of schema changes that the run applied.
        seconds: duration of the run in seconds, without the start of Spark.
        reached: whether `until` was reached; None without `until`.
        stopped: whether the run ended because it was asked to stop.
        commit_ts, commit_time, counts, quarantined, late, incomplete_transaction: as in `Progress`, at the end of the run.
        tables: `database.table` -> the table's version and location.
        resolved: (topic, partition) -> commit_ts of its highest resolved event; None if none has been read.
    """

    pipeline: str
    epoch: int
    steps: int
    applied: int
    schema_changes: int
    seconds: float
    reached: bool | None
    stopped: bool
    commit_ts: int | None
    commit_time: str | None
    counts: Counts
    quarantined: tuple[str, ...]
    late: tuple[str, ...]
    tables: dict[str, TableVersion]
    resolved: dict[tuple[str, int], int | None] = field(repr=False)
    incomplete_transaction: str | None = None

    @classmethod
    def of(cls, definition: Definition, run: RunResult, seconds: float, *, stopped: bool) -> Summary:
        """Creates the summary of a run from its result and its duration in seconds."""
        state, before = run.state, run.before
        quarantined = state.quarantined()
        return cls(
            definition.pipeline.name,
            run.epoch,
            run.steps,
            state.counts.applied - before.counts.applied,
            state.counts.schema_changes - before.counts.schema_changes,
            seconds,
            run.reached,
            stopped,
            state.barrier,
            time_of(state.barrier),
            state.counts,
            tuple(quarantined),
            tuple(sorted(state.held.keys() - quarantined)),
            {name: _table(definition, state, before, name) for name in sorted(state.tables)},
            {(topic, p): state.resolved.get(topic, {}).get(p) for topic, of in state.positions.items() for p in of},
            state.incomplete.waits if state.incomplete else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields of the line `{"event": "summary", …}` of `changefeed run --json`."""
        return {
            "pipeline": self.pipeline,
            "epoch": self.epoch,
            "steps": self.steps,
            "reached": self.reached,
            "applied": self.applied,
            "seconds": round(self.seconds, 3),
            **_reached(self.commit_ts, self.counts, self.quarantined, self.incomplete_transaction),
            "tables": {name: {"version": t.version, "path": t.path} for name, t in self.tables.items()},
        }


def _table(definition: Definition, state: State, before: State, name: str) -> TableVersion:
    table = state.tables[name]
    old = before.tables[name].version if name in before.tables else None
    after = state.held[name].after if name in state.held else None
    path = f"{tables_folder(definition)}/{table.path}"
    return TableVersion(path, table.version, old, name in state.held, after)


def _reached(
    commit_ts: int | None, counts: Counts, quarantined: tuple[str, ...], incomplete: str | None
) -> dict[str, Any]:
    numbers = {**asdict(counts), "pending": counts.pending}
    waits = {"incomplete_transaction": incomplete} if incomplete else {}
    times = {"commit_ts": commit_ts, "commit_time": time_of(commit_ts)}
    return {**times, "counts": numbers, "held": list(quarantined), **waits}


def _waits_for(definition: Definition, state: State) -> list[str]:
    """Returns the partitions that block the barrier because they have no resolved event yet; empty if nothing waits."""
    opened = source(definition.source)
    marks = opened.capabilities.cuts == "marks"
    if definition.pipeline.consistency == "key" or not marks or not state.counts.pending:
        return []
    asked = opened.offset_names_partitions and state.source is not None  # otherwise the source would be read to its end
    partitions = opened.partitions(state.source or "") if asked else set()
    return [f"{topic}:{partition}" for topic, partition in holders(state, partitions)]
