"""A pipeline over the events of `upstream.py`: real chunks, and the real flow with its ledger and tables in memory."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from changefeed.frames.chunks import pack
from changefeed.model.batch import BatchBuilder, Decoded, record_batch
from changefeed.model.event import Control, Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.pipeline.flow import Batch, Flow
from changefeed.pipeline.pending.chunk_info import ChunkInfo, chunk_info
from changefeed.pipeline.planning.rules import Rules
from changefeed.pipeline.state import State
from changefeed.protocols.base import Capabilities
from tests.pipeline.kit.in_memory import Storage, memory_definition, memory_flow
from tests.pipeline.kit.upstream import KINDS, Change, Ddl, Row

Event = Ddl | Change | int  # an int is a resolved event
Partition = tuple[str, int]


def chunks_of(events: Iterable[Event], partition: int, offset: int, topic: str = "log") -> pa.RecordBatch:
    """One task's chunks: events of one partition, from this offset on, as the decode stage hands them over."""
    builder, control, records = BatchBuilder(), list[Control](), list[dict[str, Any]]()
    for record, event in enumerate(events):
        place = Place(topic, partition, offset + record, None, record)
        records.append({"topic": topic, "partition": partition, "offset": offset + record, "timestamp": None})
        if isinstance(event, int):
            control.append(Resolved(event, place))
        elif isinstance(event, Ddl):
            control.append(SchemaChange("other", event.database, event.table, event.text, place, commit_ts=event.ts))
        else:
            op = "insert" if event.before is None else "delete" if event.after is None else "update"
            builder.add(
                _shape(event), place, op, before=event.before, after=event.after, commit_ts=event.ts, commit_time=0
            )
    return pack(Decoded(builder.build(), control, []), record_batch(records))


def infos(chunks: pa.RecordBatch, folder: str = "1") -> list[ChunkInfo]:
    """The plain columns of chunks, from which the planner works."""
    return [chunk_info(folder, row) for row in chunks.to_pylist()]


def _shape(change: Change) -> TableShape:
    images = [i for i in (change.before, change.after) if i is not None]
    names = [c for c in change.kinds if any(c in i for i in images)]
    columns = tuple(
        Column(c, ColumnType.parse(KINDS[change.kinds[c]][1]), c != "id", change.keyed and c == "id") for c in names
    )
    before, after = (None if i is None or list(i) == names else tuple(i) for i in (change.before, change.after))
    return TableShape(change.database, change.table, columns, before, after)


@contextmanager
def noted(notes: list[str]) -> Iterator[None]:
    """Adds the notes that the flow logs to a list."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            notes.append(record.getMessage())

    log, handler = logging.getLogger("changefeed.pipeline.flow"), Handler()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


@dataclass
class Lake:
    """A pipeline that is run step by step.

    Attributes:
        rules: how changes are applied.
        random: decides whether writes run side by side.
        consistency: of the pipeline.
        broadcast: schema changes are sent to every partition.
        notes: messages that the flow logged, of all steps.
    """

    rules: Rules
    random: Random
    consistency: str = "transaction"
    broadcast: bool = True
    storage: Storage = field(default_factory=Storage)
    notes: list[str] = field(default_factory=list)
    _arrived: list[pa.RecordBatch] = field(default_factory=list)
    _flow: Flow | None = None

    @property
    def flow(self) -> Flow:
        """The run that is under way; the first use begins one."""
        if self._flow is None:
            capabilities = Capabilities(
                frozenset(), broadcast=self.broadcast, restored_ddl=self.rules.restored_ddl, cuts="marks"
            )
            definition = memory_definition(consistency=self.consistency, parallelism=self.random.choice([1, 1, 3]))
            self._flow = memory_flow(self.storage, capabilities, definition, self.rules)
            self._flow.begin()
            self._flow.recover()
        return self._flow

    def again(self) -> None:
        """Ends the run; the next use begins another one."""
        self._flow = None

    @property
    def state(self) -> State:
        """The ledger's newest state."""
        return self.flow.ledger.state

    @state.setter
    def state(self, state: State) -> None:
        self.flow.ledger.finish(state)

    def read(self, fresh: pa.RecordBatch) -> None:
        """Chunks that come with the next batch."""
        self._arrived.append(fresh)

    def step(self, partitions: set[Partition], *, idle: bool = False, ended: Collection[Partition] = ()) -> bool:
        """Takes in the batch that was read and applies all that the barrier allows; False if there was nothing to do."""
        before, arrived = self.flow.ledger.step, self._arrived
        self._arrived = []
        with noted(self.notes):
            if arrived:
                self.flow.take(Batch(lambda dated, fragments: arrived, "token", partitions, idle, ended))
            if idle or not arrived:
                self.flow.step(self.state, partitions, idle=idle)
        return self.flow.ledger.step != before

    def follow(self, events: Sequence[Event], random: Random) -> None:
        """Reads the events of one partition in batches of random size, each with a step of its own, to the end."""
        read = 0
        while read < len(events):
            size = random.randint(1, 25)
            self.read(chunks_of(events[read : read + size], 0, read))
            self.step({("log", 0)})
            read += size
        self.step({("log", 0)}, idle=True)

    def rows(self, name: str) -> list[Row]:
        """The rows of a table."""
        current = self.state.tables[name]
        columns, table_rows = {c.name for c in current.table.columns}, self.storage.tables.rows(current.path)
        for row in table_rows:
            assert set(row) == columns, (name, row, columns)
        return table_rows
