"""Running a pipeline: `run` is `changefeed run`.

A run takes the next epoch, finishes the step that the last run began, and follows the source from the ledger's source offset.
Spark's checkpoint is temporary: created by every run, deleted at its end, never read by another run. It only serves Spark itself,
for the offsets of each batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from changefeed.errors import ChangefeedError, ConfigError, SourceError
from changefeed.pipeline.absorb import without
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.dead_letters import DeadLetters, table_of
from changefeed.pipeline.edge import as_ours
from changefeed.pipeline.executor import Executor
from changefeed.pipeline.flow import Batch, Flow
from changefeed.pipeline.frontier import Until, strategy
from changefeed.pipeline.ledger import open_ledger
from changefeed.pipeline.offsets import batch_offset, offset_text
from changefeed.pipeline.operations.expired import wait_for_expiry
from changefeed.pipeline.paths import own_folder, tables_folder
from changefeed.pipeline.pending.changes import RowOptions
from changefeed.pipeline.pending.store import PendingStore
from changefeed.pipeline.planning.rules import rules_of
from changefeed.pipeline.rebuilds import delete_rebuilds
from changefeed.pipeline.retry import Retries, Retry, seconds
from changefeed.pipeline.state import State
from changefeed.sinks import sink
from changefeed.sources import Source, source
from changefeed.spark_runtime.scratch import Scratch, sweep
from changefeed.spark_runtime.session import lives, suited
from changefeed.spark_runtime.workers import check

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OnState = Callable[[State], None]

Begun = tuple[int, State]  # the last completed step when a run began, and the state after it

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run: from `before` to `state`; `reached` is whether `until` was reached, None if it was not set."""

    epoch: int
    steps: int
    before: State
    state: State
    reached: bool | None


def run(
    definition: Definition,
    spark: SparkSession,
    *,
    once: bool = False,
    until: Until = None,
    progress: OnState | None = None,
    stopping: Callable[[], bool] | None = None,
    retrying: Callable[[Retry], None] | None = None,
) -> RunResult:
    """Applies the changes of the source: all that it has with `once`, else without end; with `until`, only up to that point.

    Args:
        definition: the pipeline.
        spark: a session with Delta, on one machine or a cluster. If its settings change the meaning of SQL, the run uses a second
            session.
        once: stop after what the source has now.
        until: a commit_ts, or the upstream's name of a transaction or resolved event; every table ends at exactly this point.
        progress: called after every step with the state after it.
        stopping: called every second; once it returns True, the run ends after the current step.
        retrying: called before the wait for a retry, after a transient error.

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
    retries = Retries(behaviour.max_retries, seconds(behaviour.retry_backoff), retrying, stopping)
    begun: Begun | None = None
    with as_ours(definition.sink.path):
        spark = suited(spark)
    while True:
        runner = _Runner(definition, spark, once, until, progress, stopping, begun)
        try:
            with as_ours(definition.sink.path):
                return runner.run()
        except ChangefeedError as error:
            if not lives(spark) or not retries.wait(error, runner.ledger.step):
                if stopping() and runner.begun is not None and getattr(error, "transient", False):
                    return runner.summary()
                raise
        begun = runner.begun


def open_flow(definition: Definition, spark: SparkSession, opened: Source | None = None) -> Flow:
    """The parts of one run, connected; its ledger is not claimed yet."""
    opened, spark = opened or source(definition.source), suited(spark)
    own, behaviour = own_folder(definition), definition.pipeline
    ledger = open_ledger(definition, spark)
    pending = PendingStore(spark, f"{own}/pending", cuts=behaviour.consistency == "transaction")
    letters = DeadLetters(spark, table_of(definition, spark), behaviour.dead_letters, behaviour.name)
    options = RowOptions(definition.sink.irregular, behaviour.keyless == "inserts", opened.redefinition)
    executor = Executor(definition, ledger, pending, sink(definition.sink, spark), options)
    rules = rules_of(definition, opened.capabilities)
    frontier = strategy(behaviour.consistency, opened.capabilities, rules)
    expiry = partial(wait_for_expiry, definition, spark)
    return Flow(definition, rules, frontier, ledger, pending, letters, executor, expiry)


class _Runner:
    def __init__(
        self,
        definition: Definition,
        spark: SparkSession,
        once: bool,
        until: Until,
        progress: OnState | None,
        stopping: Callable[[], bool],
        begun: Begun | None,
    ) -> None:
        self.definition, self.spark, self.once, self.until, self.progress = definition, spark, once, until, progress
        self.stopping, self.begun = stopping, begun
        self.source: Source = source(definition.source)
        self.flow = open_flow(definition, spark, self.source)
        self.ledger = self.flow.ledger
        self.last_settled: State | None = None  # the state when it was last settled; None if something was read since
        self.error: BaseException | None = None
        self.ended = False
        self.joined: set[str] = set()  # topics without earlier records, whose changes may be below the cut
        self.read_to_end: set[tuple[str, int]] = set()  # partitions of which nothing was left to read
        self.at_work = threading.Lock()  # locked during a step; ending the query waits for it
        self.stepped = threading.Event()  # a batch has ended since `_wait` checked

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
        self.flow.begin()
        delete_rebuilds(self.spark, own_folder(self.definition), self.ledger.epoch)
        self.begun = self.begun or (self.ledger.step, self.ledger.state)
        self._recover()
        self.flow.letters.settle(self.ledger.state.positions)
        if not self._done():
            self._stream()
        if self.once and not self._done():
            self._settle()

    def _recover(self) -> None:
        """Finishes a begun step, and applies pending changes that the resolved events already cover."""
        if self.flow.recover():
            self._report()
        state = self.ledger.state
        if isinstance(self.until, int) and state.barrier is not None and state.barrier > self.until:
            raise ConfigError(
                f"--until {self.until}: the tables are at {state.barrier} already. Read the cut at {self.until} from the "
                "ledger (changefeed status --json), or start a new pipeline in an empty folder"
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
        """Applies what had to wait while there was more to read."""
        if self._may_settle():
            self._step(idle=True)
            self.last_settled = self.ledger.state

    def _may_settle(self) -> bool:
        """Whether changes may wait for an idle source, and were not settled already."""
        state = self.ledger.state
        return self.flow.strategy.waits(state) and state is not self.last_settled

    def _step(self, *, idle: bool) -> None:
        state, before = self.ledger.state, self.ledger.step
        if state.pending and state.source is not None:
            self.flow.step(state, self.source.partitions(state.source), self.until, idle=idle)
            if self.ledger.step != before:
                self._report()

    def _stream(self) -> None:
        source_offset = self.ledger.state.source or self.source.start
        end = self.source.end(self.spark, source_offset) if self.once else None
        if end is not None and source_offset is not None and offset_text(end) == offset_text(source_offset):
            return
        sweep()
        self._lead(source_offset)
        source_offset = self.ledger.state.source or self.source.start
        checkpoint = Scratch("checkpoint")
        try:
            query = self._query(self.source.stream(self.spark, source_offset, end), f"{checkpoint.path}/spark", end)
            self._wait(query)
        finally:
            checkpoint.close()

    def _lead(self, source_offset: str | None) -> None:
        """Reads the partitions with few records first, where other partitions wait for them."""
        leading = self.source.leading(self.spark, source_offset) if self.flow.strategy.needs_ends else None
        if leading is not None:
            chunks, partitions = (
                partial(self.source.chunks, leading.records),
                self.source.partitions(leading.source_offset),
            )
            self._take(Batch(chunks, offset_text(leading.source_offset), partitions, ended=leading.ended))

    def _query(self, records: DataFrame, checkpoint: str, end: str | None) -> StreamingQuery:
        def on_batch(batch: DataFrame, number: int) -> None:
            with self.at_work:
                if self.error is not None or self.ended or self._done():
                    return
                try:
                    self._batch(batch, number, checkpoint, end)
                except BaseException as error:  # raised by `_wait`: without an answer Spark would wait forever
                    self.error = error
                self.stepped.set()

        writer = records.writeStream.foreachBatch(on_batch).option("checkpointLocation", f"file://{checkpoint}")
        if self._ends_by_itself:
            return writer.trigger(availableNow=True).start()
        interval = "0 seconds" if self.once else self.definition.pipeline.trigger_interval
        return writer.trigger(processingTime=interval).start()

    @property
    def _ends_by_itself(self) -> bool:
        return self.once and self.source.available_now

    def _batch(self, batch: DataFrame, number: int, checkpoint: str, end: str | None) -> None:
        logged = batch_offset(checkpoint, number)
        source_offset = offset_text(self.source.source_offset(self.spark, self.ledger.state.source, logged))
        caught_up = self.source.caught_up(self.ledger.state.source, source_offset)
        if self.flow.strategy.needs_ends and not caught_up:
            ended = self.source.ended(self.spark, source_offset)
            # an available-now stream has no more to read of a partition that was at its end once
            self.read_to_end = ended | self.read_to_end if self._ends_by_itself else ended
        records = self.source.batch(self.spark, batch, self.ledger.state.source, source_offset)
        chunks, partitions = partial(self.source.chunks, records), self.source.partitions(source_offset)
        self._take(Batch(chunks, source_offset, partitions, caught_up, self.read_to_end))
        self.ended = end is not None and source_offset == offset_text(end)

    def _take(self, batch: Batch) -> None:
        before = self.ledger.state
        self.flow.take(batch, self.until)
        self._report()
        self._warn_of_late(before)

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

    def _wait(self, query: StreamingQuery) -> None:
        """Waits until the query ends, or the run has reached its end."""
        try:
            while query.isActive and self.error is None and not self.ended and not self._done():
                if self._ends_by_itself:
                    query.awaitTermination(1)
                else:
                    self.stepped.wait(1)
                    self.stepped.clear()
                self._settle_if_idle(query)
        finally:
            with self.at_work:
                self.ended = True
            if query.isActive:
                query.stop()
        if self.error is not None:
            raise self.error
        failed = query.exception()
        if failed is not None:
            self._raise_cause(failed)
            raise failed

    def _raise_cause(self, failed: BaseException) -> None:
        """Asks the source for the cause of an error, and raises it: Spark does not name the topic that is gone.

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
                return  # the brokers are unavailable: Spark's error is raised
            raise error from failed
        if compared.removed:
            raise SourceError(
                f"topics were removed while the run was reading: {', '.join(sorted(compared.removed))}", transient=True
            )

    def _settle_if_idle(self, query: StreamingQuery) -> None:
        """Settles if the last trigger found nothing new."""
        if not self._may_settle():
            return  # each question to Spark is a call over a socket
        with self.at_work:
            status, looked = query.status, query.lastProgress
            at_rest = not (status["isDataAvailable"] or status["isTriggerActive"])
            if self.error is None and at_rest and looked is not None and looked["numInputRows"] == 0:
                self._settle()

    def _done(self) -> bool:
        if self.stopping():
            return True
        return self.flow.is_reached(self.until)

    def _report(self) -> None:
        if self.progress is not None:
            self.progress(self.ledger.state)
