"""The ledger: what has been applied, as a Delta table in the sink.

Theory of operation:

Rule 1. A ledger has one owner, which its table properties name from version 0 on: the pipeline, and an id that no other
ledger has. Both make the *application* under which Delta keeps the pipeline's last write with every table: tables that an
older ledger of the same name has written are not this ledger's.
Rule 2. A run begins by taking the next epoch: it appends a row with a higher stamp than any before. From then on Delta
skips whatever an older run appends (see `sinks/delta/log.py`), and an older run notices when it looks.
Rule 3. Of two runs that append the same epoch at once, Delta keeps one row and skips the other without a word. So every
commit to the ledger carries a random *token* of its run, and counts when the log has it with that token.
Rule 4. A step is two rows. `begun` holds the plan: which writes to which tables, from which folders of the pending store.
`done` holds the state after it. Between the two lie the writes, each stamped with epoch, step and number.
Rule 5. A run that finds `begun` without `done` finishes that very plan. A write is skipped if its table's own stamp says
it is there. The plan names no clock and no batch of Spark's, so finishing it twice gives the same tables.
Rule 6. Nothing else is remembered. Spark's checkpoint is scratch of one run; the next begins where the ledger says.
Rule 7. A plan that needs a path which no table of the state uses is carried out when no expiry is open (`expire.py`).

An older run that is still alive can only be at the step that the newer run finishes first, for beginning another needs
the ledger. Each of its late writes repeats a stamp that is already passed, so Delta skips it or lets it fail.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from changefeed.errors import ConfigError, FencedError, SinkError
from changefeed.pipeline.actions import Plan, paths_of, read_plan, write_plan
from changefeed.pipeline.definition import Definition
from changefeed.pipeline.failpoint import failpoint
from changefeed.pipeline.paths import ledger_folder, tables_folder
from changefeed.pipeline.state import State, read_state, write_state
from changefeed.sinks.base import WriteId
from changefeed.sinks.delta.errors import translated
from changefeed.sinks.delta.log import LogCommit, commits, pack, snapshot
from changefeed.sinks.delta.read import properties, query
from changefeed.spark.files import file_system

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_BEGUN, _DONE, _CLAIMED = "begun", "done", "epoch"
_PATIENCE = 60.0  # seconds that a run waits for folders to be deleted
_NUMBER = {_CLAIMED: 0, _BEGUN: 1, _DONE: 2}
_PIPELINE, _ID = "changefeed.pipeline", "changefeed.ledger"  # properties of the ledger's table
_COLUMNS = {
    "epoch": "bigint",
    "step": "bigint",
    "status": "string",
    "at": "timestamp",
    "commit_ts": "bigint",
    "state": "string",
    "plan": "string",
}


@dataclass(frozen=True, slots=True)
class Cut:
    """One row of the published ledger: versions of all tables that belong together."""

    epoch: int
    step: int
    at: datetime
    state: State


@dataclass(slots=True)
class Ledger:
    """The ledger of one pipeline, as one run holds it.

    Attributes:
        application: what Delta's transaction identifiers call the pipeline; empty until `claim`.
        epoch: of this run; 0 until `claim`.
        step: the last step that is done.
        state: after that step.
        unfinished: a plan that was begun and not done, for this run to finish; its step is `step + 1`.
        begun_by: the epochs that have begun it, or gone on with it: from the first that did to this one. Else empty.
        token: what this run's commits to the ledger carry.
    """

    spark: SparkSession
    path: str
    pipeline: str
    application: str = ""
    epoch: int = 0
    step: int = 0
    state: State = field(default_factory=State)
    unfinished: Plan | None = None
    begun_by: range = range(0)
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def claim(self) -> None:
        """Takes the next epoch and reads what was applied; an older run of the pipeline is fenced off from here on.

        Raises:
            ConfigError: the ledger is another pipeline's.
            FencedError: another run has taken the epoch at the same moment.
            SinkError: the ledger is damaged.
        """
        self._open()
        newest, step = 0, 0
        there = snapshot(self.spark, self.path, self.application)
        if there is not None and there.write_id is not None:
            last = there.write_id  # of the newest row: a step that is only begun is not done
            newest, step = last.epoch, last.step - (last.number == _NUMBER[_BEGUN])
        self.epoch, self.step = newest + 1, step
        failpoint("epoch.before")
        self._append(_CLAIMED, step, None, None)
        failpoint("epoch.after")
        self._load()

    def is_fenced(self) -> bool:
        """Whether a newer run has taken the pipeline over."""
        there = snapshot(self.spark, self.path, self.application)
        return there is not None and there.write_id is not None and there.write_id.epoch > self.epoch

    def begin(self, plan: Plan) -> None:
        """Writes down what the next step will do."""
        failpoint("begun.before")
        self._append(_BEGUN, self.step + 1, None, plan)
        failpoint("begun.after")
        self._wait_for_expiry(plan)

    def finish(self, state: State) -> None:
        """Publishes the state after the next step."""
        failpoint("done.before")
        self._append(_DONE, self.step + 1, state, None)
        failpoint("done.after")
        self.step, self.state, self.unfinished, self.begun_by = self.step + 1, state, None, range(0)

    def _open(self) -> None:
        """Makes the ledger exist, and reads whose it is."""
        there = snapshot(self.spark, self.path)
        if there is None:
            self._create()
            there = snapshot(self.spark, self.path)
        if there is None or there.properties.get(_PIPELINE) != self.pipeline:
            raise foreign(self.path)
        self.application = application_of(there.properties)

    def _create(self) -> None:
        """Version 0 with the owner's name; of two at once the first counts."""
        from py4j.protocol import Py4JJavaError

        jvm: Any = self.spark._jvm
        table = jvm.io.delta.tables.DeltaTable.createIfNotExists(self.spark._jsparkSession).location(self.path)
        for name, kind in _COLUMNS.items():
            table = table.addColumn(name, kind)
        table = table.property(_PIPELINE, self.pipeline).property(_ID, uuid.uuid4().hex[:16])
        try:
            table.execute()
        except Py4JJavaError:
            if snapshot(self.spark, self.path) is None:
                raise

    def _load(self) -> None:
        rows = self._rows()
        for row in rows:
            if row["status"] == _DONE:
                self.step, self.state = row["step"], self._decoded(row, read_state)
        begun = [row for row in rows if row["status"] == _BEGUN and row["step"] == self.step + 1]
        if self.step and not any(row["status"] == _DONE for row in rows):
            raise self._damaged(f"the row of step {self.step} is missing")
        self.unfinished = self._decoded(begun[0], read_plan) if begun else None
        self.begun_by = range(min(row["epoch"] for row in begun), self.epoch + 1) if begun else range(0)
        if self.unfinished is not None:
            self._wait_for_expiry(self.unfinished)

    def _rows(self) -> list[Any]:
        """The rows from the last step that is done on."""
        from pyspark.errors import PySparkException

        try:
            found = self.spark.read.format("delta").load(self.path)
            return found.where(f"step >= {self.step} AND status <> '{_CLAIMED}'").orderBy("step", "epoch").collect()
        except PySparkException as error:
            raise self._damaged(str(error).splitlines()[0]) from error

    def _decoded(self, row: Any, read: Callable[[str], _T]) -> _T:
        try:
            return read(row["state"] if row["status"] == _DONE else row["plan"])
        except msgspec.DecodeError as error:
            raise self._damaged(f"the row of step {row['step']} cannot be read: {error}") from error

    def _damaged(self, why: str) -> SinkError:
        return SinkError(
            f"{self.path}: the ledger is damaged: {why}. Restore it together with the tables and _changefeed/pending, or "
            "delete it and build all tables anew: changefeed repair --rebuild --all"
        )

    def _wait_for_expiry(self, plan: Plan) -> None:
        """Lets `changefeed expire` end before a path is used that the tables do not use; see rule 3 of `expire.py`.

        Raises:
            SinkError: it does not end.
        """
        if paths_of(plan) <= {table.path for table in self.state.tables.values()}:
            return
        folder, files = file_system(self.spark, f"{self.path.rpartition('/')[0]}/expiring")
        until = time.monotonic() + _PATIENCE
        while files.exists(folder) and len(files.listStatus(folder)):
            if time.monotonic() > until:
                raise SinkError(
                    f"{folder}: `changefeed expire` is deleting folders, or died at it. Run it again, and then this",
                    transient=True,
                )
            time.sleep(0.2)

    def _append(self, status: str, step: int, state: State | None, plan: Plan | None) -> None:
        from pyspark.sql import functions as F

        stamp = WriteId(self.epoch, step, _NUMBER[status])
        row = {
            "epoch": self.epoch,
            "step": step,
            "status": status,
            "at": time.time(),
            "commit_ts": state.barrier if state else None,
            "state": write_state(state) if state else None,
            "plan": write_plan(plan) if plan else None,
        }
        with translated(self.path):
            columns = [F.lit(row[name]).cast(kind).alias(name) for name, kind in _COLUMNS.items()]
            writer = self.spark.range(0, 1, 1, 1).select(*columns).write.format("delta").mode("append")
            writer.option("txnAppId", self.application).option("txnVersion", str(pack(stamp)))
            writer.option("userMetadata", self.token).save(self.path)
        self._check_landed(stamp)

    def _check_landed(self, stamp: WriteId) -> None:
        """Asks the log whether the newest row is the one that was just written, by this very run.

        Raises:
            FencedError: it is another run's.
        """
        there = snapshot(self.spark, self.path, self.application)
        found = there.write_id if there else None
        if there is None or found is None or found < stamp:
            raise self._damaged("a commit was answered but is not in its log")
        if found > stamp:
            raise FencedError(
                f"{self.path}: epoch {found.epoch} of pipeline {self.pipeline} has taken over; this run is epoch "
                f"{self.epoch} and stops. Is the same pipeline started twice?"
            )
        if self._commit_of(stamp, there.version).note != self.token:
            raise FencedError(
                f"{self.path}: another run of pipeline {self.pipeline} took epoch {self.epoch} at the same moment; this one "
                "stops. Is the same pipeline started twice?"
            )

    def _commit_of(self, stamp: WriteId, newest: int) -> LogCommit:
        """The commit with the stamp: the newest, unless the ledger was compacted since."""
        for version in range(newest, -1, -1):
            commit = next(commits(self.spark, self.path, version - 1, version))
            if commit.transactions.get(self.application) == pack(stamp):
                return commit
        raise self._damaged(f"no commit has the stamp {stamp}")


def application_of(properties: Mapping[str, str]) -> str:
    """What Delta's transaction identifiers call the pipeline whose ledger has these table properties."""
    return f"changefeed:{properties.get(_PIPELINE)}:{properties.get(_ID)}"


def foreign(path: str) -> ConfigError:
    """The error for a ledger that a pipeline of another name has begun."""
    return ConfigError(
        f"{path} is the ledger of another pipeline: give this one a folder of its own (sink.path), or the name that the other "
        "has (pipeline.name) if it is to go on with its work"
    )


def owner(definition: Definition) -> str | None:
    """What Delta's transaction identifiers call this pipeline; None when it has no ledger yet. Needs no Spark.

    Raises:
        ConfigError: the ledger is another pipeline's.
        MissingExtraError, SinkError: as `cuts`.
    """
    path = ledger_folder(definition)
    found = properties(path)
    if found is None:
        return None
    if found.get(_PIPELINE) != definition.pipeline.name:
        raise foreign(path)
    return application_of(found)


def cuts(path: str) -> list[Cut]:
    """Every published cut, oldest first; none when the pipeline has never run. Needs no Spark.

    Raises:
        MissingExtraError: the package that reads Delta tables without Spark is not installed.
        SinkError: what lies at `path` is no ledger.
    """
    rows = query(path, f"SELECT epoch, step, at, state FROM t WHERE status = '{_DONE}' ORDER BY step")
    return [Cut(r["epoch"], r["step"], r["at"], read_state(r["state"])) for r in rows]


def plans(path: str) -> dict[int, list[Plan]]:
    """Step -> what was begun for it: one plan, or the same one by several epochs. Raises as `cuts`, needs no Spark."""
    found: dict[int, list[Plan]] = {}
    for row in query(path, f"SELECT step, plan FROM t WHERE status = '{_BEGUN}' ORDER BY step"):
        found.setdefault(row["step"], []).append(read_plan(row["plan"]))
    return found


def strangers(definition: Definition, tables: Mapping[str, str]) -> list[str]:
    """Those of the tables that lie in the sink, have not been written by this pipeline and are not to be adopted.

    Needs no Spark.

    Args:
        definition: the pipeline.
        tables: `database.table` -> path below the sink's, of tables that the pipeline is going to write.

    Raises:
        ConfigError, MissingExtraError, SinkError: as `owner`.
    """
    path, known = ledger_folder(definition), set[str]()
    if owner(definition) is not None:
        published = cuts(path)
        known = {written for cut in published[-1:] for written in cut.state.known()}
        known |= {written for begun in plans(path).values() for plan in begun for written in paths_of(plan)}
    root = tables_folder(definition)
    return [
        f"{root}/{below}"
        for name, below in sorted(tables.items())
        if below not in known and not definition.sink.adopts(name) and properties(f"{root}/{below}") is not None
    ]


def epoch(path: str) -> int:
    """The newest epoch; 0 when the pipeline has never run."""
    rows = query(path, "SELECT max(epoch) AS epoch FROM t")
    return int(rows[0]["epoch"]) if rows else 0
