"""Compares the sink's tables with the ledger before the pipeline writes them.

Rule 1. A table that the ledger knows has the version and the write id that the ledger has. While a begun step is being
finished, it may have those of that step instead.
Rule 2. Other commits since then may be there if they leave rows, columns and table features as they are: OPTIMIZE, VACUUM,
table properties. After anything else (RESTORE, rows or columns of other writers, missing commits) the pipeline stops.
Rule 3. At a path that the ledger does not know lies nothing, or a table that the definition adopts.
Rule 4. A write id of a newer epoch means that this run has been fenced.
Rule 5. A table that `changefeed repair` has written since the ledger's last step is what the ledger says; see `repair.py`.

Without this a ledger that was restored from a backup would skip steps, as the tables say that these are done, and a table
that lost its last commit would be written on as if nothing were missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from changefeed.errors import ConfigError, FencedError, SinkError
from changefeed.model.definition import Table
from changefeed.pipeline.state import Written
from changefeed.sinks.delta.log import Commit, Snapshot, Stamp
from changefeed.sinks.delta.table import Writer

WAY_OUT = (
    "`changefeed repair` brings the table back to the ledger's version (--restore), takes it as it is (--accept), or builds "
    "it anew from the source (--rebuild)"
)

REPAIRED = 2**12 - 1  # the action in the write ids of `changefeed repair`


@dataclass(frozen=True, slots=True)
class Here:
    """A path before a step writes it: the version of the table there, -1 for none, and whether it is adopted."""

    version: int
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class Guard:
    """What one step may find at the paths that it writes.

    Attributes:
        writer: of the pipeline; it reads the tables' logs.
        root: the sink's path.
        tables: path below the root -> the last write that the ledger has, of tables in use.
        left: the same of paths that no table uses any more.
        epoch: of this run.
        step: that is about to be carried out.
        epochs: those that may have written in this very step before; empty unless it is being finished.
        adopts: whether a table of somebody else, by `database.table`, may be taken over.
    """

    writer: Writer
    root: str
    tables: Mapping[str, Written]
    left: Mapping[str, Written]
    epoch: int
    step: int
    epochs: Collection[int]
    adopts: Callable[[str], bool]

    def check(self, path: str, table: Table | None) -> Here:
        """Compares the table at a path with the ledger.

        Args:
            path: below the root.
            table: the table that the step makes there, if it makes one: it may be one to adopt.

        Raises:
            ConfigError: a table that the pipeline has not written lies there.
            FencedError: a newer run writes the table.
            SinkError: the table is not what the ledger says.
        """
        at = f"{self.root}/{path}"
        found = self.writer.state(at)
        if found is None:
            self._check_nothing(at, path)
            return Here(-1)
        if path in self.left and self.left[path].epoch == 0:  # `changefeed repair` has given it to this ledger
            return Here(found.version)
        if found.stamp is not None:
            self._check_ours(at, path, found, found.stamp)
            return Here(found.version)
        if path in self.tables:
            raise SinkError(f"{at}: another table lies here than the one that the pipeline wrote. {WAY_OUT}")
        self._check_foreign(at, found, table)
        return Here(found.version, adopted=True)

    def check_after(self, path: str, before: Here, writes: int) -> Written:
        """Compares a table with what this step has written to it.

        Raises:
            FencedError, SinkError: somebody else has written to it meanwhile.
        """
        at = f"{self.root}/{path}"
        found = self.writer.state(at)
        if found is None or found.stamp is None:
            raise SinkError(f"{at}: the table is gone since it was written. {WAY_OUT}")
        self._check_epoch(at, found.stamp)
        if found.version != before.version + writes:
            self._check_commits(at, before.version, found.version, {*self.epochs, self.epoch})
        return Written(found.version, found.stamp.epoch, found.stamp.step, found.stamp.action)

    def _check_nothing(self, at: str, path: str) -> None:
        if path in self.tables:
            raise SinkError(f"{at}: the table is gone. {WAY_OUT}")
        if path not in self.left and not self.epochs and self.writer.has_files(at):
            raise ConfigError(
                f"{at} holds files and no Delta table: give the pipeline another sink.path, or move the folder away"
            )

    def _check_ours(self, at: str, path: str, found: Snapshot, stamp: Stamp) -> None:
        self._check_epoch(at, stamp)
        known = self.tables.get(path) or self.left.get(path)
        if known and stamp.action == REPAIRED and stamp.step == self.step - 1 and stamp.epoch > known.epoch:
            self._check_commits(at, self._version_of(at, found, stamp), found.version, self.epochs)
            return
        if not (stamp.step == self.step and stamp.epoch in self.epochs):
            if known is None or stamp > Stamp(known.epoch, known.step, known.action):
                raise SinkError(
                    f"{at}: the table has writes that the ledger does not know: was the ledger restored from a backup? {WAY_OUT}"
                )
            if stamp < Stamp(known.epoch, known.step, known.action):
                raise self._missing(at)
        after = known.version if known else -1
        if found.version < after:
            raise self._missing(at)
        self._check_commits(at, after, found.version, self.epochs)

    def _version_of(self, at: str, found: Snapshot, stamp: Stamp) -> int:
        """The version that the write with this stamp has made."""
        for version in range(found.version, -1, -1):
            commit = next(iter(self.writer.commits(at, version - 1, version)))
            if commit.stamps.get(self.writer.application) == stamp.pack():
                return version
        raise self._missing(at)

    def _missing(self, at: str) -> SinkError:
        return SinkError(
            f"{at}: the table lacks commits that the ledger has: was an older copy put back, or its log cut? {WAY_OUT}"
        )

    def _check_epoch(self, at: str, stamp: Stamp) -> None:
        if stamp.epoch > self.epoch:
            raise FencedError(
                f"{at}: epoch {stamp.epoch} of the pipeline writes this table now; this run is epoch {self.epoch} and stops"
            )

    def _check_commits(self, at: str, after: int, upto: int, epochs: Collection[int]) -> None:
        for commit in self.writer.commits(at, after, upto):
            if not self._may_be(commit, epochs):
                raise SinkError(
                    f"{at}: commit {commit.version} ({commit.operation}) is not the pipeline's and changes the table. {WAY_OUT}"
                )

    def _may_be(self, commit: Commit, epochs: Collection[int]) -> bool:
        number = commit.stamps.get(self.writer.application)
        if number is None:
            return not commit.changes_table
        stamp = Stamp.unpack(number)
        return stamp.step == self.step and stamp.epoch in epochs

    def _check_foreign(self, at: str, found: Snapshot, table: Table | None) -> None:
        if table is None or not self.adopts(f"{table.database}.{table.name}"):
            by = next(
                (name.split(":")[1] for name in sorted(found.applications) if name.startswith("changefeed:")), None
            )
            whose = (
                f" Pipeline {by} wrote it under another ledger: see `changefeed repair` if that was lost." if by else ""
            )
            raise ConfigError(
                f"{at} is a Delta table that this pipeline has not written.{whose} Give the pipeline another sink.path, move "
                "the table away, or name it in sink.adopt to go on with its rows"
            )
        has = {field["name"]: field["type"] for field in json.loads(found.schema)["fields"]}
        wants = self.writer.fields(table)
        if differs := [
            f"{n} ({has.get(n)}, not {wants.get(n)})" for n in {**wants, **has} if has.get(n) != wants.get(n)
        ]:
            raise ConfigError(
                f"{at} cannot be adopted: its columns are not those of {table.database}.{table.name}: {', '.join(differs)}. "
                "Correct the table, or leave it out of sink.adopt and move it away"
            )
