"""A run over a sample of the source that writes nothing: the same flow, frontier, planner and typed rows, in memory.

`explain` and `check` show its results, so that they show and refuse what a run does, in the same words.

Rule 1. The sample is one batch, and the source has nothing more to read behind it: the last step is that of `run --once`.
Rule 2. A run would not apply what is above the frontier yet. It is planned as well, as if all of it were complete, so that its
tables and its refusals are shown: in most sources the sample ends in the middle of something.
Rule 3. The rows of each planned write are typed, and then dropped: a value or an update that stops a run stops the rehearsal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.dead_letters import stop, stops_at
from changefeed.pipeline.executor import Executor
from changefeed.pipeline.flow import Batch, Flow
from changefeed.pipeline.frontier import strategy
from changefeed.pipeline.frontier.cut import CutFrontier
from changefeed.pipeline.frontier.ends import is_waiting
from changefeed.pipeline.pending.changes import RowOptions
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.pending.counting import shapes_inside
from changefeed.pipeline.pending.memory import MemoryChanges, MemoryPending, Row
from changefeed.pipeline.planning.actions import Plan, without
from changefeed.pipeline.planning.captured import left_out
from changefeed.pipeline.planning.plan import make
from changefeed.pipeline.planning.rules import rules_of
from changefeed.pipeline.state import FolderSum, Positions, State, TableState
from changefeed.pipeline.store.memory import Memory, MemoryStore
from changefeed.pipeline.tables import open_tables
from changefeed.sources import Source


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The results of a rehearsal.

    Attributes:
        state: after the sample, as a run would leave it.
        tables: every table that the sample has, also those above the frontier.
        left_out: tables that are known by their DDL alone.
        notes: sentences about the steps, as a run logs them.
        chunks: the sample.
    """

    state: State
    tables: Mapping[str, TableState]
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    chunks: tuple[ChunkInfo, ...]


def rehearse(definition: Definition, opened: Source, sample: Iterable[pa.RecordBatch]) -> Rehearsal:
    """Takes the chunks of a sample through the steps of a run.

    Args:
        definition: the pipeline.
        opened: its source.
        sample: chunks of its first records.

    Raises:
        ProtocolError: a record cannot be decoded, and the policy is to stop.
        UnsupportedError, SchemaError: a schema change, a table or a row cannot be applied.
    """
    rules = rules_of(definition, opened.capabilities, opened.redefinition)
    behaviour, pending, notes = definition.pipeline, _Sample(), list[str]()
    ledger = MemoryStore(Memory(), behaviour.name)
    options = RowOptions(definition.sink.irregular, behaviour.keyless == "inserts", opened.redefinition)
    executor = _RowReader(definition, ledger, pending, open_tables(definition), options)
    frontier = strategy(behaviour.consistency, opened.capabilities, rules)
    letters = _Letters(behaviour.dead_letters)
    flow = Flow(definition, rules, frontier, ledger, pending, letters, executor, report=notes.append)
    ledger.claim()

    chunks = [batch for batch in sample if batch.num_rows]
    folder_of_all, _ = pending.stage(chunks, 0)
    infos = pending.index([folder_of_all], {})
    partitions = {(info.topic, info.partition) for info in infos}
    flow.take(Batch(lambda dated, fragments: chunks, "", partitions, caught_up=True, ended=partitions))
    if frontier.waits(ledger.state):
        flow.step(ledger.state, partitions, idle=True)
    state = ledger.state

    if behaviour.consistency == "key" and state.tables:
        left_out_notes = left_out(state.uncaptured, infos)
        return Rehearsal(state, state.tables, tuple(sorted(state.uncaptured)), (*notes, *left_out_notes), tuple(infos))
    # what is above the frontier
    above = CutFrontier(replace(state, barrier=None), state.barrier)
    pending_chunks = pending.index(state.pending, state.sums)
    planned = make(above, pending_chunks, rules, executor.sink, partial(shapes_inside, pending))
    left_out_notes = left_out(planned.uncaptured, infos)
    return Rehearsal(
        state,
        planned.tables,
        tuple(sorted(planned.uncaptured)),
        (*notes, *planned.notes, *left_out_notes),
        tuple(infos),
    )


# How the producer's changes become cuts, and what sees to it that it sends what they need.
ENDS = {
    "marks": ("a resolved event", "every partition needs one: see that the producer sends them"),
    "transactions": ("the end of a transaction", "set the connector's provide.transaction.metadata=true"),
    "nothing": ("a promise", "the protocol has none"),
}


def lacks_ends(definition: Definition, cuts: str, rehearsal: Rehearsal) -> bool:
    """Whether the sample has changes that no cut can include, because it has none of the events in `ENDS`.

    Where cuts are made behind transactions, schema changes and the rows of a snapshot need no end.
    """
    state = rehearsal.state
    if definition.pipeline.consistency != "transaction" or not state.counts.records:
        return False
    if cuts != "transactions":
        return not state.resolved
    has_ends = any(is_waiting(chunk, {}) for chunk in rehearsal.chunks)
    return not has_ends and any(_has_streamed_rows(chunk) for chunk in rehearsal.chunks)


def _has_streamed_rows(chunk: ChunkInfo) -> bool:
    """Whether the chunk has a row that was read from the binlog, not by a snapshot."""
    lines = chunk.transactions
    if lines is None:
        return False
    is_row = pc.and_(pc.is_null(lines.column("events")), pc.is_null(lines.column("mark")))
    return bool(pc.any(pc.and_(is_row, pc.is_null(lines.column("snapshot")))).as_py())


@dataclass(frozen=True, slots=True)
class _Sample(MemoryPending):
    """The pending store of a rehearsal: nobody else has its folders, so they need no checksums, and rows are read once."""

    rows: dict[str, list[Row]] = field(default_factory=dict)

    def sum(self, folder: str) -> FolderSum:
        return FolderSum(len(self.folders[folder]), 0, "")

    def check(self, folders: Iterable[str], sums: Mapping[str, FolderSum]) -> None:
        return

    def _rows(self, folders: Iterable[str]) -> Iterator[Row]:
        for folder in folders:
            if folder not in self.rows:
                self.rows[folder] = [row for batch in self.folders[folder] for row in batch.to_pylist()]
            yield from self.rows[folder]


@dataclass(slots=True)
class _RowReader(Executor):
    """Types the rows of a plan, as a sink would write them, and writes nothing."""

    def carry_out(self, plan: Plan) -> State:
        """See `Executor`."""
        plan = without(plan, self.definition.pipeline.excludes)
        for action in plan.actions:
            if action.changes is not None:
                changes = self.pending.changes(plan, action.changes, action.write.table, self.options)
                for _ in cast(MemoryChanges, changes).typed():
                    pass
        return plan.state


@dataclass(frozen=True, slots=True)
class _Letters:
    """The policy for dead letters, without the table that keeps them."""

    policy: str

    def take(self, pending: _Sample, folder: str, fresh: list[ChunkInfo]) -> None:
        """See `Letters`."""
        if which := stops_at(self.policy, fresh):
            dead = [row for row in pending.dead(folder) if which == "any" or row["table"] is None]
            first = min(dead, key=lambda row: (row["topic"], row["partition"], row["first_offset"]))
            raise stop(
                sum(c.rows for c in fresh if c.kind == "dead"),
                json.loads(first["payload"])["error"],
                which,
                are_stored=False,
            )

    def mark(self, places: Iterable[str]) -> None:
        """See `Letters`: nothing was replayed."""

    def settle(self, positions: Positions) -> None:
        """See `Letters`: nothing was read before."""
