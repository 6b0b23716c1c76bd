"""The flow, and the only place that knows its order.

source ──▶ decode ──▶ pending store ──▶ plan ──▶ changes ──▶ latest ──▶ merge ──▶ ledger
└──▶ dead letters
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from changefeed.errors import FencedError
from changefeed.pipeline import barrier as marks
from changefeed.pipeline import late, transactions
from changefeed.pipeline.actions import Plan
from changefeed.pipeline.barrier import absorbed, still_pending
from changefeed.pipeline.begun import check_columns, check_consistency
from changefeed.pipeline.by_key import Reach, floor, reach
from changefeed.pipeline.counting import Windows, check_counts, rows_within
from changefeed.pipeline.dead_letters import DeadLetters
from changefeed.pipeline.definition import Definition
from changefeed.pipeline.executor import Executor
from changefeed.pipeline.expired import wait_for_expiry
from changefeed.pipeline.failpoint import failpoint
from changefeed.pipeline.pending import ChunkInfo, PendingStore
from changefeed.pipeline.plan import Planned, make
from changefeed.pipeline.resent import sendings, still_needed
from changefeed.pipeline.rules import rules_of
from changefeed.pipeline.schema_changes import PASSED
from changefeed.pipeline.state import State, counted
from changefeed.pipeline.store.base import StateStore
from changefeed.protocols import protocol
from changefeed.protocols.base import Capabilities
from changefeed.stages.changes import Window
from changefeed.stages.decode import decode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_log = logging.getLogger(__name__)

# Where to stop: a commit_ts, or the upstream's name of a transaction or of a mark.
Until = int | str | None


@dataclass(slots=True)
class Flow:
    """The parts of one run, wired."""

    definition: Definition
    ledger: StateStore
    pending: PendingStore
    letters: DeadLetters
    executor: Executor
    whole: bool  # batches of records are whole partitions by the task, in order

    def batch(
        self,
        records: DataFrame,
        token: str,
        partitions: set[tuple[str, int]],
        until: Until,
        *,
        drained: bool,
    ) -> None:
        """Takes one batch of records all the way: to the tables what the barrier covers, the rest to the pending store.

        `drained` tells that the source had nothing more to read when the batch began.
        """
        with self._fenced_first():
            state = self._read(records, token)
        self.step(state, partitions, until, settled=drained and self.by_key)

    def _read(self, records: DataFrame, token: str) -> State:
        """The state with a batch taken into the pending store, and nothing of it applied."""
        choice = self.definition.source.protocol
        # records -> chunks, on disk before anything else
        failpoint("stage.before")
        waiting = self.ledger.state.waiting
        left = self.pending.waiting(waiting) if waiting is not None else None
        latest, spoken = self.ledger.state.latest, (choice.name, choice.options)
        chunks = decode(records, *spoken, latest, left, whole=self.whole)
        folder, total = self.pending.stage(chunks, self.ledger.epoch)
        failpoint("stage.after")
        fresh = self.pending.index([folder], {folder: total})
        # chunks that say what could not be decoded -> dead letters, and the policy
        self.letters.take(self.pending, folder, fresh)
        # chunks -> what is known now: positions, marks, counts
        before = self.ledger.state
        if self.by_marks:
            before = late.with_new_tables(before, fresh, rules_of(self.definition).excluded)
        elif not self.by_key and (passed := transactions.reads_below(fresh, before.barrier)):
            _log.warning(
                "rows of an incremental snapshot that lie below the cut are passed over as if sent again: %s. If they were never "
                "sent before, the tables lack them: take the snapshot again through Debezium's signal table",
                passed,
            )
        repeated = rows_within(self.pending, fresh, repeated=lambda chunk: self._before(before, chunk))["repeated"]
        quarantine = self.definition.pipeline.dead_letters == "quarantine"
        state = absorbed(before, fresh, (folder, total), token, repeated, quarantine=quarantine)
        waiting_before = self.pending.index(before.pending, before.sums)
        resent, last = sendings(before.resent, before.marks, waiting_before, fresh)
        return replace(state, resent=resent, marks=last)

    def begin(self) -> None:
        """Takes the pipeline over.

        Raises:
            ConfigError: the ledger is another pipeline's, or the definition changes what must stay.
        """
        self.ledger.claim()
        self.executor.begin()
        check_consistency(self.definition, self.ledger.state)
        here = next((t for t in self.ledger.state.tables.values() if t.written), None)
        columns = self.executor.columns(here.path) if here is not None else None
        if here is not None and columns is not None:  # one table shows it for all
            check_columns(self.definition, here, columns)

    def recover(self) -> bool:
        """Finishes the step that an earlier run began, and drops folders that nobody names; tells if there was one."""
        plan = self.ledger.unfinished
        named = [*self.ledger.state.pending, *(plan.folders if plan else ())]
        self.pending.delete_all_but(named, self.ledger.epoch)
        if plan is not None:
            self._finish(plan)
        return plan is not None

    def step(self, before: State, partitions: set[tuple[str, int]], until: Until, *, settled: bool = False) -> None:
        """Moves all tables to the barrier that `before` allows, and publishes it.

        `settled` tells that the source had nothing more to read.
        """
        chunks = self.pending.index(before.pending, before.sums)
        if self.by_key:
            self._step_by_key(before, chunks, reach(before, chunks, partitions, self.spoken, settled=settled))
            return
        if self.by_marks:
            before = late.released(before, partitions)
        state = self._cut(before, chunks, partitions, until, settled)
        after, upto = before.barrier, state.barrier
        fresh = [chunk for chunk in chunks if chunk.folder not in self.ledger.state.pending]
        again = self.cuts == "transactions" and transactions.reads_at(fresh, after)
        if upto is None or (upto == after and not again and not any(h.released for h in state.held.values())):
            if state != self.ledger.state:
                self.ledger.finish(state)
            return
        # chunks -> the writes that bring every table there
        planned = make(state, chunks, after, upto, rules_of(self.definition), again=again)

        def applied(chunk: ChunkInfo) -> list[Window]:
            hold, held = state.held.get(chunk.name), planned.held.get(chunk.name)
            if hold is not None and held is not None:
                return []
            return [Window(hold.after if hold else after, held.after if held else upto)]

        def pending(chunk: ChunkInfo) -> list[Window]:
            held = planned.held.get(chunk.name)
            return [Window(held.after if held else upto)]

        reached = replace(planned.reached(state), pending=still_pending(state, chunks, planned.held))
        self._carry_out(planned, state, self._counted(reached, chunks, applied, pending))

    def _step_by_key(self, before: State, chunks: list[ChunkInfo], reach: Reach) -> None:
        """Moves each table as far as the schema changes allow."""
        planned = make(before, chunks, None, None, rules_of(self.definition), reach)
        reached = planned.reached(reach.left(chunks, planned.unknown))

        def pending(chunk: ChunkInfo) -> list[Window]:
            done = reached.partly.get(chunk.folder, {chunk.name: None})
            if chunk.name not in done:
                return []
            bounds = [b for b in (done[chunk.name], floor(before, chunk.name, self.spoken)) if b is not None]
            return [Window(max(bounds, default=None))]

        reached = self._counted(reached, chunks, reach.windows(chunks, planned.unknown), pending)
        if planned.actions or reached != self.ledger.state:
            self._carry_out(planned, before, reached)

    def _counted(self, reached: State, chunks: list[ChunkInfo], applied: Windows, above: Windows) -> State:
        """The state with the rows that a step applies, once they and those left in the pending store are all that was read."""

        def left(chunk: ChunkInfo) -> Iterator[Window]:
            yield from above(chunk) if chunk.folder in reached.pending else ()

        found = rows_within(self.pending, chunks, applied=applied, left=left)
        reached = counted(reached, applied=found["applied"])
        check_counts(reached.counts, found["left"])
        pending = [chunk for chunk in chunks if chunk.folder in reached.pending]
        return replace(reached.trimmed(), resent=still_needed(reached.resent, pending))

    def _carry_out(self, planned: Planned, before: State, reached: State) -> None:
        plan = Plan(
            actions=planned.actions, folders=before.pending, sums=before.sums,
            resent={} if self.by_key else before.resent, state=reached, notes=planned.notes,
        )  # fmt: skip
        self.ledger.begin(plan)
        self._finish(plan)

    def _finish(self, plan: Plan) -> None:
        """Does what a begun step still lacks, and publishes its cut."""
        with self._fenced_first():
            wait_for_expiry(self.definition, self.pending.spark, plan, self.ledger.state)
            state = self.executor.carry_out(plan)
        self.ledger.finish(state)
        for note in plan.notes:
            _log.log(logging.INFO if note.startswith(PASSED) else logging.WARNING, "%s", note)
        # what the cut covers is no longer pending
        failpoint("cleanup.before")
        self.pending.delete_all_but(plan.state.pending, self.ledger.epoch)
        failpoint("cleanup.after")

    @contextmanager
    def _fenced_first(self) -> Iterator[None]:
        """An error of a run that has been fenced is no more than that: a newer run has moved things under its hands."""
        try:
            yield
        except FencedError:
            raise
        except Exception as error:
            fenced = False
            with suppress(Exception):  # whatever asking meets, the error at hand came first
                fenced = self.ledger.is_fenced()
            if fenced:
                raise FencedError(
                    f"{self.ledger.path}: a newer run of pipeline {self.ledger.pipeline} has taken over; this run is epoch "
                    f"{self.ledger.epoch} and stops"
                ) from error
            raise

    def _before(self, state: State, chunk: ChunkInfo) -> list[Window]:
        """The window of what has been applied before, if there is one."""
        applied = state.held[chunk.name].after if chunk.name in state.held else state.barrier
        bound = floor(state, chunk.name, self.spoken) if self.by_key else applied
        return [] if bound is None else [Window(None, bound)]

    def _cut(
        self, state: State, chunks: list[ChunkInfo], partitions: set[tuple[str, int]], until: Until, settled: bool
    ) -> State:
        """The state with the barrier that the protocol's way of telling allows."""
        if self.cuts == "transactions":
            return transactions.barrier(state, chunks, until, settled=settled)
        point = marks.named(chunks, until) if isinstance(until, str) else until
        at = marks.barrier(state, partitions, point)
        return replace(state, barrier=at, mark=marks.name_of(chunks, at) if at != state.barrier else state.mark)

    def is_reached(self, until: Until) -> bool:
        """Whether the tables are at `until`, or beyond."""
        state = self.ledger.state
        if isinstance(until, int):
            return state.barrier is not None and state.barrier >= until
        if until is None or self.cuts == "transactions":
            return until is not None and transactions.is_reached(state, until)
        return until == state.mark

    @property
    def by_key(self) -> bool:
        """Whether each batch is applied at once."""
        return self.definition.pipeline.consistency == "key"

    @property
    def by_marks(self) -> bool:
        """Whether marks tell how far all tables may move."""
        return not self.by_key and self.cuts == "marks"

    @property
    def cuts(self) -> str:
        """What tells how far all tables may move; see `protocols.base.Capabilities`."""
        return self.spoken.cuts

    @property
    def spoken(self) -> Capabilities:
        """What the source's protocol can do."""
        return protocol(self.definition.source.protocol.name).capabilities
