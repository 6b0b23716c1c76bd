"""A pipeline in memory that captures from a live server, in runs that may be killed anywhere.

The source, the flow, the planner and the guard are the real ones; the ledger, the pending store and the tables are in memory, and
the parts of a batch are read in this process, some of them twice, as by a task that Spark starts again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa

from changefeed.errors import UnknownRowsError
from changefeed.pipeline import copy_requests
from changefeed.pipeline.executor import Executor
from changefeed.pipeline.flow import Batch, Flow
from changefeed.pipeline.frontier import strategy
from changefeed.pipeline.pending.changes import RowOptions
from changefeed.pipeline.planning.column_rules import ColumnRules
from changefeed.pipeline.planning.rules import rules_of
from changefeed.pipeline.state import State
from changefeed.sources.mysql import CAPABILITIES, MySqlTables, Plan, open_changes
from changefeed.sources.mysql.changes import PARTITION, TOPIC
from changefeed.sources.mysql.reader import Part, read
from changefeed.sources.mysql.section import MySqlSource
from changefeed.storage.memory import MemoryFolder
from tests.killed import Killed
from tests.pipeline.kit.faithful import FaithfulSink
from tests.pipeline.kit.in_memory import MemoryLetters, RecordingStore, Storage, memory_definition
from tests.services.database import Database

_PARTITIONS = {(TOPIC, PARTITION)}


def section(database: Database, **options: Any) -> MySqlSource:
    """The section of a source at a server of the tests."""
    own = {"type": "mysql", "host": "127.0.0.1", "port": database.port, "user": "dbz", "password": "dbz"}
    return MySqlSource.model_validate(own | options)


@dataclass
class Follower:
    """A pipeline, for any number of runs.

    Attributes:
        options: of the source, drawn again for each run: from name to choices.
        notes: notes of all steps.
        pipeline: options of the definition's section `pipeline`.
        requests: the folder of requests to copy tables again.
        excluded: the patterns of `exclude-columns`.
        masks: those of `mask-columns`.
    """

    database: Database
    tables: list[str]
    random: Random
    options: dict[str, list[Any]] = field(default_factory=dict)
    storage: Storage = field(default_factory=Storage)
    notes: list[str] = field(default_factory=list)
    pipeline: dict[str, Any] = field(default_factory=dict)
    requests: MemoryFolder = field(default_factory=lambda: MemoryFolder(f"memory://{uuid.uuid4()}/snapshots"))

    excluded: list[str] = field(default_factory=list)
    masks: dict[str, str] = field(default_factory=dict)

    def before(self, part: Part) -> None:
        """Called before a part of a batch is read; tests write to the server here."""

    def run(self, *, kill: float = 0.0, batches: int | None = None) -> State:
        """Takes the pipeline over, and reads what the log has.

        Args:
            kill: the chance to be killed while a part is read.
            batches: the run ends after so many batches; None: when there is nothing left to read.
        """
        drawn = {name: self.random.choice(choices) for name, choices in self.options.items()}
        source = open_changes(self._section(**drawn))
        try:
            return self._run(source, kill, batches)
        finally:
            source.close()

    def _section(self, **options: Any) -> MySqlSource:
        columns = {"exclude-columns": self.excluded, "mask-columns": self.masks, "mask-salt": "salt"}
        return section(self.database, tables=self.tables, **columns, **options)

    def _run(self, source: MySqlTables, kill: float, batches: int | None) -> State:
        flow = self._flow()
        flow.begin()
        flow.recover()
        if flow.ledger.state.source is not None:
            source.compared(None, flow.ledger.state.source)
        if flow.ledger.state.pending:
            flow.step(flow.ledger.state, _PARTITIONS)
        copy_requests.take_at_start(flow.ledger, source)
        count, copied = 0, set[str]()
        while batches is None or count < batches:
            copy_requests.take(self.requests, flow.ledger, source)
            plan = source.plan(flow.ledger.state.source, None)
            if plan is None:
                break
            chunks = list(self._chunks(plan, kill))
            batch = Batch(partial(_given, chunks), plan.after.text(), _PARTITIONS, plan.caught_up)
            try:
                flow.take(batch)
            except UnknownRowsError as error:
                copy_requests.take_unknown(flow.ledger, source, error, copied)
            count += 1
        return flow.ledger.state

    def _chunks(self, plan: Plan, kill: float) -> Iterator[pa.RecordBatch]:
        parts = list(plan.parts)
        self.random.shuffle(parts)  # tasks end in any order
        for part in parts:
            self.before(part)
            if self.random.random() < kill:
                raise Killed
            if self.random.random() < 0.1:
                next(iter(read(plan.reading, part)), None)
            yield from read(plan.reading, part)

    def _flow(self) -> Flow:
        definition = memory_definition(**{"keyless": "append", "consistency": "transaction"} | self.pipeline)
        [mode, *_] = self.options.get("snapshot.mode", ["initial"])
        own = self._section(**{"snapshot.mode": mode})
        rules = rules_of(definition, CAPABILITIES, None)
        rules = replace(
            rules,
            excluded=own.leaves_out,
            has_all_rows=own.has_all_rows,
            columns=ColumnRules(own.excludes_column, own.column_mask),
        )
        ledger, sink = RecordingStore(self.storage), FaithfulSink(self.storage.tables)
        options = RowOptions(definition.sink.irregular, False, None)
        executor = Executor(definition, ledger, self.storage.pending, sink, options)
        frontier = strategy(definition.pipeline.consistency, CAPABILITIES, rules)
        letters = MemoryLetters("stop")
        return Flow(
            definition, rules, frontier, ledger, self.storage.pending, letters, executor, report=self.notes.append
        )


def _given(chunks: list[pa.RecordBatch], dated: Any, fragments: Any) -> list[pa.RecordBatch]:
    return chunks


def follower(database: Database, name: str, tables: str, *more: str) -> Follower:
    """A pipeline of a new database with these tables, after its first run."""
    database.execute(f"CREATE DATABASE {name}; USE {name}; {tables}")
    following = Follower(database, [f"{name}.*", *more], Random(0))
    following.run()
    return following


def rows(following: Follower, table: str) -> list[dict[str, Any]]:
    """The rows of a table at the last cut."""
    path = following.storage.published()[-1].tables[table].path
    return sorted(following.storage.tables.rows(path), key=repr)


def names(following: Follower) -> list[str]:
    """The tables of the last cut."""
    return sorted(following.storage.published()[-1].tables)
