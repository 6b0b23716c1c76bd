"""Runs an event pipeline: appends the changes of a source, in their order, to an event sink, each once.

    stream ─ batch ─▶ begun: the state after it ─▶ append, with the write id ─▶ done ─▶ next batch

Rule 1. A step has two entries in the ledger, as that of a pipeline to tables: `begun` with the state after it, and `done`.
Rule 2. A run that finds a begun step makes a touch, which fences off the run that began it, and asks the sink whether the append
        was made. If it was, the state after it counts; if not, the state before it: its changes are read again.
Rule 3. Inside of the first snapshot the stream cannot continue. A run that finds no source offset begins with another one.
Rule 4. The driver alone reads, encodes and appends: no Spark is started.
Rule 5. The run is observed as a run to tables is (`telemetry`); what is left to read is asked over a connection of its own.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import ChangefeedError
from changefeed.model.batch import Decoded
from changefeed.model.definition import Table
from changefeed.model.event import Heartbeat as HeartbeatEvent
from changefeed.model.event import Instant, SchemaChange
from changefeed.model.position import Place
from changefeed.pipeline import copy_requests
from changefeed.pipeline.config.events import EventDefinition
from changefeed.pipeline.edge import full_disk
from changefeed.pipeline.events.parts import open_folder, open_ledger, open_sink
from changefeed.pipeline.monitoring.heartbeat import HEARTBEATS, Heartbeat, beat_seconds
from changefeed.pipeline.monitoring.otlp import sent
from changefeed.pipeline.monitoring.prometheus import served
from changefeed.pipeline.monitoring.view import RunNow, RunView
from changefeed.pipeline.monitoring.watch import Watch
from changefeed.pipeline.paths import own_folder
from changefeed.pipeline.planning.actions import Plan
from changefeed.pipeline.retry import Retries, Retry, seconds
from changefeed.pipeline.state import Positions, State, TableState
from changefeed.pipeline.waiting import wait_for_records
from changefeed.sinks.events import EventSink
from changefeed.sinks.writes import WriteId
from changefeed.sources import Backlog, StreamBatch, event_stream, source
from changefeed.sources.copies import CopyingSource
from changefeed.telemetry import passed

_MILLISECONDS = pa.timestamp("ms", tz="UTC")
OnState = Callable[[State], None]


@dataclass(frozen=True, slots=True)
class EventRunResult:
    """The result of a run.

    Attributes:
        pipeline: the pipeline's name.
        epoch: the number of the run.
        steps: the number of steps that the run did.
        rows, schema_changes: the number of changes that it appended.
        source_offset: where the next run continues; None inside of a snapshot.
    """

    pipeline: str
    epoch: int
    steps: int
    rows: int
    schema_changes: int
    source_offset: str | None


def run_events(
    definition: EventDefinition,
    *,
    once: bool = False,
    progress: Callable[[State, RunNow], None] = lambda state, now: None,
    stopping: Callable[[], bool] = lambda: False,
    retrying: Callable[[Retry], None] | None = None,
    watching: Callable[[RunNow], None] | None = None,
) -> EventRunResult:
    """Appends the changes of the source: all that it has with `once`, else without end.

    Args:
        definition: the pipeline.
        once: stop after what the source has now.
        progress: called after every step with the state after it, and the run at this moment.
        stopping: called between two steps, and every half second; once it returns True, the run ends.
        retrying: called before the wait for a retry, after a transient error.
        watching: called every second with the run at this moment, in a thread of its own.

    Raises:
        ConfigError: the pipeline cannot run as defined.
        FencedError: another run of the pipeline has taken over.
        SourceError, SinkError: source or sink failed, and all retries failed, too.
        ResourceError: a disk is full.
    """
    behaviour = definition.pipeline
    folder = open_folder(definition, HEARTBEATS)
    view = RunView(behaviour.name, beat_seconds(folder), kind="events")
    watch = Watch(view, source(definition.source).unreachable, Heartbeat(folder), watching)
    retries = Retries(behaviour.max_retries, seconds(behaviour.retry_backoff), retrying, stopping)
    if not once:
        retries.source_is_gone = watch.source_is_gone

    def report(state: State) -> None:
        progress(state, view.now())

    with served(definition, view), sent(definition, view), watch.watching():
        return _with_retries(definition, retries, once, report, stopping)


def _with_retries(
    definition: EventDefinition, retries: Retries, once: bool, progress: OnState, stopping: Callable[[], bool]
) -> EventRunResult:
    """Runs until the end of the run, or an error that no retry can mend; arguments and errors are those of `run_events`."""
    first: tuple[int, State] | None = None
    while True:
        runner = _Runner(definition, once, progress, stopping)
        try:
            runner.begin()
            first = first or (runner.ledger.step, runner.ledger.state)
            runner.follow()
        except (ChangefeedError, OSError) as error:
            if (full := full_disk(error, *_folders(definition))) is not None:
                raise full from error
            if isinstance(error, OSError) or not retries.wait(error, runner.ledger.step):
                raise
            continue
        finally:
            runner.close()
        step, before = first
        ledger = runner.ledger
        return EventRunResult(
            definition.pipeline.name,
            ledger.epoch,
            ledger.step - step,
            ledger.state.counts.rows - before.counts.rows,
            ledger.state.counts.schema_changes - before.counts.schema_changes,
            ledger.state.source,
        )


class _Runner:
    """One try of a run."""

    def __init__(
        self, definition: EventDefinition, once: bool, progress: OnState, stopping: Callable[[], bool]
    ) -> None:
        self._definition, self._once, self._progress, self._stopping = definition, once, progress, stopping
        self.ledger = open_ledger(definition)
        self._source = source(definition.source)  # asked what is left to read
        self._requests = open_folder(definition, copy_requests.FOLDER)
        self._copied = 0  # rows of the snapshot that is being read
        self._copy_rows: int | None = None  # about all of its rows
        self._sink: EventSink | None = None
        self._sent = time.monotonic()  # the last heartbeat

    def begin(self) -> None:
        """Takes the pipeline over, and finishes what an earlier run began: Rule 2."""
        self.ledger.claim()
        passed("run.begun", epoch=self.ledger.epoch, state=self.ledger.state)
        self._sink = open_sink(self._definition, self.ledger.owner)
        plan = self.ledger.unfinished
        if plan is None:
            return
        step = self.ledger.step + 1
        self._sink.append(Decoded(), WriteId(self.ledger.epoch, step, 0), "{}")
        write_id = self._sink.made()
        self._finish(plan.state if write_id is not None and write_id.step == step else self.ledger.state)

    def follow(self) -> None:
        """Reads the stream to its end, once or again and again."""
        stream = event_stream(self._definition.source, _tables(self.ledger.state))
        interval = seconds(self._definition.pipeline.trigger_interval)
        try:
            while not self._stopping():
                began, continued = time.monotonic(), self.ledger.state.source is not None
                if isinstance(self._source, CopyingSource):
                    copy_requests.take(self._requests, self.ledger, self._source)
                self._ask()
                for batch in stream.batches(self.ledger.state.source):
                    self._take(batch)
                    if self._stopping():
                        return
                if self._once and continued:
                    return
                if continued:
                    self._beat()
                    wait_for_records(began + interval, self._stopping)
        finally:
            stream.close()

    def close(self) -> None:
        """Closes the sink, and the connection that was asked what is left to read."""
        self._source.close()
        if self._sink is not None:
            self._sink.close()

    def _ask(self) -> None:
        """Asks the source what is left to read, for those who watch the run."""
        passed("read.before")
        backlog = self._source.backlog(self.ledger.state.source)
        if self.ledger.state.source is None:
            self._copied, self._copy_rows = 0, backlog.records if backlog is not None else None
        passed("read.after", backlog=backlog)

    def _left_behind(self, batch: StreamBatch, rows: int) -> Backlog | None:
        """Returns the backlog behind a batch: about the rows of a snapshot, or bytes of the log."""
        if batch.source_offset is not None:
            return self._source.backlog(batch.source_offset)
        self._copied += rows
        return None if self._copy_rows is None else Backlog(max(0, self._copy_rows - self._copied))

    def _take(self, batch: StreamBatch) -> None:
        """Appends a batch, and stores the state after it."""
        state = self.ledger.state
        rows = sum(map(len, batch.changes.tables))
        kinds = Counter(event.type for event in batch.changes.control if isinstance(event, SchemaChange))
        passed("stream.read", rows=rows, schema_changes=kinds, backlog=self._left_behind(batch, rows))
        counts = replace(
            state.counts,
            rows=state.counts.rows + rows,
            applied=state.counts.applied + rows,
            schema_changes=state.counts.schema_changes + kinds.total(),
        )
        after = replace(
            state,
            source=batch.source_offset,
            tables={name: TableState(table, name, declared=True) for name, table in batch.tables.items()},
            counts=counts,
            positions=self._positions(batch),
            time=_newest_time(batch.changes, state.time),
        )
        self._append(batch.changes, after)

    def _positions(self, batch: StreamBatch) -> Positions:
        """Returns the places where the source continues, for people; empty inside of a snapshot."""
        if batch.source_offset is None or batch.place is None:
            return {}
        return {topic: {number: batch.place} for topic, number in self._source.partitions(batch.source_offset)}

    def _append(self, changes: Decoded, after: State) -> None:
        """Makes one step: Rule 1."""
        if changes.tables or changes.control:
            assert self._sink is not None
            self.ledger.begin(Plan(actions=[], folders=(), sums={}, state=after, notes=[]))
            passed("append.before")
            self._sink.append(changes, WriteId(self.ledger.epoch, self.ledger.step + 1, 1), "{}")
            passed("append.after", write="append", files=None, bytes=None)
        if changes.tables or changes.control or after != self.ledger.state:
            self._finish(after)

    def _finish(self, state: State) -> None:
        self.ledger.finish(state)
        passed("step", state=state, step=self.ledger.step)
        self._progress(state)

    def _beat(self) -> None:
        """Appends a heartbeat, if it is time for one."""
        interval = self._definition.pipeline.heartbeat_interval
        if interval is None or time.monotonic() < self._sent + seconds(interval):
            return
        self._sent = time.monotonic()
        beat = HeartbeatEvent(Place("heartbeat", 0, 0), Instant(time.time_ns() // 1_000_000 * 1000, 3))
        self._append(Decoded(control=[beat]), self.ledger.state)


def _folders(definition: EventDefinition) -> list[str]:
    """Returns the folders that a run writes: the pipeline's own, and that of the sink if it is one of this machine."""
    return [own_folder(definition), *([definition.sink.path] if hasattr(definition.sink, "path") else [])]


def _tables(state: State) -> Mapping[str, Table]:
    return {name: table.table for name, table in state.tables.items()}


def _newest_time(changes: Decoded, before: int | None) -> int | None:
    """The newest commit time of changes, in milliseconds since 1970; `before`: that of earlier ones."""
    rows = [pc.max(table.rows.column("commit_time").cast(_MILLISECONDS, safe=False)) for table in changes.tables]
    times = [row.cast(pa.int64()).as_py() for row in rows if row.is_valid]
    times += [
        event.instant.us // 1000 for event in changes.control if isinstance(event, SchemaChange) and event.instant
    ]
    return max((time for time in [*times, before] if time is not None), default=None)
