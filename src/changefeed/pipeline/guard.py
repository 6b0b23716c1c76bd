"""Compares the sink's tables with the ledger before the pipeline writes them.

Rule 1. A table in the ledger has the revision and the write id that the ledger has. While a begun step is being finished, it may
have those of that step instead.
Rule 2. Later commits are allowed if they do not change rows, columns or table features: OPTIMIZE, VACUUM, table properties.
After any other commit (RESTORE, rows or columns of other writers, missing commits) the pipeline stops.
Rule 3. A path that is not in the ledger is empty, or has a table that the definition adopts. It does not lie inside a table.
Rule 4. A write id of a newer epoch means that this run has been fenced.
Rule 5. A table that `changefeed repair` has written since the ledger's last write of it counts as the ledger's; see `repair.py`.

Without these rules, a ledger restored from a backup would skip steps that the tables already have, and a table that lost its
last commit would be continued as if nothing were missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from changefeed.errors import ConfigError, FencedError, SinkError
from changefeed.model.definition import Table
from changefeed.pipeline.planning.table_path import folders_of
from changefeed.pipeline.state import LastWrite
from changefeed.sinks.base import Commit, TableSink, TableSnapshot
from changefeed.sinks.ways_out import TABLE_CHANGED
from changefeed.sinks.writes import WriteId

REPAIRED = 2**12 - 1  # the number in the write ids of `changefeed repair`


@dataclass(frozen=True, slots=True)
class PathState:
    """A path before a step writes it.

    Attributes:
        revision: revision of the table at the path; -1 if there is none.
        adopted: the table was made by another program, and the step's first write adopts it.
        foreign: the table was made by another program, and the step adopts it or has adopted it.
        done: number of the step's last write to it by an older run that began the step; 0 for none.
    """

    revision: int
    adopted: bool = False
    foreign: bool = False
    done: int = 0


@dataclass(frozen=True, slots=True)
class Guard:
    """The tables that one step expects at the paths that it writes.

    Attributes:
        sink: the tables, as the pipeline's owner.
        tables: path below the root -> the last write that the ledger has, of tables in use.
        retired: path -> the last write, for paths that no table uses any more.
        epoch: epoch of this run.
        step: number of the step that is about to be carried out.
        epochs: epochs that may have written in this step before; empty unless the step is being finished.
        adopts: whether a foreign table, by `database.table`, may be adopted.
    """

    sink: TableSink
    tables: Mapping[str, LastWrite]
    retired: Mapping[str, LastWrite]
    epoch: int
    step: int
    epochs: Collection[int]
    adopts: Callable[[str], bool]

    def check(self, path: str, table: Table | None) -> PathState:
        """Compares the table at a path with the ledger.

        Args:
            path: path below the sink's root.
            table: the table that the step creates there, if it creates one: an existing one may be adopted.

        Raises:
            ConfigError: the path has a table that the pipeline has not written.
            FencedError: a newer run writes the table.
            SinkError: the table differs from the ledger.
        """
        location = self.sink.location(path)
        snapshot = self.sink.snapshot(path)
        if snapshot is None:
            self._check_nothing(location, path)
            return PathState(-1)
        if snapshot.write_id is not None:
            return self._check_ours(path, snapshot, snapshot.write_id, table)
        adopts = table is not None and self.adopts(table.full_name)
        if (
            path in self.retired and self.retired[path].epoch == 0 and not adopts
        ):  # `changefeed repair` has assigned it to this ledger
            return PathState(snapshot.revision)
        if path in self.tables:
            raise SinkError(f"{location}: this is not the table that the pipeline wrote. {TABLE_CHANGED}")
        self._check_foreign(path, snapshot, table)
        return PathState(snapshot.revision, adopted=True, foreign=True)

    def look(self, path: str, written: LastWrite) -> None:
        """Compares the newest commit of a table with the last write that the ledger has, and the table's files with its log.

        Raises:
            FencedError, SinkError: as `check`; or a data file is missing or damaged.
        """
        revision, write_id = written.revision, written.write_id
        is_newest = self.sink.is_newest(path, revision)
        if not is_newest or self._commit(path, revision).write_id != write_id:
            revision = self.check(path, None).revision
        self.check_files(path, revision)

    def check_files(self, path: str, revision: int) -> None:
        """Compares the data files of a revision of a table with its log.

        Raises:
            SinkError: a file is missing or damaged.
        """
        if damaged := self.sink.damaged_files(path, revision):
            raise SinkError(
                f"{self.sink.location(path)}: data files are gone or damaged ({len(damaged)}, the first is {damaged[0]}). "
                f"{TABLE_CHANGED}"
            )

    def check_around(self, paths: Iterable[str]) -> None:
        """Checks that paths which are not in the ledger do not lie inside a table.

        Raises:
            ConfigError: the sink's folder or that of a database is itself a table.
        """
        new = [path for path in paths if path not in self.tables and path not in self.retired]
        for folder in folders_of(new) if new else ():
            if self.sink.snapshot(folder) is not None:
                raise ConfigError(
                    f"{self.sink.location(folder).rstrip('/')} is a table itself, whose clean-up would delete the pipeline's "
                    "tables inside it: give the pipeline another sink.path"
                )

    def check_after(self, path: str, before: PathState, writes: int) -> LastWrite:
        """Compares a table with what this step has written to it.

        Raises:
            FencedError, SinkError: another program has written to it meanwhile.
        """
        location = self.sink.location(path)
        snapshot = self.sink.snapshot(path)
        if snapshot is None or snapshot.write_id is None:
            raise SinkError(f"{location}: the table was deleted after this step wrote it. {TABLE_CHANGED}")
        self._check_epoch(location, snapshot.write_id)
        commits = self.sink.distance(path, before.revision, snapshot.revision)
        if commits is None or commits < writes:
            raise self._missing(path)
        if commits > writes:
            self._check_commits(path, before.revision, snapshot.revision, {*self.epochs, self.epoch})
        return LastWrite.of(snapshot.revision, snapshot.write_id)

    def _check_nothing(self, location: str, path: str) -> None:
        if path in self.tables:
            raise SinkError(f"{location}: the table is gone. {TABLE_CHANGED}")
        if path not in self.retired and not self.epochs and self.sink.has_files(path):
            raise ConfigError(
                f"{location} contains files, but no table: give the pipeline another sink.path, or move the folder away"
            )

    def _check_ours(self, path: str, snapshot: TableSnapshot, write_id: WriteId, table: Table | None) -> PathState:
        """Compares a table that the pipeline has written before."""
        location, revision = self.sink.location(path), snapshot.revision
        self._check_epoch(location, write_id)
        last_write = self.tables.get(path) or self.retired.get(path)
        if last_write is not None and last_write.epoch == 0:  # `changefeed repair` has assigned it to this ledger
            return PathState(revision, done=self._done(path, -1, revision)[0])
        if last_write and self._is_repair(write_id, last_write):
            self._check_commits(path, self._revision_of(path, snapshot, write_id), revision, self.epochs)
            return PathState(revision)
        if not self._is_of_step(write_id, self.epochs):
            if last_write is None or write_id > last_write.write_id:
                raise SinkError(
                    f"{location}: the table has writes that are not in the ledger: was the ledger restored from a "
                    f"backup? {TABLE_CHANGED}"
                )
            if write_id < last_write.write_id:
                raise self._missing(path)
        if last_write is None:  # the step has created it, or has begun to adopt it
            done, before = self._done(path, -1, revision)
            if before >= 0 and not (table and self.adopts(table.full_name)):
                self._check_commit(path, self._commit(path, before), self.epochs)
            return PathState(revision, adopted=before >= 0 and not done, foreign=before >= 0, done=done)
        if self.sink.distance(path, last_write.revision, revision) is None:
            raise self._missing(path)
        done, before = self._done(path, last_write.revision, revision)
        after = before if self._is_repaired(path, last_write, before) else last_write.revision
        self._check_commits(path, after, revision, self.epochs)
        return PathState(revision, done=done)

    def _is_repaired(self, path: str, last_write: LastWrite, revision: int) -> bool:
        """Whether `changefeed repair` has made a revision since the ledger's last write."""
        if revision == last_write.revision:
            return False
        write_id = self._commit(path, revision).write_id
        return write_id is not None and self._is_repair(write_id, last_write)

    def _is_repair(self, write_id: WriteId, last_write: LastWrite) -> bool:
        return (
            write_id.number == REPAIRED
            and last_write.step <= write_id.step < self.step
            and write_id.epoch > last_write.epoch
        )

    def _done(self, path: str, after: int, through: int) -> tuple[int, int]:
        """Number of this step's newest write between two revisions, and the revision before its first write; or of a repair.

        Runs that finish a step begin with a `Touch`, number 0, which is not a write of the plan.
        """
        if not self.epochs:
            return 0, through
        done = 0
        for commit in self.sink.commits(path, after, through):
            if commit.write_id is not None and self._is_of_step(commit.write_id, self.epochs):
                done = done or commit.write_id.number
            elif commit.changes_table or (commit.write_id is not None and commit.write_id.number == REPAIRED):
                return done, commit.revision
        return done, after

    def _is_of_step(self, write_id: WriteId, epochs: Collection[int]) -> bool:
        return write_id.step == self.step and write_id.epoch in epochs

    def _revision_of(self, path: str, snapshot: TableSnapshot, write_id: WriteId) -> int:
        """The revision of the commit with this write id."""
        for commit in self.sink.commits(path, -1, snapshot.revision):
            if commit.write_id == write_id:
                return commit.revision
        raise self._missing(path)

    def _commit(self, path: str, revision: int) -> Commit:
        """The commit that made a revision."""
        return next(self.sink.commits(path, -1, revision))

    def _missing(self, path: str) -> SinkError:
        location = self.sink.location(path)
        return SinkError(
            f"{location}: the table lacks commits that the ledger has: was an older copy restored, or its log "
            f"truncated? {TABLE_CHANGED}"
        )

    def _check_epoch(self, location: str, write_id: WriteId) -> None:
        if write_id.epoch > self.epoch:
            raise FencedError(
                f"{location}: epoch {write_id.epoch} of the pipeline writes this table now; this run is epoch "
                f"{self.epoch} and stops"
            )

    def _check_commits(self, path: str, after: int, upto: int, epochs: Collection[int]) -> None:
        for commit in [*self.sink.commits(path, after, upto)][::-1]:  # of several, the first one is named
            self._check_commit(path, commit, epochs)

    def _check_commit(self, path: str, commit: Commit, epochs: Collection[int]) -> None:
        if not self._may_be(commit, epochs):
            raise SinkError(
                f"{self.sink.location(path)}: commit {commit.revision} ({commit.operation}) was not made by this pipeline and "
                f"changes the table. {TABLE_CHANGED}"
            )

    def _may_be(self, commit: Commit, epochs: Collection[int]) -> bool:
        if commit.write_id is None:
            return not commit.changes_table
        return self._is_of_step(commit.write_id, epochs)

    def _check_foreign(self, path: str, snapshot: TableSnapshot, table: Table | None) -> None:
        location = self.sink.location(path)
        if table is None or not self.adopts(table.full_name):
            by = next((name.split(":")[1] for name in sorted(snapshot.owners) if name.startswith("changefeed:")), None)
            whose = (
                f" Pipeline {by} wrote it under another ledger: see `changefeed repair` if that was lost." if by else ""
            )
            raise ConfigError(
                f"{location} is a table that this pipeline has not written.{whose} Give the pipeline another sink.path, move "
                "the table away, or name it in sink.adopt to go on with its rows"
            )
        if differs := self.sink.differences(path, table):
            raise ConfigError(
                f"{location} cannot be adopted: its columns are not those of {table.full_name}: {', '.join(differs)}. "
                "Correct the table, or leave it out of sink.adopt and move it away"
            )
