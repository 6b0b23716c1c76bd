"""A state store in memory, for tests: has the failpoints of the real ones, and needs neither disk nor Spark."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from changefeed import __version__
from changefeed.pipeline.planning.actions import Plan, paths_of, read_plan, write_plan
from changefeed.pipeline.state import State, read_state, write_state
from changefeed.pipeline.store.base import (
    FORMAT,
    Cut,
    Keep,
    Latest,
    StateStore,
    cut_of,
    foreign,
    owner_of,
    taken_at_once,
    taken_over,
    too_new,
)
from changefeed.telemetry import passed


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Memory:
    """The store shared by several runs.

    Attributes:
        token: token of the run that took the newest epoch.
        plan: the plan of the step that is begun and not done, as text, and the epoch that began it.
    """

    pipeline: str = ""
    id: str = ""
    format: int = FORMAT
    version: str = __version__
    epoch: int = 0
    token: str = ""  # prose: as in stored entries
    state: str = field(default_factory=lambda: write_state(State()))
    plan: tuple[str, int] | None = None
    step: int = 0
    at: datetime | None = None
    cuts: list[Cut] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)


class MemoryStore(StateStore):
    """The store of one pipeline, as one run uses it; see `StateStore`."""

    def __init__(
        self, memory: Memory, pipeline: str, keep: Keep | None = None, now: Callable[[], datetime] = _now
    ) -> None:
        self.memory, self.pipeline, self.path = memory, pipeline, "memory"
        self.keep, self.now, self.token = keep or Keep(), now, uuid.uuid4().hex
        self.owner, self.epoch, self.step, self.state = "", 0, 0, State()
        self.unfinished: Plan | None = None
        self.begun_by = range(0)

    def latest(self) -> Latest | None:
        """See `StoreReader`."""
        memory = self.memory
        with memory.lock:
            if not memory.id:
                return None
            self._check()
            plan = read_plan(memory.plan[0]) if memory.plan else None
            state = read_state(memory.state)
            return Latest(owner_of(memory.pipeline, memory.id), memory.epoch, memory.step, memory.at, state, plan)

    def history(self, after: int = 0, *, newest_first: bool = False) -> Iterator[Cut]:
        """See `StoreReader`."""
        with self.memory.lock:
            if self.memory.id:
                self._check()
            cuts = [cut for cut in self.memory.cuts if cut.step > after]
        yield from reversed(cuts) if newest_first else cuts

    def claim(self) -> None:
        """See `StateStore`."""
        memory = self.memory
        with memory.lock:
            if not memory.id:
                memory.pipeline, memory.id = self.pipeline, uuid.uuid4().hex[:16]
            self._check()
            self.epoch = memory.epoch + 1
        passed("epoch.before")
        with memory.lock:
            if memory.epoch == self.epoch:
                raise taken_at_once(self.path, self.pipeline, self.epoch)
            self._check_newest(self.epoch - 1)
            memory.epoch, memory.token = self.epoch, self.token
        passed("epoch.after")
        self.owner = owner_of(memory.pipeline, memory.id)
        with memory.lock:
            self._check_newest(self.epoch)
            self.step, self.state = memory.step, read_state(memory.state)
            if memory.plan:
                self.unfinished = read_plan(memory.plan[0])
                self.begun_by = range(memory.plan[1], self.epoch + 1)

    def begin(self, plan: Plan) -> None:
        """See `StateStore`."""
        passed("begun.before")
        with self.memory.lock:
            self._check_newest(self.epoch)
            self.memory.plan = (write_plan(plan), self.epoch)
        passed("begun.after")

    def finish(self, state: State) -> None:
        """See `StateStore`."""
        passed("done.before")
        memory = self.memory
        with memory.lock:
            self._check_newest(self.epoch)
            plan = paths_of(read_plan(memory.plan[0])) if memory.plan else set[str]()
            wrote = tuple(sorted(plan - {table.path for table in state.tables.values()}))
            memory.state, memory.plan = write_state(state), None
            memory.step, memory.at = self.step + 1, max(self.now(), memory.at or self.now())
            memory.cuts.append(cut_of(self.epoch, memory.step, memory.at, state, wrote))
            memory.cuts = memory.cuts[self._old() :]
        passed("done.after")
        self.step, self.state, self.unfinished, self.begun_by = self.step + 1, state, None, range(0)

    def is_fenced(self) -> bool:
        """See `StateStore`."""
        return (self.memory.epoch, self.memory.token) != (self.epoch, self.token)

    def _old(self) -> int:
        """Returns the number of oldest cuts that need not be kept."""
        cuts, keep = self.memory.cuts, self.keep
        if keep.cuts is None and keep.age is None:
            return 0
        few = len(cuts) if keep.cuts is None else max(len(cuts) - keep.cuts, 0)
        since = self.now() - keep.age if keep.age is not None else None
        old = len(cuts) if since is None else sum(cut.at < since for cut in cuts)
        return min(few, old, len(cuts) - 1)

    def _check(self) -> None:
        memory = self.memory
        if memory.format > FORMAT:
            raise too_new(self.path, memory.format, memory.version, __version__)
        if memory.pipeline != self.pipeline:
            raise foreign(self.path)

    def _check_newest(self, epoch: int) -> None:
        memory = self.memory
        if memory.epoch > epoch or (memory.epoch == epoch == self.epoch and memory.token != self.token):
            raise taken_over(self.path, self.pipeline, memory.epoch, self.epoch)
