"""One step from start to end: the only module that contains the order of its parts.

records ──▶ chunks ──▶ pending store ──▶ frontier ──▶ plan ──▶ writes ──▶ ledger
              └──▶ dead letters

It uses contracts only: a sink (`sinks.base`), a ledger, a pending store and dead letters. With these in memory it runs without
Spark, as in tests; `replay` and recovery use it, too.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from changefeed.errors import FencedError
from changefeed.frames.chunks import Dated
from changefeed.pipeline.absorb import absorbed
from changefeed.pipeline.config.begun import check_columns, check_consistency
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.contracts import Letters, Pending
from changefeed.pipeline.executor import Executor
from changefeed.pipeline.frontier import Frontier, FrontierStrategy, Until
from changefeed.pipeline.frontier.base import Reading
from changefeed.pipeline.frontier.ends import passed_by_all
from changefeed.pipeline.frontier.heads import with_heads
from changefeed.pipeline.pending import places
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.pending.counting import check_counts, rows_within, shapes_inside
from changefeed.pipeline.pending.places import are_left_out, with_repeats
from changefeed.pipeline.pending.resent import below_marks, may_be_keyless, sendings, still_needed, surplus
from changefeed.pipeline.planning.actions import Plan
from changefeed.pipeline.planning.connectors import sent_twice
from changefeed.pipeline.planning.plan import Planned, make
from changefeed.pipeline.planning.rules import Rules
from changefeed.pipeline.planning.schema_changes import SKIPPED
from changefeed.pipeline.state import State, Stretches, counted, merged
from changefeed.pipeline.store.base import StateStore
from changefeed.stages.changes import Window
from changefeed.stages.lone_tombstones import with_latest
from changefeed.telemetry import passed

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of reading a source once.

    Attributes:
        chunks: the last records with a commit_ts before, and the fragments that the batch before left (in the pending
            store's form; None for none) -> the batch's chunks, in the form that the pending store takes.
        offset: where the source continues.
        partitions: the partitions of the source.
        caught_up: the source had nothing more to read when the batch began.
        ended: the partitions of which nothing was left to read after the batch.
    """

    chunks: Callable[[Dated, Any], Any]
    offset: str
    partitions: set[tuple[str, int]]
    caught_up: bool = False
    ended: Collection[tuple[str, int]] = ()


def log_note(note: str) -> None:
    """Logs a note of a step: a statement without effect as information, anything else as a warning."""
    _log.log(logging.INFO if note.startswith(SKIPPED) else logging.WARNING, "%s", note)


@dataclass(slots=True)
class Flow:
    """The parts of one run, connected.

    Attributes:
        check_storages: checks, before the ledger is claimed, that no storage lets two runs overwrite each other's files.
        sync: writes the files at paths below the sink's path to disk, and those of the pipeline itself.
        wait_for_paths: called with a begun plan and the state before it; returns when no `expire` deletes the plan's paths.
        report: called with each note of a step that is done.
        register: called with the state before the first step, and after each step: keeps the tables' names in a catalog.
    """

    definition: Definition
    rules: Rules
    strategy: FrontierStrategy
    ledger: StateStore
    pending: Pending
    letters: Letters
    executor: Executor
    wait_for_paths: Callable[[Plan, State], None] = lambda plan, state: None
    check_storages: Callable[[], None] = lambda: None
    sync: Callable[[Iterable[str]], None] = lambda paths: None
    report: Callable[[str], None] = log_note
    register: Callable[[State], None] = lambda state: None

    def claim(self) -> None:
        """Takes the pipeline over, and looks at no table yet.

        Raises:
            ConfigError: the ledger is another pipeline's, or a storage would let two runs overwrite each other's files.
        """
        self.check_storages()
        self.ledger.claim()
        self.executor.take_name()

    def begin(self) -> None:
        """Takes the pipeline over, and checks its tables.

        Raises:
            ConfigError: as `claim`, or the definition changes what must stay.
        """
        self.claim()
        self.executor.begin()
        check_consistency(self.definition, self.ledger.state)
        table = next((t for t in self.ledger.state.tables.values() if t.written), None)
        columns = self.executor.columns(table.path) if table is not None else None
        if table is not None and columns is not None:  # one table shows it for all
            check_columns(table, columns, self.executor.sink.metadata_columns)

    def recover(self) -> bool:
        """Finishes the step that an earlier run began, and deletes unused folders; returns whether there was such a step."""
        plan = self.ledger.unfinished
        named = [*self.ledger.state.pending, *(plan.folders if plan else ())]
        self.pending.delete_all_but(named, self.ledger.epoch)
        if plan is not None:
            self._carry_out(plan)
        else:
            self.register(self.ledger.state)
            self.executor.publish()
        return plan is not None

    def take(self, batch: Batch, until: Until = None) -> None:
        """Takes one batch all the way: to the tables what the frontier covers, the rest to the pending store."""
        # a partition that has ended is past everything that was read before this batch
        newest = self.ledger.state.newest()
        ended = dict.fromkeys(batch.ended, newest) if newest is not None else {}
        with self._fenced_first():
            state = self._read(batch, ended)
        if self.rules.uncaptured_ddl:
            for note in sent_twice(state.positions, self.ledger.state.positions):
                self.report(note)
        self.step(state, batch.partitions, until, caught_up=batch.caught_up, ended=ended)

    def step(
        self,
        state: State,
        partitions: set[tuple[str, int]],
        until: Until = None,
        *,
        caught_up: bool = False,
        idle: bool = False,
        ended: Mapping[tuple[str, int], int] = MappingProxyType({}),
    ) -> None:
        """Moves the tables as far as `state` allows, and publishes what was reached.

        Args:
            state: the state before the step, with everything that was read; some of it is not applied yet.
            partitions: the partitions of the source.
            until: the point at which the tables stop; None to go as far as possible.
            caught_up: the source had nothing more to read when the last batch began.
            idle: nothing was read since then either.
            ended: see `Reading`.
        """
        with self._fenced_first():
            self._advance(state, partitions, until, caught_up=caught_up, idle=idle, ended=ended)

    def _advance(
        self,
        state: State,
        partitions: set[tuple[str, int]],
        until: Until,
        *,
        caught_up: bool,
        idle: bool,
        ended: Mapping[tuple[str, int], int],
    ) -> None:
        """Makes one step; the arguments are those of `step`."""
        chunks = self.pending.index(state.pending, state.sums)
        # how far each table may advance
        fresh = [chunk for chunk in chunks if chunk.folder not in self.ledger.state.pending]
        frontier = self.strategy.advance(Reading(state, chunks, fresh, partitions, until, caught_up, idle, ended))
        if not frontier.moves:
            if frontier.state != self.ledger.state:
                self.sync(())
                self.ledger.finish(frontier.state)
            return
        # chunks -> the writes that bring every table there
        topics = {topic for topic, _ in partitions}
        new = [chunk for chunk in chunks if not are_left_out(chunk, state.repeats)]
        planned = make(frontier, new, self.rules, self.executor.sink, partial(shapes_inside, self.pending), topics)
        next_state = self._counted(frontier, planned, chunks)
        if not planned.actions and next_state == self.ledger.state:
            return
        # the writes, each once
        plan = Plan(
            actions=planned.actions, folders=state.pending, sums=state.sums,
            state=next_state, notes=planned.notes, **self._left_out(state, chunks),
        )  # fmt: skip
        passed(
            "planned",
            tables=len({action.path for action in plan.actions}),
            schema_changes=Counter(change.type for change in planned.schema_changes),
        )
        if plan.actions:
            self.sync(())
            self.ledger.begin(plan)
        self._carry_out(plan)

    def _read(self, batch: Batch, ended: Mapping[tuple[str, int], int]) -> State:
        """The state with a batch in the pending store, and nothing of it applied; `ended`: see `Reading`."""
        before = self.ledger.state
        # records -> chunks, on disk before anything else
        passed("stage.before")
        fragments = self.pending.waiting(before.waiting) if before.waiting is not None else None
        waiting_before = self.pending.index(before.pending, before.sums)
        keyless = self.strategy.drops_resent and may_be_keyless(before, waiting_before)
        dated = with_latest(before.dated, before.latest, before.barrier, keyless=keyless)
        folder, total = self.pending.stage(batch.chunks(dated, fragments), self.ledger.epoch)
        passed("stage.after")
        fresh = self.pending.index([folder], {folder: total})
        # chunks of what could not be decoded -> dead letters, and the policy
        self.letters.take(self.pending, folder, fresh)
        # chunks -> positions, marks and counts; tables that must wait because of the batch are held
        held = self.strategy.arrived(before, fresh)
        self.strategy.check(held, fresh, self._count)
        repeated = rows_within(self.pending, fresh, repeated=lambda chunk: self.strategy.repeated(held, chunk))
        quarantine = self.definition.pipeline.dead_letters == "quarantine"
        state = absorbed(held, fresh, (folder, total), batch.offset, repeated["repeated"], quarantine=quarantine)
        if self.strategy.drops_resent:
            state = with_heads(state, held, fresh)
        # rows that the producer sends again
        covered = passed_by_all(state, state.partitions().union(batch.partitions), ended)
        state = with_repeats(state, held, waiting_before, fresh, covered, cuts=self.strategy.drops_resent)
        if self.strategy.drops_resent:
            state = replace(
                state, repeats=merged(state.repeats, below_marks(held.resolved, waiting_before, fresh, held.barrier))
            )
        resent, last = sendings(held.resent, held.marks, waiting_before, fresh, held.barrier)
        passed("batch.read", records=state.counts.records)
        return replace(state, resent=resent, marks=last)

    def _count(self, chunk: ChunkInfo, window: Window) -> int:
        """The number of changes of a chunk in a window."""
        return rows_within(self.pending, [replace(chunk, kind="rows")], rows=lambda _: [window])["rows"]

    def _left_out(self, state: State, chunks: list[ChunkInfo]) -> dict[str, Stretches]:
        """The rows that a plan leaves out because they were sent again."""
        if not self.strategy.drops_resent:
            return {"repeats": state.repeats}
        return {"repeats": state.repeats, "surplus": surplus(state.resent, chunks)}

    def _counted(self, frontier: Frontier, planned: Planned, chunks: list[ChunkInfo]) -> State:
        """The state after the writes, after checking that applied, repeated and pending rows add up to all rows read."""
        retained = frontier.retain(chunks, planned.unknown, planned.held)

        def applied(chunk: ChunkInfo) -> Iterable[Window]:
            return frontier.applied(chunk, planned.unknown, planned.held)

        def still_pending(chunk: ChunkInfo) -> Iterable[Window]:
            return frontier.pending(chunk, planned.held, retained) if chunk.folder in retained.pending else ()

        rows = rows_within(self.pending, chunks, applied=applied, pending=still_pending)
        next_state = counted(planned.state_after(retained), applied=rows["applied"])
        check_counts(next_state.counts, rows["pending"])
        pending = [chunk for chunk in chunks if chunk.folder in next_state.pending]
        repeats = places.still_needed(next_state.repeats, pending)
        return replace(next_state.trimmed(), resent=still_needed(next_state.resent, pending), repeats=repeats)

    def _carry_out(self, plan: Plan) -> None:
        """Makes the missing writes of a begun step, and publishes its cut."""
        with self._fenced_first():
            self.wait_for_paths(plan, self.ledger.state)
            state = self.executor.carry_out(plan)
            self.sync({action.path for action in plan.actions})
        left_out = state.uncaptured.keys() - self.ledger.state.uncaptured.keys()
        self.ledger.finish(state)
        if left_out:
            _log.info(
                "left out, because no row and no topic shows that they are captured: %s", ", ".join(sorted(left_out))
            )
        for note in plan.notes:
            self.report(note)
        # folders that the cut covers are no longer pending
        passed("cleanup.before")
        self.pending.delete_all_but(plan.state.pending, self.ledger.epoch)
        passed("cleanup.after")
        self.register(self.ledger.state)
        self.executor.publish()

    @contextmanager
    def _fenced_first(self) -> Iterator[None]:
        """Raises `FencedError` in place of any error of a fenced run, whose files a newer run may have moved."""
        try:
            yield
        except FencedError:
            raise
        except Exception as error:
            fenced, newer = False, "a newer run"
            with suppress(Exception):  # if this check fails, the original error is raised
                fenced = self.ledger.is_fenced()
                if fenced and (latest := self.ledger.latest()) is not None:
                    newer = f"epoch {latest.epoch}"
            if fenced:
                raise FencedError(
                    f"{self.ledger.path}: {newer} of pipeline {self.ledger.pipeline} has taken over; this run is epoch "
                    f"{self.ledger.epoch} and stops"
                ) from error
            raise

    def is_reached(self, until: Until) -> bool:
        """Whether the tables have reached `until` or passed it."""
        return until is not None and self.strategy.is_reached(self.ledger.state, until)
