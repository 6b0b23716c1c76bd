"""The ledger: what has been applied, as a Delta table in the sink.

Theory of operation:

Rule 1. A run begins by taking the next epoch: it appends a row with a higher stamp than any before. From then on Delta
skips whatever an older run appends (see `sinks/delta/log.py`), and an older run notices when it looks.
Rule 2. A step is two rows. `begun` holds the plan: which writes to which tables, from which folders of the pending store.
`done` holds the state after it. Between the two lie the writes, each stamped with epoch, step and number.
Rule 3. A run that finds `begun` without `done` finishes that very plan. A write is skipped if its table's own stamp says
it is there. The plan names no clock and no batch of Spark's, so finishing it twice gives the same tables.
Rule 4. Nothing else is remembered. Spark's checkpoint is scratch of one run; the next begins where the ledger says.
Rule 5. A plan that needs a path which no table of the state uses is carried out when no expiry is open (`expire.py`).

An older run that is still alive can only be at the step that the newer run finishes first, for beginning another needs
the ledger. Each of its late writes repeats a stamp that is already passed, so Delta skips it or lets it fail.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from changefeed.errors import ConfigError, FencedError, SinkError
from changefeed.pipeline.actions import Plan, paths_of, read_plan, write_plan
from changefeed.pipeline.definition import Definition
from changefeed.pipeline.failpoint import failpoint
from changefeed.pipeline.paths import application, own_folder
from changefeed.pipeline.state import State, read_state, write_state
from changefeed.sinks.delta.log import Stamp, snapshot
from changefeed.sinks.delta.read import query, wrote
from changefeed.sinks.delta.table import translated
from changefeed.spark.files import file_system

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BEGUN, _DONE, _CLAIMED = "begun", "done", "epoch"
_PATIENCE = 60.0  # seconds that a run waits for folders to be deleted
_NUMBER = {_CLAIMED: 0, _BEGUN: 1, _DONE: 2}


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
        epoch: of this run; 0 until `claim`.
        step: the last step that is done.
        state: after that step.
        unfinished: a plan that was begun and not done, for this run to finish; its step is `step + 1`.
    """

    spark: SparkSession
    path: str
    application: str
    epoch: int = 0
    step: int = 0
    state: State = field(default_factory=State)
    unfinished: Plan | None = None

    def claim(self) -> None:
        """Takes the next epoch and reads what was applied; an older run of the pipeline is fenced off from here on.

        Raises:
            ConfigError: the ledger is another pipeline's.
        """
        newest, step = 0, 0
        there = snapshot(self.spark, self.path, self.application)
        if there is not None:
            if there.stamp is None:
                raise foreign(self.path)
            last = there.stamp  # of the newest row: a step that is only begun is not done
            newest, step = last.epoch, last.step - (last.action == _NUMBER[_BEGUN])
        self.epoch, self.step = newest + 1, step
        failpoint("epoch.before")
        self._append(_CLAIMED, step, None, None)
        failpoint("epoch.after")
        self._load()

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
        self.step, self.state, self.unfinished = self.step + 1, state, None

    def _load(self) -> None:
        rows = self._rows().where(f"step >= {self.step} AND status <> '{_CLAIMED}'").orderBy("step", "epoch").collect()
        for row in rows:
            if row["status"] == _DONE:
                self.step, self.state = row["step"], read_state(row["state"])
        begun = [row for row in rows if row["status"] == _BEGUN and row["step"] == self.step + 1]
        self.unfinished = read_plan(begun[0]["plan"]) if begun else None
        if self.unfinished is not None:
            self._wait_for_expiry(self.unfinished)

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

        stamp = Stamp(self.epoch, step, _NUMBER[status])
        row = {
            "epoch": F.lit(self.epoch).cast("bigint"),
            "step": F.lit(step).cast("bigint"),
            "status": F.lit(status),
            "at": F.lit(time.time()).cast("timestamp"),
            "commit_ts": F.lit(state.barrier if state else None).cast("bigint"),
            "state": F.lit(write_state(state) if state else None).cast("string"),
            "plan": F.lit(write_plan(plan) if plan else None).cast("string"),
        }
        with translated(self.path):
            one = self.spark.range(0, 1, 1, 1).select(*[value.alias(name) for name, value in row.items()])
            writer = one.write.format("delta").mode("append").option("txnAppId", self.application)
            writer.option("txnVersion", str(stamp.pack())).save(self.path)
        found = snapshot(self.spark, self.path, self.application)
        if found is None or found.stamp != stamp:
            newer = found.stamp.epoch if found and found.stamp else "?"
            raise FencedError(
                f"{self.path}: epoch {newer} of pipeline {self.application} has taken over; this run is epoch {self.epoch} "
                "and stops. Is the same pipeline started twice?"
            )

    def _rows(self) -> Any:
        return self.spark.read.format("delta").load(self.path)


def foreign(path: str) -> ConfigError:
    """The error for a ledger that a pipeline of another name has begun."""
    return ConfigError(
        f"{path} is the ledger of another pipeline: give this one a folder of its own (sink.path), or the name that the other "
        "has (pipeline.name) if it is to go on with its work"
    )


def check_owner(definition: Definition) -> None:
    """Refuses the ledger of a pipeline of another name. Needs no Spark.

    Raises:
        ConfigError: it is another pipeline's.
        MissingExtraError, SinkError: as `cuts`.
    """
    path = f"{own_folder(definition)}/ledger"
    if wrote(path, application(definition)) is False:
        raise foreign(path)


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


def epoch(path: str) -> int:
    """The newest epoch; 0 when the pipeline has never run."""
    rows = query(path, "SELECT max(epoch) AS epoch FROM t")
    return int(rows[0]["epoch"]) if rows else 0
