"""Reads one pipeline for the page: the newest state, steps, tables and dead letters; keeps what cannot change.

    log/<number>.json         an entry never changes: the newest state is kept until there is a newer entry
    history/<a>-<b>.json      pages of a hundred steps: only those with steps that are shown are read
    dead_letters/<n>.jsonl    a file never changes: what was read of them is kept until the list of names differs
    heartbeat/                is read each time

A ledger that was deleted and made again has another id and other checksums, so nothing that was kept is taken for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Literal

import msgspec

from changefeed.errors import ConfigError, SinkError
from changefeed.model.definition import Table
from changefeed.monitor.finding import FoundPipeline
from changefeed.monitor.rows import PendingChanges, RowVersion, pending_changes, row_versions, versions_of
from changefeed.monitor.steps import StepRow, barriers, cuts_before, definitions_of, rows_of
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.events import EventDefinition, spark_of
from changefeed.pipeline.dead_letters import files_of
from changefeed.pipeline.ledger import read_ledger
from changefeed.pipeline.letter_files import LetterFiles, LetterSummary, StoredLetter
from changefeed.pipeline.monitoring.heartbeat import HEARTBEATS, read_heartbeat
from changefeed.pipeline.monitoring.holders import Holder, has_binlog, held_by_of, held_since, holders_in
from changefeed.pipeline.monitoring.lag import Lag, lag_of
from changefeed.pipeline.monitoring.view import RunNow
from changefeed.pipeline.paths import PENDING, tables_folder
from changefeed.pipeline.pending.by_table import pending_rows
from changefeed.pipeline.state import State
from changefeed.pipeline.store.base import Cut, StoreReader
from changefeed.pipeline.store.entries import LedgerEntry, decoded
from changefeed.pipeline.store.hadoop import folder_to_read
from changefeed.pipeline.store.reading import FileReader, entry_name
from changefeed.sinks import key_reader
from changefeed.storage import Folder
from changefeed.storage.section import StorageSection

_STEPS_KEPT = 2_000
_STEPS_HELD = 500  # that are looked at, to find out since when the cut is held


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest content of a ledger.

    Attributes:
        epoch, step, at: as of `store.base.Latest`.
        state: the newest state; its tables are empty if it was read for the overview.
        count: number of tables.
        unfinished: whether a step was begun and is not done.
    """

    epoch: int
    step: int
    at: datetime | None
    state: State
    count: int
    unfinished: bool


@dataclass(frozen=True, slots=True)
class Glance:
    """A pipeline at a glance: its line in the overview, and the head of its own page.

    Attributes:
        newest: None if no run has created the ledger yet.
        beat: the newest heartbeat; None if there is none.
        waiting: number of dead letters that have not been replayed.
        lag, held_by: see `Status`.
        held_since: since when the newest cut has not moved although something waits; None if nothing does, or it is not known.
        binlog: see `Status`.
        kind: `events` for an event pipeline, which has no cuts and no dead letters, and of which nothing waits.
    """

    newest: Newest | None
    beat: RunNow | None
    waiting: int
    lag: Lag
    held_by: tuple[Holder, ...]
    held_since: datetime | None
    binlog: bool
    kind: Literal["tables", "events"] = "tables"


@dataclass(slots=True)
class PipelineReader:
    """Reads a pipeline; used by many requests at the same time, one after the other.

    Attributes:
        pipeline: the pipeline, which has a folder.
    """

    pipeline: FoundPipeline
    _ledger: StoreReader | None = None
    _head: tuple[str, Newest, LedgerEntry | None] | None = None
    _steps: list[StepRow] = field(default_factory=list)  # newest first
    _newest_cut: Cut | None = None
    _ledger_id: str = ""
    _held: tuple[int | None, datetime | None] | None = None  # the barrier, and since when it is held
    _letters: tuple[tuple[str, ...], list[LetterSummary]] | None = None
    _state: tuple[str, State] | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def definition(self) -> Definition | None:
        """The definition of a pipeline into tables; None if only its folder is known, or for an event pipeline."""
        known = self.pipeline.definition
        return known if isinstance(known, Definition) else None

    @property
    def numbered_versions(self) -> bool:
        """Whether versions of tables count up, see `SinkSection`; False if there is no definition: then they may be ids."""
        return self.definition is not None and self.definition.sink.numbered_versions

    def glance(self) -> Glance:
        """Returns the pipeline at a glance.

        Raises:
            ConfigError, SinkError: the pipeline's files cannot be read.
        """
        with self._lock:
            newest, beat = self._newest(), read_heartbeat(self._folder(HEARTBEATS))
            state = newest.state if newest else State()
            binlog, held_by = self._binlog(state), self._held_by(state)
            lag = lag_of(state, beat.backlog if beat else None, binlog=binlog)
            waiting = sum(letter.replayed is None for letter in self._summaries())
            since = self._held_since(state.barrier) if held_by and newest else None
            is_events = isinstance(self.pipeline.definition, EventDefinition) or (
                beat is not None and beat.kind == "events"
            )
            return Glance(newest, beat, waiting, lag, held_by, since, binlog, "events" if is_events else "tables")

    def state(self) -> State:
        """Returns the newest state with its tables and their definitions; raises as `glance`."""
        with self._lock:
            newest = self._newest()
            if newest is None or self._head is None:
                return State()
            sum, _, entry = self._head
            if self._state is None or self._state[0] != sum:
                ledger = self._reader()
                if isinstance(ledger, FileReader):
                    state = ledger.steady(lambda: ledger.state(entry)) if entry is not None else State()
                else:
                    latest = ledger.latest()
                    state = latest.state if latest else State()
                self._state = sum, state
            return self._state[1]

    def pending_by_table(self) -> dict[str, int]:
        """Returns the pending rows of each table that has some, most first; empty if they cannot be counted at this moment."""
        with self._lock:
            newest = self._newest()
        if newest is None or not newest.state.counts.pending:
            return {}
        try:
            folder = self._folder(PENDING)
            return pending_rows(folder, newest.state) if isinstance(folder, Folder) else {}
        except SinkError:  # a run has just deleted a folder that it has applied
            return {}

    def steps(self, count: int, before: int | None = None) -> list[StepRow]:
        """Returns steps, newest first; raises as `glance`.

        Args:
            count: how many, at most.
            before: only steps before this one; None for the newest.
        """
        with self._lock:
            newest = self._newest()
            if newest is None:
                return []
            if before is None or before > newest.step:
                return self._recent(count)[:count]
            known = [row for row in self._steps if row.step < before]
            if len(known) >= count:
                return known[:count]
            return list(islice(self._older(before), count))

    def letters(self) -> list[LetterSummary]:
        """Returns all dead letters without their bytes, sorted by position; raises as `glance`."""
        with self._lock:
            return self._summaries()

    def letter(self, summary: LetterSummary) -> StoredLetter | None:
        """Returns a dead letter with its bytes; None if it is gone."""
        rows = self._letter_files().rows(replayed=True)
        return next((row for row in rows if row.position == summary.position), None)

    def definitions(self, name: str) -> list[tuple[int, datetime, Table]]:
        """Returns the definitions of a table, newest first, as far as the ledger still has them.

        Each has the first step of those that were read in which the table had it.
        """
        ledger = self._reader()
        if not isinstance(ledger, FileReader):
            return []
        with self._lock:
            return definitions_of(ledger, name)

    def row(self, name: str, key: Mapping[str, str]) -> tuple[list[RowVersion], PendingChanges]:
        """Returns the recent past of a row: its versions, newest first, and its pending changes.

        Args:
            name: `database.table`, of a table in the newest cut.
            key: column -> its value as text.

        Raises:
            ConfigError: the tables are in no folder that is known, the sink shows no rows, or the key is not one of the table.
            SinkError: a file cannot be read.
        """
        tables = self._tables_folder()
        with self._lock:
            versions = versions_of(self._reader().history(newest_first=True), name)
            state = self.state()
        table = state.tables[name].table
        section = self.definition.sink if self.definition is not None else None
        past = list(row_versions(versions, lambda path: key_reader(section, tables, path, key)))
        return past, pending_changes(self._folder(PENDING), state.pending, table.database, table.name, key)

    # The parts.

    def _tables_folder(self) -> Folder:
        if isinstance(self.pipeline.definition, EventDefinition):
            raise ConfigError("an event pipeline writes no tables, so there are no rows to show")
        if self.definition is not None:
            folder = folder_to_read(tables_folder(self.definition), self.definition.storage, self.definition.spark)
        elif (beside := str(self.pipeline.folder)).endswith("/_changefeed"):
            folder = folder_to_read(beside.removesuffix("/_changefeed"), StorageSection(), {})
        else:
            raise ConfigError(
                "rows are shown of tables in the folder that the definition names, or beside the pipeline's own"
            )
        if not isinstance(folder, Folder):
            raise ConfigError(f"{folder.path} is on a file system that only Spark reaches")
        return folder

    def _reader(self) -> StoreReader:
        if self._ledger is None:
            if self.definition is not None:
                self._ledger = read_ledger(self.definition)
            else:
                folder = self._folder("ledger")
                first = FileReader(folder, "")
                numbers = first.numbers()
                name = first.entry(numbers[-1])[0].pipeline if numbers else ""
                self._ledger = FileReader(folder, name)
        return self._ledger

    def _folder(self, name: str) -> Any:
        known = self.pipeline.definition
        storage, spark = (known.storage, spark_of(known)) if known else (StorageSection(), dict[str, str]())
        return folder_to_read(f"{self.pipeline.folder}/{name}", storage, spark)

    def _letter_files(self) -> LetterFiles:
        return files_of(self.definition) if self.definition else LetterFiles(self._folder("dead_letters"))

    def _newest(self) -> Newest | None:
        ledger = self._reader()
        if isinstance(ledger, FileReader):
            return ledger.steady(lambda: self._newest_of(ledger))
        latest = ledger.latest()
        if latest is None:
            return None
        count = len(latest.state.tables)
        newest = Newest(latest.epoch, latest.step, latest.at, latest.state, count, latest.unfinished is not None)
        self._forget(latest.owner)
        self._head = f"{latest.epoch}:{latest.step}", newest, None
        return newest

    def _newest_of(self, ledger: FileReader) -> Newest | None:
        head = ledger.head()
        if head is None:
            return None
        entry, sum = head
        self._forget(entry.id)
        if self._head is None or self._head[0] != sum:
            done = entry if entry.status == "done" else ledger.entry_at(entry.done)[0] if entry.done else None
            state, count = State(), 0
            if done is not None:
                packed = decoded(done.state, _StateAlone, ledger.folder.path, entry_name(done.number))
                state, count = packed.state, len(packed.tables)
            unfinished = entry.status == "begun" or entry.begun is not None
            step, at = (done.step, done.at) if done else (0, None)
            self._head = sum, Newest(entry.epoch, step, at, state, count, unfinished), done
        return self._head[1]

    def _forget(self, ledger: str) -> None:
        """Drops what was kept of another ledger at the same place."""
        if self._ledger_id != ledger:
            self._head, self._newest_cut, self._letters, self._state = None, None, None, None
            self._held = None
            self._steps.clear()
            self._ledger_id = ledger

    def _binlog(self, state: State) -> bool:
        if self.pipeline.definition is not None:
            return has_binlog(self.pipeline.definition)
        return state.time is not None or bool(state.reached)  # only sources without resolved events have them

    def _held_by(self, state: State) -> tuple[Holder, ...]:
        if self.definition is not None:
            return held_by_of(self.definition, state)
        return holders_in(state, marks=bool(state.resolved) and state.passed is None)

    def _held_since(self, barrier: int | None) -> datetime | None:
        """Since when the newest cut is held; asks the ledger once for each."""
        if self._held is None or self._held[0] != barrier:
            self._held = barrier, held_since(barriers(self._reader()), _STEPS_HELD)
        return self._held[1]

    # Steps.

    def _recent(self, count: int) -> list[StepRow]:
        """The newest steps: reads those that are not known yet."""
        known = self._steps[0].step if self._steps else 0
        newest = self._newest()
        assert newest is not None
        if known < newest.step:
            limit = _STEPS_KEPT if known else count + 1
            cuts = list(islice(self._reader().history(known, newest_first=True), limit))
            whole = bool(known) and bool(cuts) and cuts[-1].step == known + 1
            tail = [self._newest_cut] if whole and self._newest_cut is not None else []
            rows = list(rows_of([*cuts, *tail], last=not whole and len(cuts) < limit))
            self._steps[:] = [*rows, *self._steps][:_STEPS_KEPT] if whole else rows
            self._newest_cut = cuts[0] if cuts else self._newest_cut
        if len(self._steps) < count and self._steps and self._steps[-1].step > 1:
            self._steps += islice(self._older(self._steps[-1].step), count - len(self._steps))
        return self._steps

    def _older(self, before: int) -> Iterator[StepRow]:
        """The steps before one, newest first."""
        ledger = self._reader()
        if isinstance(ledger, FileReader):
            yield from rows_of(cuts_before(ledger, before), last=True)
        else:
            yield from (row for row in rows_of(ledger.history(newest_first=True), last=True) if row.step < before)

    # Dead letters.

    def _summaries(self) -> list[LetterSummary]:
        files = self._letter_files()
        names = tuple(files.folder.names(""))
        if not names:
            return files.summaries()
        if self._letters is None or self._letters[0] != names:
            self._letters = names, files.summaries()
        return self._letters[1]


class _StateAlone(msgspec.Struct, frozen=True):
    """A state whose tables are counted, not read."""

    state: State
    tables: dict[str, msgspec.Raw]
