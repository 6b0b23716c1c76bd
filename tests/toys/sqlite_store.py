"""A ledger in one SQLite file: `ledger: {type: tests.toys.sqlite_store, path: …}`.

SQLite has the hard part of the contract: a transaction is there as a whole or not at all, and one writer follows the other.
So the store is one row with the newest state, and one row per cut. Every row carries a checksum of its columns.
"""

from __future__ import annotations

import hashlib
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import Field

from changefeed import __version__
from changefeed.errors import SinkError
from changefeed.pipeline.planning.actions import Plan, paths_of, read_plan, write_plan
from changefeed.pipeline.state import State, read_state, write_state
from changefeed.pipeline.store.base import (
    FORMAT,
    Cut,
    Keep,
    Latest,
    StateStore,
    cut_of,
    damaged,
    foreign,
    owner_of,
    taken_at_once,
    taken_over,
    too_new,
)
from changefeed.section import Section
from changefeed.telemetry import passed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SYNCHRONOUS = "FULL"  # what a transaction has written survives the machine
_PAGE = 100  # cuts that `history` reads at once
_TABLES = (
    "CREATE TABLE IF NOT EXISTS store (format INTEGER, version TEXT, body TEXT, sum TEXT)",
    "CREATE TABLE IF NOT EXISTS cuts (step INTEGER PRIMARY KEY, body TEXT, sum TEXT)",
)


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """The one row of `store`.

    Attributes:
        token: random, of the run that took the epoch.
        first: the oldest step whose cut is kept.
        plan: of the step that was begun and is not done.
        begun_by: the epoch that began it.
    """

    pipeline: str
    id: str
    epoch: int = 0
    token: str = ""  # prose: a random text
    step: int = 0
    first: int = 1
    at: datetime | None = None
    state: str
    plan: str | None = None
    begun_by: int = 0


class SqliteStore(StateStore):
    """The store of one pipeline, as one run or one reader holds it; see `StateStore`."""

    def __init__(
        self,
        file: Path,
        pipeline: str,
        keep: Keep | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.file, self.path, self.pipeline = file, str(file), pipeline
        self.keep, self.now, self.token = keep or Keep(), now, uuid.uuid4().hex
        self.owner, self.epoch, self.step, self.state = "", 0, 0, State()
        self.unfinished: Plan | None = None
        self.begun_by = range(0)

    # For readers.

    def latest(self) -> Latest | None:
        """See `StoreReader`."""
        if not self.file.exists():
            return None
        with self._transaction() as database:
            body = self._read(database)
        if body is None:
            return None
        plan = read_plan(body.plan) if body.plan else None
        owner = owner_of(body.pipeline, body.id)
        return Latest(owner, body.epoch, body.step, body.at, read_state(body.state), plan)

    def history(self, after: int = 0, *, newest_first: bool = False) -> Iterator[Cut]:
        """See `StoreReader`."""
        last = latest.step if (latest := self.latest()) else 0
        while after < last:
            bounds = (last - _PAGE, last) if newest_first else (after, after + _PAGE)
            cuts = self._cuts(max(bounds[0], after), min(bounds[1], last))
            if newest_first:
                yield from reversed(cuts)
                last = cuts[0].step - 1 if cuts else 0
            else:
                yield from cuts
                after = cuts[-1].step if cuts else after + _PAGE

    def _cuts(self, after: int, through: int) -> list[Cut]:
        """The cuts that are kept with after < step <= through."""
        with self._transaction() as database:
            newest = self._read(database)
            first = max(after + 1, newest.first) if newest else 1
            query = "SELECT body, sum FROM cuts WHERE step BETWEEN ? AND ? ORDER BY step"
            cuts = [self._decoded(body, sum, Cut) for body, sum in database.execute(query, (first, through))]
        if [cut.step for cut in cuts] != list(range(first, through + 1)):
            raise damaged(self.path, f"of the cuts from {first} to {through} some are missing")
        return cuts

    # For a run.

    def claim(self) -> None:
        """See `StateStore`."""
        with self._transaction() as database:
            for table in _TABLES:
                database.execute(table)
            body = self._read(database)
            if body is None:
                body = Body(pipeline=self.pipeline, id=uuid.uuid4().hex[:16], state=write_state(State()))
                database.execute("INSERT INTO store VALUES (?, ?, ?, ?)", (FORMAT, __version__, *_encoded(body)))
            self.epoch = body.epoch + 1
        passed("epoch.before")
        with self._transaction() as database:
            body = self._own(database, self.epoch - 1)
            self._write(database, body, epoch=self.epoch, token=self.token)
        passed("epoch.after")
        self.owner, self.step, self.state = owner_of(body.pipeline, body.id), body.step, read_state(body.state)
        if body.plan:
            self.unfinished, self.begun_by = read_plan(body.plan), range(body.begun_by, self.epoch + 1)

    def begin(self, plan: Plan) -> None:
        """See `StateStore`."""
        passed("begun.before")
        with self._transaction() as database:
            self._write(database, self._own(database, self.epoch), plan=write_plan(plan), begun_by=self.epoch)
        passed("begun.after")

    def finish(self, state: State) -> None:
        """See `StateStore`."""
        passed("done.before")
        with self._transaction() as database:
            before = self._own(database, self.epoch)
            at = max(self.now(), before.at or self.now())
            named = paths_of(read_plan(before.plan)) if before.plan else set[str]()
            wrote = tuple(sorted(named - {table.path for table in state.tables.values()}))
            cut = cut_of(self.epoch, self.step + 1, at, state, wrote)
            database.execute("INSERT INTO cuts VALUES (?, ?, ?)", (cut.step, *_encoded(cut)))
            first = self._first_kept(database, before.first, cut)
            database.execute("DELETE FROM cuts WHERE step < ?", (first,))
            self._write(database, before, step=cut.step, first=first, at=at, state=write_state(state), plan=None)
        passed("done.after")
        self.step, self.state, self.unfinished, self.begun_by = cut.step, state, None, range(0)

    def is_fenced(self) -> bool:
        """See `StateStore`."""
        with self._transaction() as database:
            body = self._read(database)
        return body is None or (body.epoch, body.token) != (self.epoch, self.token)

    def _first_kept(self, database: sqlite3.Connection, first: int, newest: Cut) -> int:
        """The oldest step to keep."""
        if self.keep.cuts is not None:
            return max(first, newest.step - self.keep.cuts + 1)
        since = newest.at - self.keep.age if self.keep.age is not None else None
        query = "SELECT body, sum FROM cuts WHERE step >= ? ORDER BY step"
        for text, sum in database.execute(query, (first,)) if since is not None else ():
            cut: Cut = self._decoded(text, sum, Cut)
            if since is not None and cut.at >= since:
                return cut.step
        return first

    # Rows.

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that waits for those of other runs; it counts as a whole when the block ends, or not at all."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.file, timeout=60, isolation_level=None)) as database:
                database.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("COMMIT")
        except sqlite3.OperationalError as error:  # the disk, or a lock
            raise SinkError(f"{self.path}: {error}", transient=True) from error
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, str(error)) from error

    def _read(self, database: sqlite3.Connection) -> Body | None:
        """The row of `store`; None if there is none yet."""
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'store'").fetchone():
            return None
        row = database.execute("SELECT format, version, body, sum FROM store").fetchone()
        if row is None:
            return None
        if row[0] > FORMAT:
            raise too_new(self.path, row[0], row[1], __version__)
        body: Body = self._decoded(row[2], row[3], Body)
        if body.pipeline != self.pipeline:
            raise foreign(self.path)
        return body

    def _own(self, database: sqlite3.Connection, epoch: int) -> Body:
        """The row of `store`, for a run that may change it: while `epoch` is the newest."""
        body = self._read(database)
        if body is None:
            raise damaged(self.path, "it is empty")
        if body.epoch > epoch or (epoch == self.epoch and body.token != self.token):
            if body.epoch == self.epoch:
                raise taken_at_once(self.path, self.pipeline, self.epoch)
            raise taken_over(self.path, self.pipeline, body.epoch, self.epoch)
        return body

    def _write(self, database: sqlite3.Connection, body: Body, **changed: Any) -> None:
        body = msgspec.structs.replace(body, **changed)
        database.execute(
            "UPDATE store SET format = ?, version = ?, body = ?, sum = ?", (FORMAT, __version__, *_encoded(body))
        )

    def _decoded(self, body: str, sum: str, type: Any) -> Any:
        if _sum(body) != sum:
            raise damaged(self.path, f"a row has changed since it was written: {body[:80]}")
        return msgspec.json.decode(body, type=type)


def _encoded(value: Any) -> tuple[str, str]:
    """A row's body and its checksum."""
    body = msgspec.json.encode(value).decode()
    return body, _sum(body)


def _sum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


# The two functions by which the pipeline opens the store, and its section of the definition.


class StoreSection(Section):
    """A ledger in a file of SQLite."""

    type: str
    path: str = Field(description="The file; relative to the definition.")


SECTION = StoreSection


def open_store(section: StoreSection, pipeline: str, keep: Keep, session: SparkSession) -> SqliteStore:
    """The store for a run."""
    return SqliteStore(Path(section.path), pipeline, keep)


def open_reader(section: StoreSection, pipeline: str) -> SqliteStore:
    """The store for a command that reads it."""
    return SqliteStore(Path(section.path), pipeline)
