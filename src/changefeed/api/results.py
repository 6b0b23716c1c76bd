"""Reports of a run: `Progress` after each step, `Summary` at the end."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from changefeed.api.moments import time_of
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.monitoring.cuts import cut_text
from changefeed.pipeline.monitoring.holders import Holder, has_binlog, held_by_of
from changefeed.pipeline.monitoring.lag import Lag, lag_of
from changefeed.pipeline.paths import tables_folder
from changefeed.pipeline.state import Counts, State
from changefeed.sinks.section import version_in_json

if TYPE_CHECKING:
    from changefeed.pipeline.monitoring.view import RunNow
    from changefeed.pipeline.run import RunResult


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a pipeline after a step.

    Attributes:
        commit_ts: the barrier, up to which all tables have been applied; None before the first cut, and with
            `consistency: key`.
        commit_time: the time of `commit_ts` in ISO format, in UTC; None if the upstream's numbers are not times.
        cut: the cut for people, in a form that `until` takes: a time, a GTID, or a place in the binlog.
        counts: what has been read since the pipeline began, and how much of it is applied, repeated or pending.
        tables: number of tables.
        quarantined: tables that are held back because of their dead letters.
        late: tables that are in no cut until their topics have caught up.
        held_by: what the cut, or tables, wait for.
        lag: how far the tables are behind.
        incomplete_transaction: a sentence about the transaction that all changes wait for, because the source lacks some of its
            events; None if there is none.
        rows_per_second: row changes a second in this step; None if it applied none, and of the first, which includes the start
            of Spark.
    """

    commit_ts: int | None
    commit_time: str | None
    cut: str
    counts: Counts
    tables: int
    quarantined: tuple[str, ...]
    late: tuple[str, ...]
    held_by: tuple[Holder, ...]
    lag: Lag
    incomplete_transaction: str | None = None
    rows_per_second: float | None = None

    @classmethod
    def of(cls, definition: Definition, state: State, now: RunNow | None = None) -> Progress:
        """Creates the progress report of a pipeline's state; `now` has what only its run can supply."""
        quarantined, held_by = state.quarantined(), held_by_of(definition, state)
        return cls(
            state.barrier,
            time_of(state.barrier),
            cut_text(state.barrier, state.mark, binlog=has_binlog(definition)),
            state.counts,
            len(state.tables),
            tuple(quarantined),
            tuple(sorted(state.held.keys() - quarantined)),
            held_by,
            lag_of(state, now.backlog if now else None, binlog=has_binlog(definition)),
            state.incomplete.waits if state.incomplete else None,
            now.rows_per_second if now else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields of a line `{"event": "step", …}` of `changefeed run --json`."""
        rate = None if self.rows_per_second is None else round(self.rows_per_second)
        lag = self.lag.to_dict(datetime.now(UTC))
        return {**_reached(self), "tables": self.tables, "lag": lag, "rows_per_second": rate}


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
        busy_seconds: the same without the waits for more to read, or for a retry.
        reached: whether `until` was reached; None without `until`.
        stopped: whether the run ended because it was asked to stop.
        commit_ts, commit_time, cut, counts, quarantined, late, held_by, incomplete_transaction: as in `Progress`, at the end
            of the run.
        tables: `database.table` -> the table's version and location.
        resolved: (topic, partition) -> commit_ts of its highest resolved event; None if none has been read.
        binlog: whether each commit_ts is a place in the binlog: file number << 40 | position.
        numbered_versions: as in `Status`.
    """

    pipeline: str
    epoch: int
    steps: int
    applied: int
    schema_changes: int
    seconds: float
    busy_seconds: float
    reached: bool | None
    stopped: bool
    commit_ts: int | None
    commit_time: str | None
    cut: str
    counts: Counts
    quarantined: tuple[str, ...]
    late: tuple[str, ...]
    held_by: tuple[Holder, ...]
    tables: dict[str, TableVersion]
    resolved: dict[tuple[str, int], int | None] = field(repr=False)
    incomplete_transaction: str | None = None
    binlog: bool = False
    numbered_versions: bool = True

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
            run.busy_seconds,
            run.reached,
            stopped,
            state.barrier,
            time_of(state.barrier),
            cut_text(state.barrier, state.mark, binlog=has_binlog(definition)),
            state.counts,
            tuple(quarantined),
            tuple(sorted(state.held.keys() - quarantined)),
            held_by_of(definition, state),
            {name: _table(definition, state, before, name) for name in sorted(state.tables)},
            {(topic, p): state.resolved.get(topic, {}).get(p) for topic, of in state.positions.items() for p in of},
            state.incomplete.waits if state.incomplete else None,
            has_binlog(definition),
            definition.sink.numbered_versions,
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
            "busy_seconds": round(self.busy_seconds, 3),
            **_reached(self),
            "tables": {name: self._table_in_json(table) for name, table in self.tables.items()},
        }

    def _table_in_json(self, table: TableVersion) -> dict[str, Any]:
        return {"version": version_in_json(table.version, numbered=self.numbered_versions), "path": table.path}


def _table(definition: Definition, state: State, before: State, name: str) -> TableVersion:
    table = state.tables[name]
    old = before.tables[name].version if name in before.tables else None
    after = state.held[name].after if name in state.held else None
    path = f"{tables_folder(definition)}/{table.path}"
    return TableVersion(path, table.version, old, name in state.held, after)


def _reached(of: Progress | Summary) -> dict[str, Any]:
    numbers = {**asdict(of.counts), "pending": of.counts.pending}
    incomplete = {"incomplete_transaction": of.incomplete_transaction} if of.incomplete_transaction else {}
    cut = {"commit_ts": of.commit_ts, "commit_time": of.commit_time, "cut": of.cut}
    held_by = [holder.to_dict() for holder in of.held_by]
    return {**cut, "counts": numbers, "held": list(of.quarantined), "held_by": held_by, **incomplete}
