"""Runs of a pipeline in memory over a random history: partitions, batches of any size, and the expected tables.

The upstream of `upstream.py` generates the events. This module distributes them over the partitions of a log; each run
reads the log from the ledger's positions on, in batches of its own size. Every cut that the ledger publishes is compared
with the upstream's tables at that commit_ts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any
from zlib import crc32

import pyarrow as pa

from changefeed.model.names import full_name
from changefeed.pipeline.flow import Batch, Flow
from changefeed.pipeline.planning.rules import Rules
from changefeed.pipeline.state import State, TableState
from changefeed.protocols.base import Capabilities
from tests.pipeline.kit.downstream import Event, Lake, chunks_of
from tests.pipeline.kit.in_memory import Storage, memory_definition, memory_flow
from tests.pipeline.kit.upstream import MEMBERS, NAMES, Change, Row, Table, Upstream

Partition = tuple[str, int]
RULES = Rules(restored_ddl=True)
CAPABILITIES = Capabilities(frozenset(), broadcast=True, restored_ddl=True, cuts="marks")


def history(
    random: Random,
    steps: int,
    *,
    partial: bool = True,
    keyless: bool = True,
    moves: bool = True,
    names: tuple[tuple[str, str], ...] = NAMES,
) -> Upstream:
    """An upstream after random steps; some of its tables exist before the log begins."""
    upstream = Upstream(random, partial, keyless, moves, names=names)
    for name in random.sample(["old", "older", "Orders"], random.randint(0, 2)):
        upstream.exist("app", name, {"a": "int", "b": random.choice(["text", "decimal", "enum"])})
    for _ in range(steps):
        upstream.step()
    return upstream


def logs_of(upstream: Upstream, partitions: int, random: Random) -> dict[Partition, list[Event]]:
    """Partitions: each has all schema changes, each row is in one of them, and marks come now and then and at the end."""
    logs: dict[Partition, list[Event]] = {("log", p): [] for p in range(partitions)}
    for i, event in enumerate(upstream.events):
        last = i + 1 == len(upstream.events)
        if isinstance(event, Change):
            image = event.after or event.before or {}
            # equal rows of a table without a key go to one partition, as every dispatcher sends them
            at = (image.get("id") or 0) % partitions if event.keyed else crc32(_text(image).encode()) % partitions
            logs["log", at].append(event)
        else:
            for log in logs.values():
                log.append(event)
        for log in logs.values():
            if last or (upstream.events[i + 1].ts > event.ts and random.random() < 0.2):
                log.append(upstream.ts if last else event.ts)
    return logs


@dataclass
class Pipeline:
    """A pipeline in memory, for any number of runs.

    Attributes:
        upstream: the history.
        logs: the partitions that are read.
        consistency: of the pipeline.
        storage: what outlives a run.
    """

    upstream: Upstream
    logs: dict[Partition, list[Event]]
    consistency: str = "transaction"
    parallelism: int = 1
    storage: Storage = field(default_factory=Storage)

    def run(self, random: Random) -> State:
        """One run: takes the pipeline over, finishes a step that was begun, and reads all records."""
        definition = memory_definition(consistency=self.consistency, parallelism=self.parallelism)
        flow = memory_flow(self.storage, CAPABILITIES, definition, RULES)
        flow.begin()
        flow.recover()
        for batch in self._batches(flow, random):
            flow.take(batch)
        flow.step(flow.ledger.state, set(self.logs), idle=True)
        return flow.ledger.state

    def _batches(self, flow: Flow, random: Random) -> Iterator[Batch]:
        """Batches with a random stretch of each partition, from the ledger's positions on."""
        while True:
            begun = json.loads(flow.ledger.state.source or "{}")
            at = {partition: begun.get(str(partition[1]), 0) for partition in self.logs}
            if all(at[partition] == len(log) for partition, log in self.logs.items()):
                return
            stretches = {p: log[at[p] :][: random.choice([0, 3, 10, 40])] for p, log in self.logs.items()}
            chunks = [chunks_of(some, p, at[topic, p], topic) for (topic, p), some in stretches.items() if some]
            source_offset = json.dumps({str(p): at[topic, p] + len(stretches[topic, p]) for topic, p in self.logs})
            if chunks:
                yield Batch(_given(chunks), source_offset, set(self.logs))

    def check(self) -> None:
        """Compares every published cut, and the end, with the upstream."""
        states = self.storage.published()
        barriers = [state.barrier for state in states if state.barrier is not None]
        assert barriers == sorted(barriers)
        steps = [(cut.epoch, cut.step) for cut in self.storage.ledger.cuts]
        assert [step for _, step in steps] == list(range(1, len(steps) + 1)), "a step twice, or one missing"
        assert [epoch for epoch, _ in steps] == sorted(epoch for epoch, _ in steps)
        for state in states if self.consistency == "transaction" else states[-1:]:
            if state.barrier is not None or self.consistency == "key":
                self.check_cut(state)
        counts = states[-1].counts
        assert (counts.applied, counts.pending) == (counts.rows, 0)

    def check_cut(self, state: State) -> None:
        """Compares one cut."""
        if self.consistency == "key":
            tables = self.upstream.tables
        else:
            past = [ts for ts in self.upstream.history if state.barrier is not None and ts <= state.barrier]
            tables = self.upstream.history[max(past)] if past else {}
        wanted = {full_name(*name): table for name, table in tables.items()}
        for name, current in state.tables.items():
            assert name in wanted, f"{name} was dropped"
            assert current.version is not None
            rows = self.storage.tables.rows(current.path, current.version)
            actual, known = (
                Counter(map(_text, rows)),
                [as_declared(row, wanted[name], current) for row in wanted[name].all()],
            )
            assert actual == Counter(map(_text, known)), f"{name} at {state.barrier}"
        for name, table in wanted.items():
            assert name in state.tables or not table.all(), f"{name} is missing at {state.barrier}"


def as_declared(row: Row, table: Table, current: TableState) -> Row:
    """The upstream's row, without the columns that neither a row nor DDL has named to the sink."""
    known = {}
    for column in current.table.columns:
        value = row[column.name]
        if column.type.members is not None and value is not None:
            value = MEMBERS[value - 1]
        known[column.name] = value
    missing = set(row) - set(known)
    assert all(row[name] is None for name in missing), missing
    return known


def compare(tables: dict[tuple[str, str], Table], lake: Lake) -> None:
    """Asserts that the lake has these tables; quarantined tables are not compared."""
    wanted = {full_name(*name): table for name, table in tables.items()}
    for name, current in lake.state.tables.items():
        if name not in lake.state.held:
            assert name in wanted, f"{name} was dropped"
            actual = Counter(_text(row) for row in lake.rows(name))
            assert actual == Counter(_text(as_declared(row, wanted[name], current)) for row in wanted[name].all()), name
    for name, table in wanted.items():
        assert name in lake.state.tables or name in lake.state.held or not table.all(), f"{name} is missing"


def _given(chunks: list[pa.RecordBatch]) -> Any:
    return lambda dated, fragments: chunks


def _text(row: Row) -> str:
    return json.dumps(row, sort_keys=True, default=str)
