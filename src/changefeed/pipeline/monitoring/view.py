"""A run at one moment: the one value that its line, its heartbeat, its metrics and `status` show.

`RunView` is an observer of a run. It makes a `RunNow` whenever it is asked, from any thread.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from changefeed import __version__
from changefeed.pipeline.monitoring.phases import Phases
from changefeed.pipeline.state import State
from changefeed.redaction import redact
from changefeed.sources import Backlog

FORMAT = 1
STOPPED = "stopped"
ASKING, READING = "asking the source", "reading and decoding"  # stages in which the source must answer
RETRYING = "waiting to try again"

_STEPS_KEPT = 60  # whose phases a heartbeat has


class Failure(msgspec.Struct, frozen=True):
    """An error, or a source that does not answer: since when, and why."""

    since: datetime
    reason: str


class RunNow(msgspec.Struct, frozen=True, kw_only=True):
    """A run at one moment: its stage, and its work so far.

    Attributes:
        pipeline, epoch: the pipeline's name, and the number of the run.
        kind: `tables`, or `events` for a run that appends to an event sink.
        host, pid: the machine and the process of the driver.
        started, at: when the run began, and the moment.
        every: seconds between two heartbeats.
        ended: whether the run is over, by itself or by an error.
        stage: its stage, for people, since `stage_since`.
        steps, applied, schema_changes: steps, row changes and schema changes that the run has completed.
        read, left: records that the run has read, and that are left to read; `left` is None if that is not known.
        behind: topic -> partition -> records left to read, where the source counts them by partition.
        left_at: when the source was last asked what is left.
        read_bytes, left_bytes: the same in bytes of a log, since `busy` was `bytes_begun`; None if the source counts records.
        barrier: commit_ts of the newest cut; None before the first.
        barrier_since: when it was published, or when something came that waits for the next one; None if that was before the
            run.
        busy: seconds without waits for more to read, or for a retry.
        rows_per_second: of the last step that applied rows, without the first, which includes the start of Spark; None while
            the run waits.
        retries: retries so far.
        error: the last error; None if there was none.
        source_answered: whether the source has answered this run once.
        source_down: the source does not answer at this moment; None if it does.
        phases: phase of a step -> seconds.
        step_phases: number of a step -> phase -> seconds, of the newest steps of the run, without waits; what comes after a
            step's cut counts for the next one.
    """

    format: int = FORMAT
    version: str = __version__
    pipeline: str
    kind: Literal["tables", "events"] = "tables"
    epoch: int = 0
    host: str
    pid: int
    started: datetime
    at: datetime
    every: float
    ended: bool = False
    stage: str
    stage_since: datetime
    steps: int = 0
    applied: int = 0
    schema_changes: int = 0
    read: int = 0
    left: int | None = None
    behind: dict[str, dict[int, int]] = {}
    left_at: datetime | None = None
    read_bytes: int = 0
    left_bytes: int | None = None
    bytes_begun: float = 0.0
    barrier: int | None = None
    barrier_since: datetime | None = None
    busy: float = 0.0
    rows_per_second: float | None = None
    retries: int = 0
    error: Failure | None = None
    source_answered: bool = False
    source_down: Failure | None = None
    phases: dict[str, float] = {}
    step_phases: dict[int, dict[str, float]] = {}

    @property
    def backlog(self) -> Backlog | None:
        """The records or bytes that the source had behind the last batch."""
        if self.left is None and self.left_bytes is None:
            return None
        partitions = {(topic, p): n for topic, of in self.behind.items() for p, n in of.items()}
        return Backlog(self.left, partitions, self.left_bytes, self.left_at)

    @property
    def mean_rows_per_second(self) -> float | None:
        """Row changes a second since the run began, without waits; None before the first."""
        return self.applied / self.busy if self.applied and self.busy else None

    @property
    def seconds_left(self) -> float | None:
        """The time until everything is read, at the speed of the run so far; None if that is not known."""
        done, total = self.done_of
        busy = self.busy - (self.bytes_begun if self.left_bytes is not None else 0.0)
        return None if total is None or not done or busy <= 0 else (total - done) / done * busy

    @property
    def done_of(self) -> tuple[int, int | None]:
        """The records or bytes that the run has read, and their total at the end; the total is None if it is not known."""
        if self.left_bytes is not None:
            return self.read_bytes, self.read_bytes + self.left_bytes
        return self.read, None if self.left is None else self.read + self.left

    def is_alive(self, now: datetime) -> bool:
        """Whether there was a heartbeat of the run in the time of three."""
        return not self.ended and (now - self.at).total_seconds() < 3 * self.every + 1


@dataclass(slots=True)
class Tally:
    """The work of a run so far, by kind.

    Attributes:
        writes: kind of write -> number of commits.
        files, bytes: data files that were added, where the sink counts them.
        schema_changes: kind of schema change -> number of them.
        dead: reason -> number of dead letters.
    """

    writes: Counter[str] = field(default_factory=Counter)
    files: int = 0
    bytes: int = 0
    schema_changes: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)

    def wrote(self, kind: str, files: int | None, size: int | None) -> None:
        """Counts a commit."""
        self.writes[kind] += 1
        self.files += files or 0
        self.bytes += size or 0


def _waits(state: State) -> bool:
    return state.counts.pending > 0 or bool(state.held) or state.incomplete is not None


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class RunView:
    """An observer that keeps a run's newest `RunNow`.

    Attributes:
        pipeline: the pipeline's name.
        every: seconds between two heartbeats.
        clock: returns the time.
        state: the newest state of the ledger that the run has seen; None before the first.
        tally: what the run has done so far, by kind.
        kind: see `RunNow`.
    """

    pipeline: str
    every: float
    clock: Callable[[], datetime] = _utc_now
    state: State | None = None
    tally: Tally = field(default_factory=Tally)
    phases: Phases = field(default_factory=Phases)
    kind: Literal["tables", "events"] = "tables"
    _now: RunNow = field(init=False)
    _before: State | None = None
    _step: tuple[int, float] | None = None  # rows and busy seconds at the last step that applied rows
    _earlier: dict[str, float] = field(default_factory=dict)  # seconds of the phases at the last step
    _planned: Counter[str] = field(default_factory=Counter)  # schema changes of the step that is under way
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        time = self.clock()
        self._now = RunNow(
            pipeline=self.pipeline, kind=self.kind, host=socket.gethostname(), pid=os.getpid(), started=time, at=time,
            every=self.every, stage="starting", stage_since=time,
        )  # fmt: skip

    def now(self) -> RunNow:
        """Returns the run at this moment."""
        with self._lock:
            phases = self.phases.so_far()
            busy = sum(seconds for name, seconds in phases.items() if name != "idle")
            return msgspec.structs.replace(self._now, at=self.clock(), phases=phases, busy=busy)

    def source_answers(self, since: datetime, reason: str | None) -> None:
        """Notes why the source has not answered in the stage that began at `since`; `reason` is None if it does answer."""
        with self._lock:
            if self._now.stage_since != since:
                return
            self.phases.source_answers(reason is None)
            if (reason is None) != (self._now.source_down is None):
                self._set(source_down=None if reason is None else Failure(since, redact(reason)))

    def __call__(self, name: str, facts: Mapping[str, Any]) -> None:
        """Takes in what the run passes."""
        self.phases(name, facts)
        with self._lock:
            match name:
                case "run.begun":
                    self._before = self._before or facts["state"]
                    self._set(epoch=facts["epoch"])
                    self._take(facts["state"])
                    self._at_stage("finishing what was pending")
                case "read.before":
                    self._at_stage(ASKING)
                case "read.after":
                    self._set_backlog(facts["backlog"])
                    self._set(source_answered=True, source_down=None)
                    self._at_stage(READING)
                case "batch.read":
                    assert self._before is not None
                    self._set(read=facts["records"] - self._before.counts.records, source_down=None)
                    self._at_stage("planning")
                case "stream.read":
                    self._set(read=self._now.read + facts["rows"], source_down=None)
                    self._planned = facts["schema_changes"]
                    self._set_backlog(facts["backlog"])
                    self._at_stage("appending 1 row" if facts["rows"] == 1 else f"appending {facts['rows']:,} rows")
                case "planned":
                    self._planned = facts["schema_changes"]
                    self._at_stage(f"writing {facts['tables']} tables" if facts["tables"] != 1 else "writing 1 table")
                case "letters.after":
                    self.tally.dead.update(facts.get("reasons", ()))
                case "done.after":
                    self.tally.schema_changes.update(self._planned)
                    self._planned = Counter()
                case "done.before":
                    self._at_stage("publishing the cut")
                case "step":
                    self._set(steps=self._now.steps + 1)
                    self._keep_phases(facts.get("step"))
                    self._take(facts["state"])
                case "wait.before":
                    self._set(rows_per_second=None)
                    self._at_stage(facts["why"])
                case "retry":
                    self._set(retries=self._now.retries + 1, error=Failure(self.clock(), redact(str(facts["error"]))))
                case "run.ended":
                    error = facts["error"]
                    if error is not None:
                        self._set(error=Failure(self.clock(), redact(str(error))))
                    self._set(ended=True)
                    self._at_stage("stopped by an error" if error is not None else STOPPED)
                case _ if "write" in facts:
                    self.tally.wrote(facts["write"], facts["files"], facts["bytes"])

    def _keep_phases(self, step: int | None) -> None:
        """Keeps the seconds of each phase since the last step."""
        seconds, earlier = self.phases.so_far(), self._earlier
        self._earlier = seconds
        if step is None:
            return
        since = {name: round(value - earlier.get(name, 0.0), 3) for name, value in seconds.items() if name != "idle"}
        step_phases = {**self._now.step_phases, step: {name: value for name, value in since.items() if value > 0}}
        self._set(step_phases=dict(list(step_phases.items())[-_STEPS_KEPT:]))

    def _at_stage(self, stage: str) -> None:
        if stage != self._now.stage:
            self._set(stage=stage, stage_since=self.clock())

    def _set_backlog(self, backlog: Backlog | None) -> None:
        behind: dict[str, dict[int, int]] = {}
        for (topic, partition), records in (backlog.partitions if backlog is not None else {}).items():
            behind.setdefault(topic, {})[partition] = records
        if backlog is not None and backlog.records == 0 and not behind:  # nothing is left, in the unit of before
            behind = {topic: dict.fromkeys(of, 0) for topic, of in self._now.behind.items()}
            backlog = Backlog(0) if self._now.left_bytes is None else Backlog(None, bytes=0)
        self._set(left=None if backlog is None else backlog.records, behind=behind, left_at=self.clock())
        self._set_left_bytes(None if backlog is None else backlog.bytes)

    def _set_left_bytes(self, size: int | None) -> None:
        """Counts the bytes that have been read since the log's size is known."""
        before = self._now.left_bytes
        if size is not None and before is None:
            self._set(read_bytes=0, bytes_begun=self.now().busy)
        elif size is not None and before is not None:
            self._set(read_bytes=self._now.read_bytes + max(0, before - size))
        self._set(left_bytes=size)

    def _take(self, state: State) -> None:
        """Takes in the state after a step, or at the beginning of a run."""
        before = self.state
        if before is not None and (before.barrier != state.barrier or (_waits(state) and not _waits(before))):
            self._set(barrier_since=self.clock())
        self.state = state
        assert self._before is not None
        applied = state.counts.applied - self._before.counts.applied
        changes = state.counts.schema_changes - self._before.counts.schema_changes
        if applied > (self._step[0] if self._step else 0):
            spent = sum(seconds for name, seconds in self.phases.so_far().items() if name != "idle")
            if self._step is not None:
                rows, busy = self._step
                self._set(rows_per_second=(applied - rows) / max(spent - busy, 0.001))
            self._step = applied, spent
        self._set(applied=applied, schema_changes=changes, barrier=state.barrier)

    def _set(self, **changed: Any) -> None:
        self._now = msgspec.structs.replace(self._now, **changed)
