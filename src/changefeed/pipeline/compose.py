"""The flow, and the only place that knows its order.

source ──▶ decode ──▶ pending store ──▶ plan ──▶ changes ──▶ latest ──▶ merge ──▶ ledger
└──▶ dead letters
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from changefeed.pipeline import barrier as marks
from changefeed.pipeline import transactions
from changefeed.pipeline.actions import AddColumns, AnyAction, Copy, Create, Merge, Plan, Rewrite, chains, without
from changefeed.pipeline.barrier import absorbed, still_pending
from changefeed.pipeline.begun import check_columns, check_consistency
from changefeed.pipeline.by_key import Reach, floor, reach
from changefeed.pipeline.counting import rows_within
from changefeed.pipeline.dead_letters import DeadLetters
from changefeed.pipeline.definition import Definition
from changefeed.pipeline.failpoint import failpoint
from changefeed.pipeline.ledger import Ledger
from changefeed.pipeline.pending import ChunkInfo, PendingStore
from changefeed.pipeline.plan import Planned, make
from changefeed.pipeline.rules import rules_of
from changefeed.pipeline.schema_changes import PASSED
from changefeed.pipeline.state import State, counted
from changefeed.protocols import protocol
from changefeed.protocols.base import Capabilities
from changefeed.sinks.delta.log import Snapshot, Stamp
from changefeed.sinks.delta.table import Writer
from changefeed.spark.session import compiled
from changefeed.stages.changes import NO_READS, Told, Window, changes
from changefeed.stages.decode import decode
from changefeed.stages.latest import last_reading, latest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_log = logging.getLogger(__name__)

# From here on it is worth the seconds that it takes to compile the plan of a write.
_MANY_ROWS, _MANY_BYTES = 1_000_000, 64 * 2**20

# Where to stop: a commit_ts, or the upstream's name of a transaction or of a mark.
Until = int | str | None


@dataclass(slots=True)
class Flow:
    """The parts of one run, wired."""

    definition: Definition
    ledger: Ledger
    pending: PendingStore
    letters: DeadLetters
    writer: Writer
    root: str
    whole: bool  # batches of records are whole partitions by the task, in order

    def batch(
        self,
        records: DataFrame,
        folder: str,
        token: str,
        partitions: set[tuple[str, int]],
        until: Until,
        *,
        drained: bool,
    ) -> None:
        """Takes one batch of records all the way: to the tables what the barrier covers, the rest to the pending store.

        `drained` tells that the source had nothing more to read when the batch began.
        """
        choice = self.definition.source.protocol
        # records -> chunks, on disk before anything else
        failpoint("stage.before")
        waiting = self.ledger.state.waiting
        left = self.pending.waiting(waiting) if waiting is not None else None
        latest, spoken = self.ledger.state.latest, (choice.name, choice.options)
        self.pending.stage(decode(records, *spoken, latest, left, whole=self.whole), folder)
        failpoint("stage.after")
        fresh = self.pending.index([folder])
        # chunks that say what could not be decoded -> dead letters, and the policy
        self.letters.take(self.pending, folder, fresh)
        # chunks -> what is known now: positions, marks, counts
        before = self.ledger.state
        repeated = rows_within(self.pending, fresh, lambda chunk: self._before(before, chunk))
        quarantine = self.definition.pipeline.dead_letters == "quarantine"
        state = absorbed(before, fresh, folder, token, repeated, quarantine=quarantine)
        self.step(state, partitions, until, settled=drained and self.by_key)

    def begin(self) -> None:
        """Takes the pipeline over.

        Raises:
            ConfigError: the ledger is another pipeline's, or the definition changes what must stay.
        """
        self.ledger.claim()
        check_consistency(self.definition, self.ledger.state)
        here = next((t for t in self.ledger.state.tables.values() if t.version is not None), None)
        found = self.writer.state(f"{self.root}/{here.path}") if here is not None else None
        if here is not None and found is not None:  # one table shows it for all
            check_columns(self.definition, here, found.columns)

    def recover(self) -> bool:
        """Finishes the step that an earlier run began, and drops folders that nobody names; tells if there was one."""
        plan = self.ledger.unfinished
        self.pending.delete_all_but([*self.ledger.state.pending, *(plan.folders if plan else ())])
        if plan is not None:
            self.finish(plan)
        return plan is not None

    def step(self, before: State, partitions: set[tuple[str, int]], until: Until, *, settled: bool = False) -> None:
        """Moves all tables to the barrier that `before` allows, and publishes it.

        `settled` tells that the source had nothing more to read.
        """
        chunks = self.pending.index(before.pending)
        if self.by_key:
            self._step_by_key(before, chunks, reach(before, chunks, partitions, self.spoken, settled=settled))
            return
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

        def windows(chunk: ChunkInfo) -> list[Window]:
            hold = state.held.get(chunk.name)
            if hold is None:
                return [Window(after, upto)]
            return [Window(hold.after, upto)] if hold.released else []

        reached = replace(planned.reached(state), pending=still_pending(state, chunks, planned.held))
        self._carry_out(planned, state, counted(reached, applied=rows_within(self.pending, chunks, windows)))

    def _step_by_key(self, before: State, chunks: list[ChunkInfo], reach: Reach) -> None:
        """Moves each table as far as the schema changes allow."""
        planned = make(before, chunks, None, None, rules_of(self.definition), reach)
        applied = rows_within(self.pending, chunks, reach.windows(chunks, planned.unknown))
        reached = counted(planned.reached(reach.left(chunks, planned.unknown)), applied=applied)
        if planned.actions or reached != self.ledger.state:
            self._carry_out(planned, before, reached)

    def _carry_out(self, planned: Planned, before: State, reached: State) -> None:
        plan = Plan(actions=planned.actions, folders=before.pending, state=reached, notes=planned.notes)
        self.ledger.begin(plan)
        self.finish(plan)

    def _before(self, state: State, chunk: ChunkInfo) -> list[Window]:
        """The window of what has been applied before, if there is one."""
        applied = None if chunk.name in state.held else state.barrier
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
    def cuts(self) -> str:
        """What tells how far all tables may move; see `protocols.base.Capabilities`."""
        return self.spoken.cuts

    @property
    def spoken(self) -> Capabilities:
        """What the source's protocol can do."""
        return protocol(self.definition.source.protocol.name).capabilities

    def finish(self, plan: Plan) -> None:
        """Does what a begun step still lacks, and publishes its cut."""
        plan = without(plan, self.definition.pipeline.excludes)
        self._write_all(plan)
        tables = dict(plan.state.tables)
        touched = {action.path for action in plan.actions}
        for name, here in tables.items():
            if here.path in touched or here.version is None:
                found = self.writer.state(f"{self.root}/{here.path}")
                tables[name] = replace(here, version=found.version if found else None)
        self.ledger.finish(replace(plan.state, tables=tables))
        for note in plan.notes:
            _log.log(logging.INFO if note.startswith(PASSED) else logging.WARNING, "%s", note)
        # what the cut covers is no longer pending
        failpoint("cleanup.before")
        self.pending.delete_all_but(plan.state.pending)
        failpoint("cleanup.after")

    def _write_all(self, plan: Plan) -> None:
        groups = chains(plan.actions)
        threads = min(self.definition.pipeline.parallelism, len(groups))
        if threads < 2:
            for action in plan.actions:
                self._write(action, plan)
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="tables") as pool:
            done = [pool.submit(self._own_session()._write_group, group, plan) for group in groups]
        for group in done:
            group.result()

    def _own_session(self) -> Flow:
        """This flow with a Spark session of its own: the stamp of a MERGE is a setting of the session."""
        session = self.writer.spark.newSession()
        return replace(self, writer=replace(self.writer, spark=session), pending=replace(self.pending, spark=session))

    def _write_group(self, actions: list[AnyAction], plan: Plan) -> None:
        for action in actions:
            self._write(action, plan)

    def _write(self, action: AnyAction, plan: Plan) -> None:
        path = f"{self.root}/{action.path}"
        stamp = Stamp(self.ledger.epoch, self.ledger.step + 1, action.number)
        found = self.writer.state(path)
        if found and found.stamp and (found.stamp.step, found.stamp.action) >= (stamp.step, stamp.action):
            return  # the table says that a run before this one did it
        kind = type(action).__name__.lower()
        note = self._note(plan.state, stamp)
        failpoint(f"{kind}.before")
        with compiled(self.writer.spark) if self._is_large(action, plan, found) else nullcontext():
            match action:
                case Create():
                    self.writer.create(path, action.table, stamp, note)
                case AddColumns():
                    self.writer.add_columns(path, action.table, stamp, note)
                case Rewrite():
                    self.writer.rewrite(path, action.table, action.expressions, stamp, note)
                case Copy():
                    self.writer.copy(f"{self.root}/{action.source}", path, stamp, note)
                case Merge():
                    self._merge(action, plan, path, stamp, note)
        failpoint(f"{kind}.after")

    def _is_large(self, action: AnyAction, plan: Plan, table: Snapshot | None) -> bool:
        """Whether many rows go into the table, or may have to be read."""
        rows = 0
        if isinstance(action, Merge):
            name = ".".join(action.source)
            chunks = self.pending.index(action.folders or plan.folders)
            rows = sum(chunk.rows for chunk in chunks if chunk.name == name)
        elif isinstance(action, Copy):
            table = self.writer.state(f"{self.root}/{action.source}")
        return rows >= _MANY_ROWS or (table is not None and table.size >= _MANY_BYTES)

    def _merge(self, action: Merge, plan: Plan, path: str, stamp: Stamp, note: str) -> None:
        # chunks -> typed changes of this table -> the last one of every key
        chunks = self.pending.table(action.folders or plan.folders, action.source, action.after, action.upto)
        choice, window = self.definition.source.protocol, Window(action.after, action.upto)
        told = Told(choice.name, choice.options) if action.declared else None
        inserts = self.definition.pipeline.keyless == "inserts"
        typed = changes(
            chunks, action.table, window, self.definition.sink.irregular, told, inserts=inserts, reads=action.reads
        )
        if not action.table.keys:
            typed = last_reading(typed) if action.reads != NO_READS else typed
            write = self.writer.load if action.load else self.writer.append
            write(path, action.table, typed, stamp, note)
            return
        last = latest(typed, action.table, partial=action.partial)
        if action.load:
            self.writer.load(path, action.table, last, stamp, note)
        else:
            self.writer.merge(path, action.table, last, stamp, note, partial=action.partial)

    def _note(self, state: State, stamp: Stamp) -> str:
        """What a table's commit says of itself: who wrote it, and up to where it brings the table."""
        said = {
            "changefeed": self.definition.pipeline.name,
            "epoch": stamp.epoch,
            "step": stamp.step,
            "commit_ts": state.barrier,
            "positions": state.positions,
        }
        return msgspec.json.encode(said).decode()
