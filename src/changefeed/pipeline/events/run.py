"""Runs an event pipeline: appends the changes of a source, in their order, to an event sink, each once.

    stream ─ batch ─▶ begun: the state after it ─▶ append, with the write id ─▶ done ─▶ next batch

Rule 1. A step has two entries in the ledger, as that of a pipeline to tables: `begun` with the state after it, and `done`.
Rule 2. A run that finds a begun step makes a touch, which fences off the run that began it, and asks the sink whether the append
        was made. If it was, the state after it counts; if not, the state before it: its changes are read again.
Rule 3. Inside of a snapshot the stream cannot continue. A run that finds no source offset begins with another snapshot.
Rule 4. The driver alone reads, encodes and appends: no Spark is started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from changefeed.codec.encoding import encoder
from changefeed.errors import ChangefeedError, ConfigError
from changefeed.model.batch import Decoded
from changefeed.model.definition import Table
from changefeed.model.event import Heartbeat, Instant, SchemaChange
from changefeed.model.position import Place
from changefeed.pipeline.config.events import EventDefinition
from changefeed.pipeline.planning.actions import Plan
from changefeed.pipeline.retry import Retries, Retry, seconds
from changefeed.pipeline.state import State, TableState
from changefeed.pipeline.store.base import StateStore
from changefeed.pipeline.store.files import FileStore
from changefeed.protocols import protocol
from changefeed.sinks import event_sink
from changefeed.sinks.base import WriteId
from changefeed.sinks.events import EventSink
from changefeed.sources import StreamBatch, event_stream
from changefeed.storage.folders import folder_at
from changefeed.stores import stores_of
from changefeed.telemetry import passed

_LOOK = 0.5  # seconds between looks whether the run should stop
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
    progress: OnState = lambda state: None,
    stopping: Callable[[], bool] = lambda: False,
    retrying: Callable[[Retry], None] | None = None,
) -> EventRunResult:
    """Appends the changes of the source: all that it has with `once`, else without end.

    Args:
        definition: the pipeline.
        once: stop after what the source has now.
        progress: called after every step with the state after it.
        stopping: called between two steps, and every half second; once it returns True, the run ends.
        retrying: called before the wait for a retry, after a transient error.

    Raises:
        ConfigError: the pipeline cannot run as defined.
        FencedError: another run of the pipeline has taken over.
        SourceError, SinkError: source or sink failed, and all retries failed, too.
    """
    behaviour = definition.pipeline
    retries = Retries(behaviour.max_retries, seconds(behaviour.retry_backoff), retrying, stopping)
    first: tuple[int, State] | None = None
    while True:
        runner = _Runner(definition, once, progress, stopping)
        try:
            runner.begin()
            first = first or (runner.ledger.step, runner.ledger.state)
            runner.follow()
        except ChangefeedError as error:
            if not retries.wait(error, runner.ledger.step):
                raise
            continue
        finally:
            runner.close()
        step, before = first
        ledger = runner.ledger
        return EventRunResult(
            behaviour.name,
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
        self.ledger = _ledger(definition)
        self._sink: EventSink | None = None
        self._sent = time.monotonic()  # the last heartbeat

    def begin(self) -> None:
        """Takes the pipeline over, and finishes what an earlier run began: Rule 2."""
        self.ledger.claim()
        self._sink = _sink(self._definition, self.ledger.owner)
        plan = self.ledger.unfinished
        if plan is None:
            return
        step = self.ledger.step + 1
        self._sink.append(Decoded(), WriteId(self.ledger.epoch, step, 0), "{}")
        made = self._sink.made()
        self._finish(plan.state if made is not None and made.step == step else self.ledger.state)

    def follow(self) -> None:
        """Reads the stream to its end, once or again and again."""
        stream = event_stream(self._definition.source, _tables(self.ledger.state))
        interval = seconds(self._definition.pipeline.trigger_interval)
        try:
            while not self._stopping():
                began, continued = time.monotonic(), self.ledger.state.source is not None
                for batch in stream.batches(self.ledger.state.source):
                    self._take(batch)
                    if self._stopping():
                        return
                if self._once and continued:
                    return
                if continued:
                    self._beat()
                    self._wait(began + interval)
        finally:
            stream.close()

    def close(self) -> None:
        """Closes the sink."""
        if self._sink is not None:
            self._sink.close()

    def _take(self, batch: StreamBatch) -> None:
        """Appends a batch, and stores the state after it."""
        state = self.ledger.state
        rows = sum(map(len, batch.changes.tables))
        counts = replace(
            state.counts,
            rows=state.counts.rows + rows,
            applied=state.counts.applied + rows,
            schema_changes=state.counts.schema_changes
            + sum(isinstance(event, SchemaChange) for event in batch.changes.control),
        )
        tables = {name: TableState(table, name, declared=True) for name, table in batch.tables.items()}
        self._append(batch.changes, replace(state, source=batch.source_offset, tables=tables, counts=counts))

    def _append(self, changes: Decoded, after: State) -> None:
        """Makes one step: Rule 1."""
        if changes.tables or changes.control:
            assert self._sink is not None
            self.ledger.begin(Plan(actions=[], folders=(), sums={}, state=after, notes=[]))
            passed("append.before")
            self._sink.append(changes, WriteId(self.ledger.epoch, self.ledger.step + 1, 1), "{}")
            passed("append.after")
        if changes.tables or changes.control or after != self.ledger.state:
            self._finish(after)

    def _finish(self, state: State) -> None:
        self.ledger.finish(state)
        self._progress(state)

    def _beat(self) -> None:
        """Appends a heartbeat, if it is time for one."""
        interval = self._definition.pipeline.heartbeat_interval
        if interval is None or time.monotonic() < self._sent + seconds(interval):
            return
        self._sent = time.monotonic()
        beat = Heartbeat(Place("heartbeat", 0, 0), Instant(time.time_ns() // 1_000_000 * 1000, 3))
        self._append(Decoded(control=[beat]), self.ledger.state)

    def _wait(self, until: float) -> None:
        """Waits until this time of the monotonic clock, or the end of the run."""
        while (left := until - time.monotonic()) > 0 and not self._stopping():
            time.sleep(min(left, _LOOK))


def _ledger(definition: EventDefinition) -> StateStore:
    path = f"{definition.pipeline.folder.rstrip('/')}/ledger"
    folder = folder_at(path, definition.storage)
    if folder is None:
        raise ConfigError(f"pipeline.folder: {path} is on a file system that only Spark can reach. Set another folder")
    return FileStore(folder, definition.pipeline.name)


def _sink(definition: EventDefinition, owner: str) -> EventSink:
    chosen = definition.sink.protocol
    options = protocol(chosen.name).read_options(chosen.options)
    return event_sink(definition.sink, partial(encoder, chosen.name, options, stores_of(options))).owned_by(owner)


def _tables(state: State) -> Mapping[str, Table]:
    return {name: table.table for name, table in state.tables.items()}
