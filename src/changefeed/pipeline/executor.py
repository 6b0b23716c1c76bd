"""Carries out a begun step: every write of its plan, each once, and the revisions of the tables after them.

Rule 1. The plan's input is checked first: folders of the pending store against their sums, tables against the ledger
(`guard.py`).
Rule 2. A run that finishes a step of another run first touches each of its tables: a commit with a write id of its own epoch
that changes nothing. From then on the older run can no longer write to them. Then it looks up which writes have been made; a
table that the older run has made meanwhile is touched, too, and looked up again. The other writes follow: those of one table in
order, different tables in parallel.
Rule 3. The rows that a write has read are counted, and compared with the number in the plan.
Rule 4. Row writes that are ready at the same time are prepared together: a sink may write the files of all tables in one job.
Each is still a commit of its own.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec

from changefeed.errors import SinkError
from changefeed.model.definition import Table
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.contracts import Pending
from changefeed.pipeline.guard import Guard, PathState
from changefeed.pipeline.pending.changes import RowOptions
from changefeed.pipeline.planning.actions import Action, Plan, PlannedWrite, chains, touched, without
from changefeed.pipeline.state import State
from changefeed.pipeline.store.base import StateStore
from changefeed.sinks.base import Changes, PreparedWrite, TableSink, WriteRequest, write_alone
from changefeed.sinks.ways_out import TABLE_CHANGED
from changefeed.sinks.writes import Append, Copy, Create, Load, Touch, Upsert, Write, WriteId
from changefeed.telemetry import passed

_log = logging.getLogger(__name__)
_NOTED_PARTITIONS = 64
_LOOKING = 8  # number of tables checked in parallel when a run begins
_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(slots=True)
class Executor:
    """Carries out the steps of one run.

    Attributes:
        before: path -> its state before this step.
    """

    definition: Definition
    ledger: StateStore
    pending: Pending
    sink: TableSink
    options: RowOptions
    before: dict[str, PathState] = field(default_factory=dict)

    def take_name(self) -> None:
        """Lets the sink write in the name of the ledger's owner; called after the ledger is claimed."""
        self.sink = self.sink.owned_by(self.ledger.owner)

    def begin(self) -> None:
        """Checks every table of the ledger's last cut; called after `take_name`.

        Raises:
            SinkError: a table differs from the ledger, or lacks data files.
        """
        plan, guard = self.ledger.unfinished, self._guard()
        self._take_back(plan)
        busy = _paths(plan.actions) if plan else {}
        excluded = self.definition.pipeline.excludes
        tables = [t for name, t in self.ledger.state.tables.items() if t.path not in busy and not excluded(name)]
        with ThreadPoolExecutor(_LOOKING, thread_name_prefix="tables") as pool:
            for looked in [pool.submit(guard.look, t.path, t.written) for t in tables if t.written]:
                looked.result()

    def _take_back(self, plan: Plan | None) -> None:
        """Removes commits of a step that was not done which a power cut has left incomplete."""
        revisions = {
            path: written.revision for path, written in self.ledger.state.last_writes().items() if written.epoch
        }
        for path in sorted({*revisions, *(_paths(plan.actions) if plan else ())}):
            if taken := self.sink.take_back(path, revisions.get(path, -1)):
                _log.warning(
                    "%s: a power cut has left commits incomplete (%s); their changes are applied again",
                    self.sink.location(path), ", ".join(map(str, taken)),
                )  # fmt: skip

    def publish(self) -> None:
        """Names the revisions of the newest cut in the sink, where it has names for them.

        Raises:
            SinkError: a name cannot be given; the cut is in the ledger.
        """
        state = self.ledger.state
        if state.barrier is not None:
            tables = [table for name, table in state.tables.items() if name not in state.held]
            self.sink.publish(f"cut-{state.barrier}", {t.path: t.written.revision for t in tables if t.written})

    def columns(self, path: str) -> tuple[str, ...] | None:
        """The columns of the table at a path; None if there is no table."""
        snapshot = self.sink.snapshot(path)
        return snapshot.columns if snapshot else None

    def carry_out(self, plan: Plan) -> State:
        """Makes the missing writes of a begun step; returns the state after it, with the tables' revisions.

        Raises:
            ConfigError: a table that the pipeline has not written is in the way.
            FencedError: a newer run has taken over.
            SinkError: a folder or a table is damaged, or differs from the ledger.
        """
        plan = without(plan, self.definition.pipeline.excludes)
        if self.ledger.begun_by:
            self.pending.check(plan.folders, plan.sums)
        guard = self._guard()
        paths = _paths(plan.actions)
        guard.check_around(paths)
        self.before = self._looked(paths, lambda path: guard.check(path, paths[path]))
        adopted = {path for path, before in self.before.items() if before.foreign}
        adopted |= {a.path for a in plan.actions if isinstance(a.write, Copy) and a.write.source in adopted}
        if self.ledger.begun_by:  # `begin` has checked the other tables
            self._fence(paths, guard)
            for path, before in self.before.items():
                if before.revision >= 0:
                    guard.check_files(path, before.revision)
            self._restart_sources(plan)
        write_counts = self._write_all(plan)
        changed = paths if self.ledger.begun_by else {action.path for action in plan.actions}
        written = self._looked(changed, lambda path: guard.check_after(path, self.before[path], write_counts[path]))
        last_writes = self.ledger.state.last_writes() | written
        tables = {
            name: replace(
                before, written=last_writes.get(before.path), adopted=before.adopted or before.path in adopted
            )
            for name, before in plan.state.tables.items()
        }
        used = {before.path for before in tables.values()}
        return replace(plan.state, tables=tables, left={p: w for p, w in last_writes.items() if p not in used})

    def _fence(self, paths: Mapping[str, Table | None], guard: Guard) -> None:
        """Prevents older runs from writing to the tables at these paths, and looks up what they have made: see Rule 2.

        Meanwhile an older run may make a table, which is then fenced too, before this run relies on what it has.
        """
        write_id, fenced = WriteId(self.ledger.epoch, self.ledger.step + 1, 0), set[str]()
        while new := [path for path in paths if self.before[path].revision >= 0 and path not in fenced]:
            for path in new:
                passed("fence.before")
                touch = Touch(path=path, number=0, table=paths[path] or Table("", "", (), ()))
                write_alone(self.sink, WriteRequest(touch, None, write_id, self._note(self.ledger.state, write_id)))
                passed("fence.after")
            fenced.update(new)
            self.before = self._looked(paths, lambda path: guard.check(path, paths[path]))

    def _looked(self, paths: Iterable[str], look: Callable[[str], _R]) -> dict[str, _R]:
        """Path -> what `look` returns for it; side by side, because in an object store each waits."""
        paths = list(paths)
        return dict(zip(paths, self._side_by_side(look, paths), strict=True))

    def _restart_sources(self, plan: Plan) -> None:
        """Takes the source of a copy that is still to be made back to the rows that the plan copies.

        An older run is fenced at tables that exist. One that this step makes does not, so that the older run may have made it
        and gone further than the copy. Its writes are then made again, from the one that makes it.

        Raises:
            SinkError: the step does not make the source.
        """
        while (later := self._copy_of_later_rows(plan)) is not None:
            place, copy = later
            writes = [action.write for action in plan.actions[:place] if action.path == copy.source]
            first = next((w for w in reversed(writes) if isinstance(w, Create | Load | Copy)), None)
            if first is None:
                location, source = self.sink.location(copy.path), self.sink.location(copy.source)
                raise SinkError(
                    f"{location} must become a copy of {source}, but another run of the pipeline has written to {source} since. "
                    f"{TABLE_CHANGED}"
                )
            self.before[copy.source] = replace(self.before[copy.source], done=first.number - 1)

    def _copy_of_later_rows(self, plan: Plan) -> tuple[int, Copy] | None:
        """Returns the place of a copy, and the copy: it is still to be made, and its source has writes that come after it."""
        last = Counter[str]()  # path -> number of the plan's last write to it so far
        for place, action in enumerate(plan.actions):
            write = action.write
            if isinstance(write, Copy) and self.before[write.path].done < write.number:
                source = self.before.get(write.source)
                if source is not None and source.done > last[write.source]:
                    return place, write
            last[write.path] = write.number
        return None

    def _guard(self) -> Guard:
        state = self.ledger.state
        return Guard(
            self.sink,
            {before.path: before.written for before in state.tables.values() if before.written},
            state.left,
            self.ledger.epoch,
            self.ledger.step + 1,
            self.ledger.begun_by,
            self.definition.sink.adopts,
        )

    def _write_all(self, plan: Plan) -> Counter[str]:
        """Makes every missing write; returns the number of writes made at each path."""
        groups = [
            deque(a for a in group if a.write.number > self.before[a.path].done) for group in chains(plan.actions)
        ]
        writes = Counter[str]()
        while any(groups):
            # each group up to its first write of rows; these writes are prepared together
            leading = [list(_without_rows(group)) for group in groups]
            self._side_by_side(lambda actions: self._write_each(actions, plan), leading)
            ready = [self._request(group.popleft(), plan) for group in groups if group]
            self._side_by_side(self._write, self.sink.prepare(ready))
            writes.update(action.path for actions in leading for action in actions)
            writes.update(request.write.path for request in ready)
        return writes

    def _write_each(self, actions: list[Action], plan: Plan) -> None:
        for action in actions:
            (prepared,) = self.sink.prepare([self._request(action, plan)])
            self._write(prepared)

    def _side_by_side(self, work: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
        """Calls `work` for all items that are not empty, in as many threads as the definition allows; returns the results."""
        waiting = [item for item in items if item]
        threads = min(self.definition.pipeline.parallelism, len(waiting))
        if threads < 2:
            return [work(item) for item in waiting]
        with ThreadPoolExecutor(threads, thread_name_prefix="tables") as pool:
            futures = [pool.submit(copy_context().run, work, item) for item in waiting]
        return [one.result() for one in futures]

    def _request(self, action: Action, plan: Plan) -> WriteRequest:
        before = self.before[action.path]
        write_id = WriteId(self.ledger.epoch, self.ledger.step + 1, action.write.number)
        write = _adopting(action.write) if before.adopted else action.write
        self.before[action.path] = replace(before, adopted=False)
        changes = self.pending.changes(plan, action.changes, write.table, self.options) if action.changes else None
        return WriteRequest(write, changes, write_id, self._note(plan.state, write_id), before.revision)

    def _write(self, prepared: PreparedWrite) -> None:
        """Makes one write, and compares the number of rows it has read with the plan."""
        write, changes = prepared.request.write, prepared.request.changes
        kind = type(write).__name__.lower()
        passed(f"{kind}.before")
        applied = self.sink.apply(prepared)
        if changes is not None:
            self._check_read(write.path, changes, changes.read if applied.read is None else applied.read)
        passed(f"{kind}.after", write=kind, files=applied.files, bytes=applied.bytes)

    def _check_read(self, path: str, changes: Changes, read: int) -> None:
        if not changes.least <= read <= changes.rows:
            planned = f"{changes.least:,}{'' if changes.least == changes.rows else f' to {changes.rows:,}'}"
            raise SinkError(
                f"{self.sink.location(path)}: the last write has read {read:,} row changes from the pending "
                f"store, but the store has {planned} for it. The table is wrong: restore it with `changefeed repair`, and "
                "report this with the pipeline's definition"
            )

    def _note(self, state: State, write_id: WriteId) -> str:
        """The note in a table's commit: the writer, and the commit_ts that the table reaches.

        It has the positions of a few partitions only: those of a thousand topics would be in the logs of a thousand tables.
        """
        note: dict[str, Any] = {
            "changefeed": self.definition.pipeline.name,
            "epoch": write_id.epoch,
            "step": write_id.step,
            "commit_ts": state.barrier,
        }
        if sum(map(len, state.positions.values())) <= _NOTED_PARTITIONS:
            note["positions"] = state.positions
        return msgspec.json.encode(note).decode()


def _without_rows(actions: deque[Action]) -> Iterator[Action]:
    """Takes actions from the front up to the first one that applies changes."""
    while actions and actions[0].changes is None:
        yield actions.popleft()


def _adopting(write: PlannedWrite) -> Write:
    """The write for a foreign table that the definition adopts: its rows stay."""
    path, number, table = write.path, write.number, write.table
    match write:
        case Create():
            return Touch(path=path, number=number, table=table)
        case Load() if table.keys:
            return Upsert(path=path, number=number, table=table)
        case Load():
            return Append(path=path, number=number, table=table)
    return write


def _paths(actions: list[Action]) -> dict[str, Table | None]:
    """Path -> the table that its first write creates, None if that write needs an existing one; including sources of copies."""
    paths: dict[str, Table | None] = {}
    for action in actions:
        # rows may be merged into an existing table that the definition adopts
        table = action.write.table if isinstance(action.write, (Create, Load, Upsert, Append)) else None
        for path in sorted(touched(action)):
            paths.setdefault(path, table if path == action.path else None)
    return paths
