"""Many histories: rounds of them are recorded, judged in other processes, judged again without what stopped them, and reduced.

Everything is in one folder, so that a campaign goes on where it ended, and recorded histories can be judged again by a newer
product without a server:

    histories/h7.json.gz    a history
    verdicts.jsonl          a verdict on each, in the order in which they came
    faults/h7.json.gz       a failing history, reduced
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.live.history import History, Statement
from tests.live.judging import WAYS, WAYS_OF_LOGS
from tests.live.logged import LogRound
from tests.live.recording import Job, Modes, Round, draw_modes
from tests.live.reducing import Reduction
from tests.live.sending import OPTIONS
from tests.live.verdicts import FINAL, Verdict, verdict
from tests.pipeline.kit.faithful import SparkCompute
from tests.services.database import Database, MariaDb, MySql
from tests.services.tidb_parser import TidbParser

SERVERS: dict[str, Callable[..., Database]] = {"mariadb": MariaDb, "mysql": MySql}
FAILED = ("WRONG", "CRASH")
_PER_SEED = 1_000_000
_AGAIN = 4  # how often a history is judged again without what stopped it
_REDUCTIONS = 6  # at a time
_ROUNDS = 25  # of one reduction
_BY_SPARK = 8  # of as many histories, Spark converts the columns of one; those of the others are converted in Arrow
_LOWER_CASE = 5  # every fifth round has `lower_case_table_names=1`

_compute: SparkCompute | None = None


def spark_compute() -> SparkCompute:
    """Spark of this process, which computes rewrites."""
    global _compute
    if _compute is None:
        from changefeed.spark_runtime.session import session

        config = {"spark.ui.enabled": "false", "spark.driver.memory": "512m"}
        _compute = SparkCompute(session("live-histories", master="local[1]", config=config))
    return _compute


def judged(path: str, ways: Sequence[str], parent: str = "", others: Sequence[str] = ()) -> Verdict:
    """The verdict on a recorded history, in other ways, too, if it is not right; runs in a process of its own."""
    history = History.load(Path(path))
    compute = spark_compute() if _chosen(history.name, _BY_SPARK) == 0 else None
    if compute is not None:
        compute.forget()
    its_verdict = verdict(history, compute, ways, parent)
    return its_verdict if its_verdict.verdict == "RIGHT" or not others else verdict(history, compute, others, parent)


def _chosen(name: str, count: int) -> int:
    """One of so many numbers, the same for a history always."""
    return zlib.crc32(name.encode()) // 7 % count


@dataclass(slots=True)
class _Part:
    """A history that is a part of another one: to judge it again, or as an attempt of a reduction."""

    job: Job
    parent: str
    depth: int = 0
    reduction: Reduction | None = None


@dataclass(slots=True)
class Campaign:
    """A campaign; see the head of this file.

    Attributes:
        count: number of histories that are drawn.
        per_round: number of histories of a round.
        all_ways: each history is judged in all ways; else in one of them, in turn, and in all if it is not right in that.
        logs: histories without an engine, whose log is sent by the product's own encoders; MariaDB's as DTS alone, MySQL's as
            TiCDC's protocols, too: then it executes what TiDB's parser accepts.
        progress: called with what is being done.
    """

    server: str
    folder: Path
    count: int
    seed: int = 1
    per_round: int = 40
    processes: int = 1
    all_ways: bool = False
    reduce: bool = True
    logs: bool = False
    progress: Callable[[str], None] = lambda text: None
    verdicts: list[Verdict] = field(default_factory=list)
    _parts: list[_Part] = field(default_factory=list)
    _reductions: list[Reduction] = field(default_factory=list)
    _next_part: int = 0

    def __post_init__(self) -> None:
        (self.folder / "histories").mkdir(parents=True, exist_ok=True)
        (self.folder / "faults").mkdir(exist_ok=True)
        if self._results.exists():
            self.verdicts = [Verdict(**json.loads(line)) for line in self._results.read_text().splitlines()]
        numbers = [int(path.name[1:].partition(".")[0]) for path in self._histories()]
        self._next_part = max([self.seed * _PER_SEED + _PER_SEED // 2, *(number + 1 for number in numbers)])

    @property
    def _results(self) -> Path:
        return self.folder / "verdicts.jsonl"

    def _histories(self) -> list[Path]:
        return sorted((self.folder / "histories").glob("h*.json.gz"))

    def run(self) -> None:
        """Records and judges until all histories have a verdict and all reductions have ended."""
        first = self.seed * _PER_SEED
        recorded = {path.name for path in self._histories()}
        fresh = [n for n in range(first, first + self.count) if f"h{n}.json.gz" not in recorded]
        with ExitStack() as stack:
            pool = stack.enter_context(self._pool())
            judging: list[tuple[_Part | None, Future[Verdict]]] = []
            servers: dict[bool, Database] = {}
            number = len(recorded) // self.per_round
            while fresh or self._parts or self._reductions or judging:
                number += 1
                lower_case = self._is_tidb or (not self.logs and number % _LOWER_CASE == 0 and bool(fresh))
                parts = [] if lower_case and not self.logs else self._parts[: self.per_round]
                self._parts = self._parts[len(parts) :]
                room = self.per_round - len(parts)
                jobs = [*[Job(n) for n in fresh[:room]], *[part.job for part in parts]]
                fresh = fresh[room:]
                if jobs:
                    if lower_case not in servers:
                        option = f"--lower-case-table-names={int(lower_case)}"
                        servers[lower_case] = stack.enter_context(SERVERS[self.server](option))
                    if self.logs:
                        self._record_logs(servers[lower_case], number, jobs, lower_case)
                    else:
                        self._record(servers[lower_case], number, jobs, lower_case)
                by_name = {part.job.name: part for part in parts}
                self._take(judging)
                judging = [(by_name.get(job.name), self._submit(pool, job, by_name.get(job.name))) for job in jobs]
                if not fresh and not self._parts:  # nothing to record beside it
                    self._take(judging)
                    judging = []

    def judge_again(self) -> None:
        """Judges all recorded histories again, by the product as it is now."""
        self.verdicts = []
        self._results.unlink(missing_ok=True)
        with self._pool() as pool:
            futures = [
                pool.submit(judged, str(path), self._ways(path.name), "", self._all_ways) for path in self._histories()
            ]
            for number, future in enumerate(futures):
                self._add(future.result())
                self.progress(f"{number + 1} of {len(futures)}: {self.summary()}")

    def _ways(self, name: str) -> Sequence[str]:
        ways, chosen = self._all_ways, zlib.crc32(name.encode())
        if self.all_ways:
            return ways
        return ways[chosen % 3 :: 3] if self.logs else (ways[chosen % len(ways)],)  # of a log, each protocol in one way

    @property
    def _all_ways(self) -> Sequence[str]:
        if not self.logs:
            return WAYS
        return WAYS_OF_LOGS if self._is_tidb else [way for way in WAYS_OF_LOGS if way.startswith("tencent-dts")]

    @property
    def _is_tidb(self) -> bool:
        return self.logs and self.server == "mysql"

    def _pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self.processes, mp_context=multiprocessing.get_context("spawn"))

    def _record_logs(self, database: Database, number: int, jobs: Sequence[Job], lower_case: bool) -> None:
        began = time.monotonic()
        with ExitStack() as stack:
            parser = stack.enter_context(TidbParser()) if self._is_tidb else None
            for history in LogRound(database, parser, lower_case=lower_case).record(jobs):
                history.save(self._path(history.name))
        seconds = time.monotonic() - began
        self.progress(f"round {number}: {len(jobs)} histories in {seconds:.0f} s; {self.summary()}")

    def _record(self, database: Database, number: int, jobs: Sequence[Job], lower_case: bool) -> None:
        modes = self._modes(number, jobs)
        began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="cf-engine-"))
        recording = Round(database, modes, folder / "engine", lower_case=lower_case, progress=self.progress)
        try:
            histories = recording.record(jobs)
            shutil.rmtree(folder)
        except RuntimeError as error:  # the folder stays, with the engine's log
            self.progress(f"round {number} is lost: {error}")
            histories = [History(job.name, self.server, str(modes), lower_case, died=str(error)) for job in jobs]
        for history in histories:
            history.save(self._path(history.name))
        self.progress(
            f"round {number}: {len(jobs)} histories in {time.monotonic() - began:.0f} s ({modes}); {self.summary()}"
        )

    def _modes(self, number: int, jobs: Sequence[Job]) -> Modes:
        """Modes by chance; a round with parts of histories has simple ones, in which most faults show as well."""
        if any(job.statements is not None for job in jobs):
            return Modes("streamed", ("none", "none"), True, False)
        return draw_modes(Random(f"{self.seed} {number}"), self.server)

    def _path(self, name: str) -> Path:
        return self.folder / "histories" / f"{name}.json.gz"

    def _submit(self, pool: ProcessPoolExecutor, job: Job, part: _Part | None) -> Future[Verdict]:
        path, parent = str(self._path(job.name)), part.parent if part else ""
        if part is not None and part.reduction is not None:
            return pool.submit(judged, path, [part.reduction.verdict.way], parent)
        return pool.submit(judged, path, self._ways(job.name), parent, self._all_ways)

    def _take(self, judging: Iterable[tuple[_Part | None, Future[Verdict]]]) -> None:
        """Takes the verdicts of a round: what follows from each is recorded in the next one."""
        for part, future in judging:
            its_verdict = future.result()
            path = self._path(its_verdict.history)
            if part is not None and part.reduction is not None:
                part.reduction.results.append((History.load(path), its_verdict))
                path.unlink()
                continue
            self._add(its_verdict)
            self._follow_up(its_verdict, part)
        for reduction in list(self._reductions):
            if reduction.is_waiting:  # some of its attempts are in the next round
                continue
            reduction.take()
            if reduction.ended or reduction.rounds >= _ROUNDS:
                self._reductions.remove(reduction)
                self._save_fault(reduction)
            else:
                self._parts += [self._part(s, reduction.history, reduction=reduction) for s in reduction.attempts()]

    def _follow_up(self, its_verdict: Verdict, part: _Part | None) -> None:
        """Judges a history again without what stopped it, and reduces what is wrong."""
        depth = part.depth if part else 0
        if its_verdict.verdict in FINAL:
            return
        history = History.load(self._path(its_verdict.history))
        if its_verdict.verdict in FAILED and self.reduce and len(self._reductions) < _REDUCTIONS:
            self._reductions.append(Reduction(history, its_verdict))
            return
        if its_verdict.cause is not None and depth < _AGAIN:
            left = [s for number, s in enumerate(history.executed) if number != its_verdict.cause]
            self._parts.append(self._part(left, history, depth + 1))

    def _part(
        self, statements: list[Statement], history: History, depth: int = 0, reduction: Reduction | None = None
    ) -> _Part:
        self._next_part += 1
        return _Part(Job(self._next_part, statements, history.name), history.name, depth, reduction)

    def _save_fault(self, reduction: Reduction) -> None:
        history, its_verdict = reduction.best
        history.save(self.folder / "faults" / f"{reduction.verdict.history}.json.gz")
        text = [f"-- {reduction.verdict.history}, {its_verdict.way}: {its_verdict.verdict}: {its_verdict.text}", ""]
        text += [f"{statement.text};" for statement in history.executed]
        (self.folder / "faults" / f"{reduction.verdict.history}.sql").write_text("\n".join(text) + "\n")
        self.progress(f"reduced {reduction.verdict.history} to {len(history.executed)} statements")

    def _add(self, its_verdict: Verdict) -> None:
        self.verdicts.append(its_verdict)
        with self._results.open("a") as out:
            out.write(json.dumps(its_verdict.to_dict(), ensure_ascii=False) + "\n")

    @property
    def failed(self) -> bool:
        """Whether a history was wrong, or has shown a defect."""
        return any(v.verdict in FAILED for v in self.verdicts)

    def summary(self) -> str:
        """The verdicts in one line."""
        counts = Counter(v.verdict for v in self.verdicts)
        return ", ".join(
            f"{name} {counts[name]}"
            for name in ("RIGHT", "DRIFT", "KEPT", "STOP", "WRONG", "CRASH", "LOST" if self.logs else "ENGINE")
        )

    def _of_protocols(self) -> Iterator[str]:
        """The outcomes of each protocol, as lines of text."""
        outcomes = Counter((way.partition(",")[0], one) for v in self.verdicts for way, one in v.ways.items())
        for name in OPTIONS:
            of_one = ", ".join(f"{outcome} {count}" for (of, outcome), count in sorted(outcomes.items()) if of == name)
            yield f"{name:14}  {of_one}"

    def table(self) -> list[str]:
        """The verdicts by kind, as lines of text."""
        kinds: dict[str, Counter[str]] = {}
        examples: dict[tuple[str, str], str] = {}
        for v in self.verdicts:
            if v.verdict not in ("RIGHT", "DRIFT"):
                kinds.setdefault(v.verdict, Counter())[v.kind] += 1
                examples.setdefault((v.verdict, v.kind), v.history)
        lines = [self.summary(), *(self._of_protocols() if self.logs else ())]
        for name, counts in sorted(kinds.items()):
            lines += [f"{name:6} {count:5}  {kind}  ({examples[name, kind]})" for kind, count in counts.most_common()]
        return lines
