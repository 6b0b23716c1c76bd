"""Carries out a begun step: every write of its plan, each once, and what lies in the tables after them.

Rule 1. What the plan reads is compared first with what was written to it: folders of the pending store with their sums,
tables with the ledger (`guard.py`).
Rule 2. A write whose stamp a table has is done; it was made by the run that began the step. All others follow, those of
one table in their order, tables side by side.
Rule 3. What a write has read is counted, and compared with what the plan says that there is to read.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import msgspec

from changefeed.errors import FencedError, SinkError
from changefeed.model.definition import Table
from changefeed.pipeline.actions import (
    AddColumns,
    AnyAction,
    Copy,
    Create,
    Merge,
    Plan,
    Rewrite,
    chains,
    touched,
    without,
)
from changefeed.pipeline.counting import rows_between
from changefeed.pipeline.definition import Definition
from changefeed.pipeline.failpoint import failpoint
from changefeed.pipeline.guard import WAY_OUT, Guard, Here
from changefeed.pipeline.ledger import Ledger
from changefeed.pipeline.pending import PendingStore
from changefeed.pipeline.resent import once
from changefeed.pipeline.state import State, Written
from changefeed.sinks.delta.log import Snapshot, Stamp
from changefeed.sinks.delta.table import Writer
from changefeed.spark.session import another, compiled
from changefeed.stages.changes import NO_READS, Told, Window, changes
from changefeed.stages.latest import last_reading, latest
from changefeed.stages.tally import Tally

# From here on it is worth the seconds that it takes to compile the plan of a write.
_MANY_ROWS, _MANY_BYTES = 1_000_000, 64 * 2**20
_LOOKING = 8  # tables looked at at the same time when a run begins


@dataclass(slots=True)
class Executor:
    """Carries out the steps of one run.

    Attributes:
        root: the sink's path.
        here: path -> what lay there before this step.
    """

    definition: Definition
    ledger: Ledger
    pending: PendingStore
    writer: Writer
    root: str
    here: dict[str, Here] = field(default_factory=dict)

    def take_name(self) -> None:
        """Takes the ledger's name for the pipeline, once it is claimed."""
        self.writer = replace(self.writer, application=self.ledger.application)

    def begin(self) -> None:
        """Looks at every table of the ledger's last cut, once it is claimed.

        Raises:
            SinkError: a table is not what the ledger says, or lacks data files.
        """
        self.take_name()
        plan, guard = self.ledger.unfinished, self._guard()
        busy = _paths(plan.actions) if plan else {}
        excluded = self.definition.pipeline.excludes
        tables = [t for name, t in self.ledger.state.tables.items() if t.path not in busy and not excluded(name)]
        with ThreadPoolExecutor(_LOOKING, thread_name_prefix="tables") as pool:
            for found in [pool.submit(self._look, guard, t.path, t.written) for t in tables if t.written]:
                found.result()

    def _look(self, guard: Guard, path: str, written: Written) -> None:
        version = written.version
        if not self.writer.is_newest(f"{self.root}/{path}", version):
            version = guard.check(path, None).version
        self._check_files(path, version)

    def _check_files(self, path: str, version: int) -> None:
        at = f"{self.root}/{path}"
        if missing := self.writer.missing_files(at, version):
            raise SinkError(f"{at}: {len(missing)} data files are gone or damaged, the first {missing[0]}. {WAY_OUT}")

    def columns(self, path: str) -> tuple[str, ...] | None:
        """The columns of the table at a path; None when there is none."""
        found = self.writer.state(f"{self.root}/{path}")
        return found.columns if found else None

    def carry_out(self, plan: Plan) -> State:
        """Does what a begun step still lacks; returns the state after it, with the tables' versions.

        Raises:
            ConfigError: a table that the pipeline has not written is in the way.
            FencedError: a newer run has taken over.
            SinkError: a folder or a table is damaged, or is not what the ledger says.
        """
        plan = without(plan, self.definition.pipeline.excludes)
        if self.ledger.begun_by:
            self.pending.check(plan.folders, plan.sums)
        guard = self._guard()
        self.here = {path: guard.check(path, made) for path, made in _paths(plan.actions).items()}
        if self.ledger.begun_by:  # `begin` has looked at the other tables
            for path, here in self.here.items():
                if here.version >= 0:
                    self._check_files(path, here.version)
        done = self._write_all(plan)
        written = {p: guard.check_after(p, self.here[p], done[p]) for p in {action.path for action in plan.actions}}
        known = self.ledger.state.known() | written
        tables = {name: replace(here, written=known.get(here.path)) for name, here in plan.state.tables.items()}
        used = {here.path for here in tables.values()}
        return replace(plan.state, tables=tables, left={p: w for p, w in known.items() if p not in used})

    def _guard(self) -> Guard:
        state = self.ledger.state
        return Guard(
            self.writer,
            self.root,
            {here.path: here.written for here in state.tables.values() if here.written},
            state.left,
            self.ledger.epoch,
            self.ledger.step + 1,
            self.ledger.begun_by,
            self.definition.sink.adopts,
        )

    def _write_all(self, plan: Plan) -> Counter[str]:
        """Every write that is not there yet; returns how many were made at each path."""
        groups = chains(plan.actions)
        threads = min(self.definition.pipeline.parallelism, len(groups))
        if threads < 2:
            return self._write_group(plan.actions, plan)
        with ThreadPoolExecutor(threads, thread_name_prefix="tables") as pool:
            done = [pool.submit(self._own_session()._write_group, group, plan) for group in groups]
        return sum((group.result() for group in done), Counter())

    def _own_session(self) -> Executor:
        """This executor with a Spark session of its own: the stamp of a MERGE is a setting of the session."""
        session = another(self.writer.spark)
        return replace(self, writer=replace(self.writer, spark=session), pending=replace(self.pending, spark=session))

    def _write_group(self, actions: list[AnyAction], plan: Plan) -> Counter[str]:
        return Counter(action.path for action in actions if self._write(action, plan))

    def _write(self, action: AnyAction, plan: Plan) -> bool:
        """Makes one write; False when the table has it."""
        path = f"{self.root}/{action.path}"
        stamp = Stamp(self.ledger.epoch, self.ledger.step + 1, action.number)
        found = self.writer.state(path)
        if found and found.stamp:
            if found.stamp.epoch > stamp.epoch:
                raise FencedError(
                    f"{path}: epoch {found.stamp.epoch} of the pipeline writes this table now; this run is epoch "
                    f"{stamp.epoch} and stops"
                )
            if found.stamp.step == stamp.step and found.stamp.action >= stamp.action:
                return False
        kind = type(action).__name__.lower()
        note = self._note(plan.state, stamp)
        failpoint(f"{kind}.before")
        with compiled(self.writer.spark) if self._is_large(action, plan, found) else nullcontext():
            self._do(action, plan, path, stamp, note, adopted=bool(found and not found.stamp and self._adopts(action)))
        failpoint(f"{kind}.after")
        return True

    def _adopts(self, action: AnyAction) -> bool:
        return self.here[action.path].adopted

    def _do(self, action: AnyAction, plan: Plan, path: str, stamp: Stamp, note: str, *, adopted: bool) -> None:
        match action:
            case Create() if adopted:
                self.writer.adopt(path, action.table, stamp, note)
            case Create():
                self.writer.create(path, action.table, stamp, note)
            case AddColumns():
                self.writer.add_columns(path, action.table, stamp, note)
            case Rewrite():
                self.writer.rewrite(path, action.table, action.expressions, stamp, note)
            case Copy():
                self.writer.copy(f"{self.root}/{action.source}", path, stamp, note)
            case Merge():
                self._merge(action, plan, path, stamp, note, load=action.load and not adopted)

    def _is_large(self, action: AnyAction, plan: Plan, table: Snapshot | None) -> bool:
        """Whether many rows go into the table, or may have to be read."""
        rows = 0
        if isinstance(action, Merge):
            name = ".".join(action.source)
            chunks = self.pending.index(action.folders or plan.folders, plan.sums)
            rows = sum(chunk.rows for chunk in chunks if chunk.name == name)
        elif isinstance(action, Copy):
            table = self.writer.state(f"{self.root}/{action.source}")
        return rows >= _MANY_ROWS or (table is not None and table.size >= _MANY_BYTES)

    def _merge(self, action: Merge, plan: Plan, path: str, stamp: Stamp, note: str, *, load: bool) -> None:
        # chunks -> typed changes of this table -> the last one of every key
        folders = action.folders or plan.folders
        chunks = self.pending.table(folders, action.source, action.after, action.upto)
        choice, window = self.definition.source.protocol, Window(action.after, action.upto)
        told = Told(choice.name, choice.options) if action.declared else None
        inserts = self.definition.pipeline.keyless == "inserts"
        tally = Tally(self.writer.spark)
        irregular = self.definition.sink.irregular
        typed = changes(chunks, action.table, window, irregular, told, inserts=inserts, reads=action.reads, tally=tally)
        if not action.table.keys:
            typed = last_reading(typed) if action.reads != NO_READS else typed
            typed = once(typed, plan.resent) if plan.resent else typed
            write = self.writer.load if load else self.writer.append
            write(path, action.table, typed, stamp, note)
        elif load:
            self.writer.load(path, action.table, latest(typed, action.table, partial=action.partial), stamp, note)
        else:
            last = latest(typed, action.table, partial=action.partial)
            self.writer.merge(path, action.table, last, stamp, note, partial=action.partial)
        self._check_read(
            tally.rows, path, rows_between(self.pending.index(folders, plan.sums), ".".join(action.source), window)
        )

    def _check_read(self, read: int, path: str, bounds: tuple[int, int]) -> None:
        least, most = bounds
        if not least <= read <= most:
            raise SinkError(
                f"{path}: the last write has read {read:,} row changes from the pending store, which holds "
                f"{least:,}{'' if least == most else f' to {most:,}'} for it. The table is not right: restore it with "
                "`changefeed repair`, and report this with the pipeline's definition"
            )

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


def _paths(actions: list[AnyAction]) -> dict[str, Table | None]:
    """Path -> the table that its first write makes there, None where that write needs one; of copies, the source too."""
    found: dict[str, Table | None] = {}
    for action in actions:
        made = action.table if isinstance(action, (Create, Merge)) else None
        for path in sorted(touched(action)):
            found.setdefault(path, made if path == action.path else None)
    return found
