"""A pipeline in memory: the real flow, planner, executor and guard on a ledger, a pending store and tables without Spark."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from changefeed.errors import FencedError, ProtocolError
from changefeed.pipeline.actions import Plan, read_plan, write_plan
from changefeed.pipeline.changes import Options
from changefeed.pipeline.definition import Definition
from changefeed.pipeline.executor import Executor
from changefeed.pipeline.failpoint import failpoint
from changefeed.pipeline.flow import Flow
from changefeed.pipeline.frontier import strategy
from changefeed.pipeline.load import read
from changefeed.pipeline.pending import ChunkInfo
from changefeed.pipeline.rules import Rules, rules_of
from changefeed.pipeline.state import Positions, State, read_state, write_state
from changefeed.pipeline.store.pending_memory import MemoryPending
from changefeed.protocols.base import Capabilities
from changefeed.sinks.memory import Lake as Tables
from changefeed.sinks.memory import MemorySink


@dataclass
class Entries:
    """What the ledgers of all runs of one pipeline share: (epoch, step, kind, text, token), in order."""

    entries: list[tuple[int, int, str, str, int]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)


@dataclass
class MemoryLedger:
    """The ledger of one run."""

    shared: Entries
    path: str = "memory:ledger"
    pipeline: str = "test"
    application: str = ""
    epoch: int = 0
    step: int = 0
    state: State = field(default_factory=State)
    unfinished: Plan | None = None
    begun_by: range = range(0)
    token: int = field(default_factory=lambda: random.getrandbits(64))

    def claim(self) -> None:
        self.application = "changefeed:test:memory"
        known = len(self.shared.entries)
        newest = max((e[0] for e in self.shared.entries), default=0)
        failpoint("epoch.before")
        self.epoch = newest + 1
        with self.shared.lock:
            if any(e[0] > newest for e in self.shared.entries[known:]):
                raise FencedError("memory:ledger: another run took the epoch at the same moment")
            self.shared.entries.append((self.epoch, 0, "epoch", "", self.token))
            entries = list(self.shared.entries)
        failpoint("epoch.after")
        for _, step, kind, text, _ in entries:
            if kind == "done":
                self.step, self.state = step, read_state(text)
        begun = [e for e in entries if e[2] == "begun" and e[1] == self.step + 1]
        self.unfinished = read_plan(begun[0][3]) if begun else None
        self.begun_by = range(min(e[0] for e in begun), self.epoch + 1) if begun else range(0)

    def is_fenced(self) -> bool:
        return any(e[0] > self.epoch for e in self.shared.entries)

    def begin(self, plan: Plan) -> None:
        failpoint("begun.before")
        self._append("begun", write_plan(plan))
        failpoint("begun.after")

    def finish(self, state: State) -> None:
        failpoint("done.before")
        self._append("done", write_state(state))
        failpoint("done.after")
        self.step, self.state, self.unfinished, self.begun_by = self.step + 1, state, None, range(0)

    def _append(self, kind: str, text: str) -> None:
        with self.shared.lock:
            if self.is_fenced():
                raise FencedError(
                    f"memory:ledger: a newer run has taken over; this run is epoch {self.epoch} and stops"
                )
            self.shared.entries.append((self.epoch, self.step + 1, kind, text, self.token))


@dataclass
class MemoryLetters:
    """Dead letters, as the chunks that hold them."""

    policy: str
    letters: list[dict[str, Any]] = field(default_factory=list)

    def take(self, pending: MemoryPending, folder: str, fresh: list[ChunkInfo]) -> None:
        found = pending.dead(folder)
        self.letters += found
        if found and self.policy == "stop":
            raise ProtocolError(f"{len(found)} records could not be decoded")

    def mark(self, places: Iterable[str]) -> None:
        raise NotImplementedError

    def settle(self, positions: Positions) -> None:
        raise NotImplementedError


@dataclass
class Storage:
    """What outlives a run: two runs of one pipeline share it."""

    ledger: Entries = field(default_factory=Entries)
    pending: MemoryPending = field(default_factory=MemoryPending)
    tables: Tables = field(default_factory=Tables)

    def published(self) -> list[State]:
        """The states of all steps that were done."""
        return [read_state(text) for _, _, kind, text, _ in self.ledger.entries if kind == "done"]


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
) -> Flow:
    """A run's flow on the storage; its ledger is not claimed yet."""
    definition = definition or memory_definition()
    rules = rules or rules_of(definition, capabilities)
    behaviour = definition.pipeline
    ledger, sink = MemoryLedger(storage.ledger), MemorySink(storage.tables)
    options = Options(definition.sink.irregular, behaviour.keyless == "inserts")
    executor = Executor(definition, ledger, storage.pending, sink, options)
    frontier = strategy(behaviour.consistency, capabilities, rules)
    letters = MemoryLetters(behaviour.dead_letters)
    return Flow(definition, rules, frontier, ledger, storage.pending, letters, executor)
