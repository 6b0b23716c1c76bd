"""Running a pipeline: `run` is `changefeed run`.

A run takes the next epoch, finishes the step that the last run began, and follows the source from the ledger's source offset,
batch by batch. The ledger alone remembers what was read: Spark's own streams, which keep that in checkpoints, are not used.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from changefeed.errors import ChangefeedError, ConfigError, SourceError, UnknownRowsError
from changefeed.local_files import local_path, sync_file_systems
from changefeed.pipeline import copy_requests
from changefeed.pipeline.absorb import without
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.dead_letters import DeadLetters, files_of
from changefeed.pipeline.edge import as_ours
from changefeed.pipeline.exclusion import check_storages
from changefeed.pipeline.executor import Executor
from changefeed.pipeline.flow import Batch, Flow
from changefeed.pipeline.frontier import Until, strategy
from changefeed.pipeline.ledger import open_ledger
from changefeed.pipeline.monitoring.cuts import cut_text
from changefeed.pipeline.monitoring.heartbeat import HEARTBEATS, Heartbeat, beat_seconds
from changefeed.pipeline.monitoring.holders import has_binlog
from changefeed.pipeline.monitoring.otlp import sent
from changefeed.pipeline.monitoring.prometheus import served
from changefeed.pipeline.monitoring.view import RunNow, RunView
from changefeed.pipeline.monitoring.watch import Watch
from changefeed.pipeline.operations.expired import wait_for_expiry
from changefeed.pipeline.paths import own_folder, pending_folder, tables_folder
from changefeed.pipeline.pending.changes import RowOptions
from changefeed.pipeline.pending.store import PendingStore
from changefeed.pipeline.planning.rules import rules_of
from changefeed.pipeline.rebuilds import delete_rebuilds
from changefeed.pipeline.registration import registration
from changefeed.pipeline.retry import Retries, Retry, seconds
from changefeed.pipeline.state import State
from changefeed.pipeline.store.hadoop import folder_of_session
from changefeed.pipeline.tables import folder_of, open_tables
from changefeed.pipeline.waiting import wait_for_records
from changefeed.sources import Backlog, NextBatch, Source, source
from changefeed.sources.copies import CopyingSource
from changefeed.spark_runtime.scratch import sweep
from changefeed.spark_runtime.session import lives, suited
from changefeed.spark_runtime.workers import check
from changefeed.telemetry import passed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OnState = Callable[[State], None]

Begun = tuple[int, State]  # the last completed step when a run began, and the state after it

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run, from `before` to `state`.

    Attributes:
        reached: whether `until` was reached; None if it was not set.
        busy_seconds: without waits for more to read, or for a retry.
    """

    epoch: int
    steps: int
    before: State
    state: State
    reached: bool | None
    busy_seconds: float = 0.0


def run(
    definition: Definition,
    spark: SparkSession,
    *,
    once: bool = False,
    until: Until = None,
    progress: Callable[[State, RunNow], None] | None = None,
    stopping: Callable[[], bool] | None = None,
    retrying: Callable[[Retry], None] | None = None,
    watching: Callable[[RunNow], None] | None = None,
) -> RunResult:
    """Applies the changes of the source: all that it has with `once`, else without end; with `until`, only up to that point.

    Args:
        definition: the pipeline.
        spark: a session with Delta, on one machine or a cluster. If its settings change the meaning of SQL, the run uses a second
            session.
        once: stop after what the source has now.
        until: a commit_ts, or the upstream's name of a transaction or resolved event; every table ends at exactly this point.
        progress: called after every step with the state after it, and the run at this moment.
        stopping: called every half second; once it returns True, the run ends after the current step.
        retrying: called before the wait for a retry, after a transient error.
        watching: called every second with the run at this moment, in a thread of its own.

    Raises:
        ConfigError: `until` is before what has been applied, the tables have no common point to stop at, or the session or a
            worker lacks something.
        ProtocolError: a record could not be decoded and the policy is to stop.
        FencedError: another run of the pipeline has taken over.
    """
    if until is not None and definition.pipeline.consistency == "key":
        raise ConfigError(
            "--until needs pipeline.consistency `transaction`: with `key` the tables do not reach a commit_ts together. Remove "
            "--until, or change the consistency"
        )
    stopping = stopping or (lambda: False)
    behaviour = definition.pipeline
    with as_ours(definition.sink.path):
        spark = suited(spark)
        watch = _watch(definition, spark, watching)
    retries = Retries(behaviour.max_retries, seconds(behaviour.retry_backoff), retrying, stopping)
    if not once and until is None:
        retries.source_is_gone = watch.source_is_gone

    def report(state: State) -> None:
        if progress is not None:
            progress(state, watch.view.now())

    with served(definition, watch.view), sent(definition, watch.view), watch.watching():
        result = _with_retries(definition, spark, retries, once, until, report, stopping)
        return replace(result, busy_seconds=watch.view.now().busy)


def _with_retries(
    definition: Definition,
    spark: SparkSession,
    retries: Retries,
    once: bool,
    until: Until,
    progress: OnState,
    stopping: Callable[[], bool],
) -> RunResult:
    """Runs until the end of the run, or an error that no retry can mend; arguments and errors are those of `run`."""
    begun: Begun | None = None
    while True:
        runner: _Runner | None = None
        try:
            with as_ours(*_disks(definition, spark)):
                runner = _Runner(definition, spark, once, until, progress, stopping, begun)
                return runner.run()
        except ChangefeedError as error:
            if runner is None or not lives(spark) or not retries.wait(error, runner.ledger.step):
                if (
                    runner is not None
                    and runner.begun is not None
                    and stopping()
                    and getattr(error, "transient", False)
                ):
                    return runner.summary()
                raise
        begun = runner.begun


def open_flow(definition: Definition, spark: SparkSession, opened: Source | None = None) -> Flow:
    """The parts of one run, connected; its ledger is not claimed yet."""
    opened, spark = opened or source(definition.source), suited(spark)
    pending_path, behaviour = pending_folder(definition), definition.pipeline
    ledger = open_ledger(definition, spark)
    pending = PendingStore(
        spark, pending_path, behaviour.consistency == "transaction", folder_of(definition, pending_path, spark)
    )
    letters = DeadLetters(files_of(definition, spark), behaviour.dead_letters, ledger)
    options = RowOptions(definition.sink.irregular, behaviour.keyless == "inserts", opened.redefinition)
    executor = Executor(definition, ledger, pending, open_tables(definition, spark), options)
    rules = rules_of(definition, opened.capabilities, opened.redefinition)
    frontier = strategy(behaviour.consistency, opened.capabilities, rules)
    expiry = partial(wait_for_expiry, definition, spark)
    flow = Flow(
        definition,
        rules,
        frontier,
        ledger,
        pending,
        letters,
        executor,
        expiry,
        partial(check_storages, definition, spark),
        partial(_sync, tables_folder(definition), own_folder(definition)),
    )
    if (registered := registration(definition, spark, executor.sink)) is not None:
        flow.register = registered.settle
    return flow


def _watch(definition: Definition, spark: SparkSession, show: Callable[[RunNow], None] | None) -> Watch:
    """Returns the watch of a run: its heartbeat, and `show`, which is called every second in a thread of its own."""
    folder = folder_of_session(spark, f"{own_folder(definition)}/{HEARTBEATS}", definition.storage)
    view = RunView(definition.pipeline.name, beat_seconds(folder))
    return Watch(view, source(definition.source).unreachable, Heartbeat(folder), show)


def _disks(definition: Definition, spark: SparkSession) -> list[str]:
    """Returns the folders that a run writes: tables, the pipeline's own, and Spark's for what does not fit into memory."""
    scratch = os.environ.get("SPARK_LOCAL_DIRS") or spark.sparkContext.getConf().get("spark.local.dir", "") or ""
    return [*filter(None, [definition.sink.path, definition.pipeline.folder, *scratch.split(",")])]


def _sync(root: str, home: str, paths: Iterable[str]) -> None:
    """Writes the files of tables and of the pipeline to disk, as far as they are on this machine."""
    tables = [root, *(f"{root}/{path}" for path in paths)]
    sync_file_systems([path for folder in (*tables, home) if (path := local_path(folder)) is not None])


class _Runner:
    def __init__(
        self,
        definition: Definition,
        spark: SparkSession,
        once: bool,
        until: Until,
        progress: OnState,
        stopping: Callable[[], bool],
        begun: Begun | None,
    ) -> None:
        self.definition, self.spark, self.once, self.until, self.progress = definition, spark, once, until, progress
        self.stopping, self.begun = stopping, begun
        self.source: Source = source(definition.source)
        self.flow = open_flow(definition, spark, self.source)
        self.ledger = self.flow.ledger
        path = f"{own_folder(definition)}/{copy_requests.FOLDER}"
        self.copy_folder = folder_of_session(spark, path, definition.storage)
        self.last_settled: State | None = None  # the state when it was last settled; None if something was read since
        self.short_first = self.flow.strategy.needs_ends  # in the next batch, partitions for which others wait
        self.copied: set[str] = set()  # the reasons for which tables were copied again
        self.joined: set[str] = set()  # topics without earlier records, whose changes may be below the cut

    def run(self) -> RunResult:
        """Takes the pipeline over, and follows the source to the end of the run."""
        try:
            self._run()
        finally:
            self.source.close()
        return self.summary()

    def summary(self) -> RunResult:
        """The work done since the first try began."""
        assert self.begun is not None
        first, before = self.begun
        reached = None if self.until is None else self.flow.is_reached(self.until)
        return RunResult(self.ledger.epoch, self.ledger.step - first, before, self.ledger.state, reached)

    def _run(self) -> None:
        check(self.spark, tables_folder(self.definition))
        if self.definition.pipeline.folder is not None:
            check(self.spark, own_folder(self.definition), "pipeline.folder")
        is_retry = self.begun is not None
        self.flow.begin()
        delete_rebuilds(self.definition, self.spark, self.ledger.epoch)
        self.begun = self.begun or (self.ledger.step, self.ledger.state)
        passed("run.begun", epoch=self.ledger.epoch, state=self.ledger.state)
        self._recover()
        if isinstance(self.source, CopyingSource) and not is_retry:
            copy_requests.take_at_start(self.ledger, self.source)
        self.flow.letters.settle(self.ledger.state.positions)
        if self._is_done():
            return
        sweep()
        if not self.once:
            self._follow()
            return
        passed("read.before")
        end = self.source.end(self.spark, self.ledger.state.source)
        self._read_to(end)
        if not self._is_done():
            self._settle()

    def _recover(self) -> None:
        """Finishes a begun step, and applies pending changes that the resolved events already cover."""
        if self.flow.recover():
            self._report()
        state = self.ledger.state
        if isinstance(self.until, int) and state.barrier is not None and state.barrier > self.until:
            binlog = has_binlog(self.definition)
            until, reached = (cut_text(commit_ts, binlog=binlog) for commit_ts in (self.until, state.barrier))
            raise ConfigError(
                f"--until {until}: the tables are at {reached} already. Read the cut at {until} from the ledger (changefeed "
                "status --json), or start a new pipeline in an empty folder"
            )
        self._compare()
        self._step(idle=False)

    def _compare(self) -> None:
        """Removes topics that the source no longer has, if the definition allows it."""
        state = self.ledger.state
        if state.source is None:
            return
        compared = self.source.compared(self.spark, state.source)
        if compared.removed:
            chunks = self.flow.pending.index(state.pending, state.sums)
            waits = sum(chunk.rows for chunk in chunks if chunk.kind == "rows" and chunk.topic in compared.removed)
            for note in compared.notes:
                _log.warning("%s", note)
            if waits:
                _log.warning(
                    "%s row changes of removed topics may be pending; they are applied with the next cuts", waits
                )
            self.ledger.finish(without(state, compared.removed, compared.source_offset))

    def _settle(self) -> None:
        """Applies what had to wait while there was more to read, unless it was settled already."""
        state = self.ledger.state
        if self.flow.strategy.waits(state) and state is not self.last_settled:
            self._step(idle=True)
            self.last_settled = self.ledger.state

    def _step(self, *, idle: bool) -> None:
        state, before = self.ledger.state, self.ledger.step
        if state.pending and state.source is not None:
            self.flow.step(state, self.source.partitions(state.source), self.until, idle=idle)
            if self.ledger.step != before:
                self._report()

    def _read_to(self, end: str) -> None:
        """Reads batch after batch, up to a source offset."""
        more = True
        while more and not self._is_done():
            batch = self._take_next(end)
            more = batch is not None and not batch.caught_up

    def _follow(self) -> None:
        """Reads batch after batch, without end; waits when there is nothing left to read."""
        interval = seconds(self.definition.pipeline.trigger_interval)
        while not self._is_done():
            began = time.monotonic()
            batch = self._take_next(None)
            if batch is None:
                self._settle()
            if batch is None or self.source.partitions(batch.source_offset) <= batch.ended:
                wait_for_records(began + interval, self._is_done)

    def _take_next(self, end: str | None) -> NextBatch | None:
        """Takes the next batch, and returns it; None if there is nothing to read."""
        batch = self._next_batch(end)
        self.short_first = False
        if batch is not None and not self._take(batch):
            return self._take_next(end)
        return batch

    def _next_batch(self, end: str | None) -> NextBatch | None:
        passed("read.before")
        if isinstance(self.source, CopyingSource):
            copy_requests.take(self.copy_folder, self.ledger, self.source)
        try:
            batch = self.source.next_batch(self.spark, self.ledger.state.source, end, short_first=self.short_first)
        except ChangefeedError:
            raise
        except Exception as error:
            self._raise_cause(error)
            raise
        passed("read.after", backlog=Backlog(0) if batch is None else batch.left)
        return batch

    def _take(self, batch: NextBatch) -> bool:
        """Takes a batch; returns False if it is to be read once more, because the source copies tables of it again."""
        before = self.ledger.state
        chunks, partitions = partial(self.source.chunks, batch.records), self.source.partitions(batch.source_offset)
        ended = batch.ended if self.flow.strategy.needs_ends else ()
        try:
            self.flow.take(Batch(chunks, batch.source_offset, partitions, batch.caught_up, ended), self.until)
        except UnknownRowsError as error:
            copy_requests.take_unknown(self.ledger, self.source, error, self.copied)
            return False
        self._report()
        self._warn_of_late(before)
        return True

    def _warn_of_late(self, before: State) -> None:
        """Warns that a topic that joined late has changes below the cut: they are not in the tables."""
        after = self.ledger.state
        if before.barrier is not None:
            self.joined |= after.positions.keys() - before.positions.keys()
        passed = after.counts.repeated - before.counts.repeated
        if self.joined and passed:
            _log.warning(
                "row changes at or below the cut, skipped as if sent again: %s. Topics that are new to this pipeline: %s. If "
                "the tables never had these changes, start the topics in a pipeline of their own",
                passed,
                ", ".join(sorted(self.joined)),
            )
            self.joined = set()

    def _raise_cause(self, failed: BaseException) -> None:
        """Asks the source for the cause of an error, and raises it: the Kafka client does not name the topic that is gone.

        Raises:
            ChangefeedError: a topic was deleted or created again, or has lost records.
        """
        if self.ledger.state.source is None:
            return
        try:
            with as_ours():
                compared = self.source.compared(self.spark, self.ledger.state.source)
        except ChangefeedError as error:
            if getattr(error, "transient", False):
                return  # the brokers are unavailable: the first error is raised
            raise error from failed
        if compared.removed:
            raise SourceError(
                f"topics were removed while the run was reading: {', '.join(sorted(compared.removed))}", transient=True
            )

    def _is_done(self) -> bool:
        if self.stopping():
            return True
        return self.flow.is_reached(self.until)

    def _report(self) -> None:
        passed("step", state=self.ledger.state, step=self.ledger.step)
        self.progress(self.ledger.state)
