"""A pipeline in memory: the real flow, planner, executor and guard on a ledger, a pending store and tables without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from changefeed.errors import ProtocolError
from changefeed.frames.chunks import Dated
from changefeed.model.batch import record_batch
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import read
from changefeed.pipeline.executor import Executor
from changefeed.pipeline.flow import Flow
from changefeed.pipeline.frontier import strategy
from changefeed.pipeline.pending.changes import RowOptions
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.pending.memory import MemoryPending
from changefeed.pipeline.planning.rules import Rules, rules_of
from changefeed.pipeline.state import Positions, State
from changefeed.pipeline.store.memory import Memory, MemoryStore
from changefeed.protocols.base import Capabilities
from changefeed.sinks.memory import Lake as Tables
from changefeed.sinks.memory import MemorySink
from changefeed.stages.changes import Redefinition
from changefeed.stages.decode import worker


class RecordingStore(MemoryStore):
    """The ledger in memory; it keeps the state of each step, of which the real one keeps a cut."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage.ledger, "test")
        self.states = storage.states

    def finish(self, state: State) -> None:
        self.states[self.epoch, self.step + 1] = state  # counts if a cut of this epoch and step is there
        super().finish(state)


@dataclass
class MemoryLetters:
    """Dead letters, as the chunks that hold them."""

    policy: str
    letters: list[dict[str, Any]] = field(default_factory=list)

    def take(self, pending: MemoryPending, folder: str, fresh: list[ChunkInfo]) -> None:
        letters = pending.dead(folder)
        self.letters += letters
        if letters and self.policy == "stop":
            raise ProtocolError(f"{len(letters)} records could not be decoded")

    def mark(self, places: Iterable[str]) -> None:
        raise NotImplementedError

    def settle(self, positions: Positions) -> None:
        raise NotImplementedError


@dataclass
class Storage:
    """The parts of a pipeline that outlive a run; two runs of one pipeline share them."""

    ledger: Memory = field(default_factory=Memory)
    states: dict[tuple[int, int], State] = field(default_factory=dict)
    pending: MemoryPending = field(default_factory=MemoryPending)
    tables: Tables = field(default_factory=Tables)

    def published(self) -> list[State]:
        """The states of all steps that were done."""
        return [self.states[cut.epoch, cut.step] for cut in self.ledger.cuts]


def memory_definition(**pipeline: Any) -> Definition:
    """A definition whose source and sink are not opened."""
    return read(
        {
            "source": {"type": "files", "path": "app.jsonl", "protocol": "ticdc-open"},
            "sink": {"type": "delta", "path": "lake"},
            "pipeline": {"name": "test", "parallelism": 1, **pipeline},
        }
    )


def memory_flow(
    storage: Storage,
    capabilities: Capabilities,
    definition: Definition | None = None,
    rules: Rules | None = None,
    redefinition: Redefinition | None = None,
) -> Flow:
    """A run's flow on the storage; its ledger is not claimed yet. `redefinition`: see `RowOptions`."""
    definition = definition or memory_definition()
    rules = rules or rules_of(definition, capabilities, redefinition)
    behaviour = definition.pipeline
    ledger, sink = RecordingStore(storage), MemorySink(storage.tables)
    options = RowOptions(definition.sink.irregular, behaviour.keyless == "inserts", redefinition)
    executor = Executor(definition, ledger, storage.pending, sink, options)
    frontier = strategy(behaviour.consistency, capabilities, rules)
    letters = MemoryLetters(behaviour.dead_letters)
    return Flow(definition, rules, frontier, ledger, storage.pending, letters, executor)


def debezium_chunks(records: Sequence[dict[str, Any]], dated: Dated, fragments: object) -> list[pa.RecordBatch]:
    """The chunks of one task that decodes Debezium's records; see `decoded_chunks`."""
    return decoded_chunks("debezium-mysql", {}, records, dated, fragments)


def decoded_chunks(
    protocol: str, options: dict[str, Any], records: Sequence[dict[str, Any]], dated: Dated, fragments: object
) -> list[pa.RecordBatch]:
    """The chunks of one task that decodes records; for `Batch.chunks`.

    Args:
        protocol, options: of the records.
        records: with the columns of `record_batch`.
        dated: the records before these that bound the commit_ts of rows without one.
        fragments: None; these records are whole.
    """
    assert fragments is None
    return list(worker(protocol, options, dated)([record_batch(list(records))])) if records else []
