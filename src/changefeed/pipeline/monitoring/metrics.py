"""The metrics of a run: what each is, and its values at one moment. A value that is not known is absent, and never 0.

Names are `cdc_<noun>_<unit>`, as OpenMetrics has them. Every series has the label `pipeline`. Those of `BY_TABLE` have a series
for each topic or table, and are left out unless `pipeline.metrics-by-table` is set. Nothing is computed until somebody asks; then
only the pending rows of each table are counted in files.

`prometheus.py` and `otlp.py` send them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.events import AnyDefinition
from changefeed.pipeline.monitoring.holders import Holder, has_binlog, held_by_of
from changefeed.pipeline.monitoring.lag import Lag, lag_of
from changefeed.pipeline.monitoring.view import RunNow, RunView, Tally
from changefeed.pipeline.pending.by_table import pending_rows_of
from changefeed.pipeline.state import State
from changefeed.ticdc import tso

Labels: TypeAlias = tuple[str, ...]
Values: TypeAlias = Iterator[tuple[Labels, float]]
"""The values of the metric's own labels, and the value of the series."""

OF_TABLES_ALONE = frozenset({
    "cdc_resolved_lag_seconds", "cdc_read_lag_seconds", "cdc_pending_rows", "cdc_pending_bytes", "cdc_held_seconds",
    "cdc_holders", "cdc_waiting_dead_letters", "cdc_records_read", "cdc_rows_read", "cdc_rows_repeated", "cdc_dead_letters",
    "cdc_data_files", "cdc_data_bytes",
})  # fmt: skip
"""Metrics that event pipelines do not have: nothing of theirs waits, and all that they read is appended."""

_KINDS = ("partition", "transaction", "table")


@dataclass(frozen=True, slots=True)
class Sight:
    """A run at one moment."""

    definition: AnyDefinition
    now: RunNow
    tally: Tally
    state: State
    lag: Lag
    held_by: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """The definition of one series or of several with labels.

    Attributes:
        name: without the suffix `_total`, which a counter gets where it is shown.
        help: what it is, in a sentence.
        kind: a gauge goes up and down; a counter only grows, except when a process begins again.
        labels: names of its own labels.
        values: its series at one moment; none if the value is not known.
    """

    name: str
    help: str
    kind: Literal["gauge", "counter"]
    labels: Labels
    values: Callable[[Sight], Values]

    @property
    def shown(self) -> str:
        """The name under which Prometheus shows it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def sight_of(definition: AnyDefinition, view: RunView) -> Sight:
    """The run at this moment; nothing is asked of source or sink."""
    state, now = view.state or State(), view.now()
    lag = lag_of(state, now.backlog, binlog=has_binlog(definition))
    held_by = held_by_of(definition, state) if isinstance(definition, Definition) else ()
    return Sight(definition, now, view.tally, state, lag, held_by)


def metrics_of(definition: AnyDefinition) -> tuple[Metric, ...]:
    """The metrics of a pipeline's runs, in the order in which they are shown."""
    if isinstance(definition, Definition):
        return metrics(by_table=definition.pipeline.metrics_by_table)
    return tuple(metric for metric in METRICS if metric.name not in OF_TABLES_ALONE)


def metrics(*, by_table: bool) -> tuple[Metric, ...]:
    """The metrics, in the order in which they are shown."""
    return METRICS + BY_TABLE if by_table else METRICS


def _scalar(value: float | None) -> Values:
    if value is not None:
        yield (), value


def _by_label(values: Mapping[str, int | float]) -> Values:
    yield from (((name,), value) for name, value in sorted(values.items()))


def _resolved_lag(sight: Sight) -> float | None:
    """The age of the lowest resolved event of all partitions; None if one has none, or they do not contain times."""
    marks = [sight.state.resolved.get(topic, {}).get(p) for topic, p in sight.state.partitions()]
    if not marks or None in marks or has_binlog(sight.definition):
        return None
    time = tso.time_of(min(mark for mark in marks if mark is not None))
    return None if time is None else max((sight.now.at - time).total_seconds(), 0.0)


def _source_up(sight: Sight) -> float | None:
    """Whether the source answers; None before its first answer."""
    if sight.now.source_down is not None:
        return 0.0
    return 1.0 if sight.now.source_answered else None


def _applied_lag(sight: Sight) -> float | None:
    age = sight.lag.behind_now(sight.now.at)
    return None if age is None else age.total_seconds()


def _read_lag(sight: Sight) -> float | None:
    return None if sight.lag.behind_read is None else sight.lag.behind_read.total_seconds()


def _held_for(sight: Sight) -> float:
    """Seconds for which the cut has not moved although something waits; 0 if nothing holds it."""
    if not any(holder.kind != "table" for holder in sight.held_by):
        return 0.0
    return (sight.now.at - (sight.now.barrier_since or sight.now.started)).total_seconds()


def _holders(sight: Sight) -> Values:
    for kind in _KINDS:
        yield (kind,), sum(holder.kind == kind for holder in sight.held_by)


def _table_lags(sight: Sight) -> Values:
    """The age of the newest change of each table: that of the cut, except for tables that are held."""
    if sight.lag.applied is None or has_binlog(sight.definition):
        return
    for name in sorted(sight.state.tables):
        hold = sight.state.held.get(name)
        commit_ts = hold.after if hold is not None else sight.state.barrier
        time = None if commit_ts is None else tso.time_of(commit_ts)
        if time is not None:
            yield (name,), max((sight.now.at - time).total_seconds(), 0.0)


def _table_pending(sight: Sight) -> Values:
    """The pending rows of each table, counted in the pending store; not of tables without any."""
    if isinstance(sight.definition, Definition):
        yield from _by_label(pending_rows_of(sight.definition, sight.state))


def _memory(sight: Sight) -> float | None:
    """Resident memory of this process and all that it has started, where there is `/proc`."""
    children: dict[int, list[int]] = {}
    for number in (int(entry.name) for entry in Path("/proc").glob("[0-9]*")):
        if (stat := _of_process(number, "stat")) is not None:
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(number)
    numbers, waiting = [os.getpid()], [os.getpid()]
    while waiting:
        new = children.get(waiting.pop(), [])
        numbers, waiting = numbers + new, waiting + new
    sizes = [size for number in numbers if (size := _of_process(number, "statm")) is not None]
    return float(sum(int(size.split()[1]) for size in sizes) * os.sysconf("SC_PAGE_SIZE")) if sizes else None


def _of_process(number: int, name: str) -> str | None:
    """The text of a file of `/proc`; None if the process has ended."""
    try:
        return Path(f"/proc/{number}/{name}").read_text()
    except (OSError, ValueError):
        return None


def _resolved_times(sight: Sight) -> Values:
    for topic, marks in sorted(sight.state.resolved.items()):
        for partition, mark in sorted(marks.items()):
            time = tso.time_of(mark)
            if time is not None:
                yield (topic, str(partition)), time.timestamp()


METRICS = (
    Metric("cdc_run_info", "The run: version, number and machine.", "gauge", ("version", "epoch", "host"),
           lambda s: iter([((s.now.version, str(s.now.epoch), s.now.host), 1.0)])),
    Metric("cdc_run_started_timestamp_seconds", "When the run began.", "gauge", (),
           lambda s: _scalar(s.now.started.timestamp())),
    Metric("cdc_source_up", "Whether the source answers: 1, or 0 after some seconds without an answer.", "gauge", (),
           lambda s: _scalar(_source_up(s))),
    Metric("cdc_applied_lag_seconds", "Age of the newest commit in the tables, or of the newest change that was appended.",
           "gauge", (),
           lambda s: _scalar(_applied_lag(s))),
    Metric("cdc_resolved_lag_seconds", "Age of the lowest resolved event of all partitions.", "gauge", (),
           lambda s: _scalar(_resolved_lag(s))),
    Metric("cdc_read_lag_seconds", "Time between the newest commit in the tables and the newest one that was read.",
           "gauge", (), lambda s: _scalar(_read_lag(s))),
    Metric("cdc_behind_records", "Records that the source had behind the last batch; in a first copy, rows.", "gauge", (),
           lambda s: _scalar(s.now.left)),
    Metric("cdc_behind_bytes", "Bytes of a database's log that the source had behind the last batch.", "gauge", (),
           lambda s: _scalar(s.now.left_bytes)),
    Metric("cdc_pending_rows", "Row changes that were read and wait.", "gauge", (),
           lambda s: _scalar(s.state.counts.pending)),
    Metric("cdc_pending_bytes", "Size of the pending store.", "gauge", (),
           lambda s: _scalar(sum(of.bytes for of in s.state.sums.values()))),
    Metric("cdc_held_seconds", "How long the cut has not moved although a partition or a transaction holds it; 0 if none does.",
           "gauge", (), lambda s: _scalar(_held_for(s))),
    Metric("cdc_holders", "What the cut waits for: partitions, transactions; and tables that are held back.", "gauge", ("kind",),
           _holders),
    Metric("cdc_tables", "Tables of the pipeline.", "gauge", (), lambda s: _scalar(len(s.state.tables))),
    Metric("cdc_waiting_dead_letters", "Dead letters that have not been replayed.", "gauge", (),
           lambda s: _scalar(s.state.counts.dead)),
    Metric("cdc_records_read", "Records read since the pipeline began.", "counter", (),
           lambda s: _scalar(s.state.counts.records)),
    Metric("cdc_rows_read", "Row changes read since the pipeline began.", "counter", (), lambda s: _scalar(s.state.counts.rows)),
    Metric("cdc_rows_committed", "Row changes applied to the tables, or appended, since the pipeline began.",
           "counter", (),
           lambda s: _scalar(s.state.counts.applied)),
    Metric("cdc_rows_repeated", "Row changes that were sent again since the pipeline began.", "counter", (),
           lambda s: _scalar(s.state.counts.repeated)),
    Metric("cdc_schema_changes", "Schema changes of this run, by kind.", "counter", ("kind",),
           lambda s: _by_label(s.tally.schema_changes)),
    Metric("cdc_dead_letters", "Dead letters of this run, by reason.", "counter", ("reason",), lambda s: _by_label(s.tally.dead)),
    Metric("cdc_steps", "Steps of this run.", "counter", (), lambda s: _scalar(s.now.steps)),
    Metric("cdc_commits", "Commits of tables in this run, by kind of write; or appends.", "counter", ("write",),
           lambda s: _by_label(s.tally.writes)),
    Metric("cdc_data_files", "Data files that this run has added, where the sink counts them.", "counter", (),
           lambda s: _scalar(s.tally.files)),
    Metric("cdc_data_bytes", "Size of the data files that this run has added, where the sink counts them.", "counter", (),
           lambda s: _scalar(s.tally.bytes)),
    Metric("cdc_retries", "Retries of this run after transient errors.", "counter", (), lambda s: _scalar(s.now.retries)),
    Metric("cdc_stage_seconds", "Time of this run, by the parts of its steps.", "counter", ("stage",),
           lambda s: _by_label({name.replace(", ", "_").replace(" ", "_"): v for name, v in s.now.phases.items()})),
    Metric("cdc_memory_bytes", "Resident memory of the driver and of all processes that it has started.", "gauge", (),
           lambda s: _scalar(_memory(s))),
)  # fmt: skip

BY_TABLE = (
    Metric("cdc_topic_behind_records", "Records that the source had behind the last batch, by topic.", "gauge", ("topic",),
           lambda s: _by_label(s.lag.topics())),
    Metric("cdc_table_applied_lag_seconds", "Age of the newest commit in each table.", "gauge", ("table",), _table_lags),
    Metric("cdc_table_pending_rows", "Row changes of each table that were read and wait.", "gauge", ("table",), _table_pending),
    Metric("cdc_table_held", "Tables that are held back: 1.", "gauge", ("table",),
           lambda s: iter([((h.name,), 1.0) for h in s.held_by if h.kind == "table"])),
    Metric("cdc_partition_resolved_timestamp_seconds", "Time of the highest resolved event of each partition.", "gauge",
           ("topic", "partition"), _resolved_times),
)  # fmt: skip
