"""Runs of a pipeline killed at random moments, over random histories, until every log is applied; then every cut is read.

    python bench/kills.py [--kills 300] [--minutes 120] [--seed 1] [--pipelines 1] [--kinds driver,zombie]
                          [--sink delta|iceberg] [--s3] [--share 0.01] [--out FILE]

A history (`tests/pipeline/kit/random_log.py`: tables with keys and without, DDL, transactions over tables, rows that change
their keys) is read in small batches by `changefeed run`, a process with a JVM and Python workers of its own. Each run is
ended at a chance moment after a chance commit to its ledger:

    term       SIGTERM to the command line
    driver     SIGKILL to the command line; its JVM finds out by itself, while the next run starts
    jvm        SIGKILL to Java
    worker     SIGKILL to a Python worker; a run that gets over it goes on
    all        SIGKILL to all processes at once
    zombie     SIGSTOP to all, another run of the pipeline takes over, SIGCONT while it works, when it has ended or was killed

When a run has come to its end, each cut that the ledger published is read by a reader that is not Spark, and compared with
the history's exact state at its commit_ts. With `--s3` the tables and the pipeline's own files are in a bucket of moto's
server, behind a proxy that loses, refuses or cuts off `--share` of the requests. One seed makes the same histories and
intentions; moments are the machine's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.memory import tree
from changefeed.errors import ChangefeedError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.paths import ledger_folder
from changefeed.pipeline.store.hadoop import folder_to_read
from changefeed.pipeline.store.reading import FileReader
from changefeed.storage.section import StorageSection
from tests.pipeline.kit.in_bucket import disturbed_server, into_bucket
from tests.pipeline.kit.random_log import Faults, RandomLog, random_log
from tests.pipeline.kit.running import definition

KINDS = ("term", "driver", "jvm", "worker", "all", "zombie")
PATIENCE = 300.0  # seconds for a run to come to its end by itself
LIMIT = 8  # records in a batch
JAVA = "-XX:TieredStopAtLevel=1"


@dataclass
class Kill:
    """One kill: what was meant, and what it met."""

    seed: int
    history: int
    consistency: str
    kind: str
    commits: int
    delay: float
    phase: str = ""
    exit: int | None = None
    outcome: str = ""

    def line(self, number: int) -> str:
        """The kill as a line of the results file."""
        when = f"{self.delay:.2f} s after ledger commit {self.commits} of the run"
        return (
            f"{number:4}  seed {self.seed} history {self.history} {self.consistency:11}  {self.kind:7} {when}  "
            f"left {self.phase:12} exit {self.exit}  {self.outcome}"
        )


@dataclass
class Pipeline:
    """One history, its pipeline in a folder, and the processes that run it."""

    folder: Path
    log: RandomLog
    consistency: str
    java: str
    sink: str = "delta"
    storage: StorageSection | None = None
    runs: int = 0
    errors: dict[int, Path] = field(default_factory=dict)  # pid -> the run's stderr

    @property
    def definition(self) -> Definition:
        """The definition, as the command line reads it."""
        made = definition(
            self.log.path, self.folder / "lake", limit=LIMIT, sink=self.sink, consistency=self.consistency
        )
        return made if self.storage is None else into_bucket(made, self._url, self.storage)

    @property
    def _url(self) -> str:
        return f"s3://lake/{self.folder.name}"

    def start(self) -> subprocess.Popen[str]:
        """A run of the command line, in a group of its own."""
        content = {
            "source": {"type": "files", "path": "log.jsonl", "protocol": "ticdc-open", "max-records-per-batch": LIMIT},
            "sink": {"type": self.sink, "path": "lake" if self.storage is None else self._url},
            "pipeline": {"name": "test", "consistency": self.consistency},
            "spark": {"spark.driver.memory": "640m", "spark.driver.extraJavaOptions": self.java},
        }
        if self.storage is not None:
            content["storage"] = self.storage.model_dump(by_alias=True, exclude_none=True)
        file = self.folder / "pipeline.yaml"
        file.write_text(json.dumps(content))  # JSON is YAML
        command = [sys.executable, "-m", "changefeed.cli", "run", str(file), "--once", "--json"]
        self.runs += 1
        errors = self.folder / f"errors-{self.runs}.txt"
        with (self.folder / "output.txt").open("a") as out, errors.open("w") as err:
            process = subprocess.Popen(command, stdout=out, stderr=err, text=True, start_new_session=True)
        self.errors[process.pid] = errors
        return process

    def last_words(self, process: subprocess.Popen[str]) -> str:
        """The last line that a run wrote to stderr."""
        lines = self.errors[process.pid].read_text(errors="replace").strip().splitlines()
        return lines[-1][:160] if lines else ""

    def commits(self) -> int:
        """Entries of the ledger so far: the number of the newest."""
        return max(self._reader().numbers(), default=0)

    def phase(self) -> str:
        """The pipeline's phase, from the ledger."""
        try:
            reader = self._reader()
            head = reader.steady(reader.head)
        except ChangefeedError as error:
            return f"? {error}"
        return f"{head[0].status} {head[0].step}" if head else "nothing"

    def _reader(self) -> FileReader:
        folder = folder_to_read(ledger_folder(self.definition), self.definition.storage, self.definition.spark)
        return FileReader(folder, self.definition.pipeline.name)

    def wait_for(self, process: subprocess.Popen[str], commits: int) -> bool:
        """Waits until the ledger has so many commits; False when the run has ended before."""
        until = time.monotonic() + PATIENCE
        while process.poll() is None and self.commits() < commits and time.monotonic() < until:
            time.sleep(0.02)
        return process.poll() is None


@dataclass(frozen=True)
class Process:
    """One of a run's processes. A process id may be reused: `born` distinguishes processes with the same id."""

    pid: int
    what: str
    born: str

    def send(self, number: signal.Signals) -> None:
        """Sends a signal, if the process still is."""
        if born(self.pid) == self.born:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def born(pid: int) -> str | None:
    """When a process was started, in the kernel's ticks."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def processes(root: int) -> list[Process]:
    """The run and its descendants, each a `driver`, `jvm` or `worker`."""
    result = []
    for pid in tree(root):
        with suppress(OSError):
            name, when = Path(f"/proc/{pid}/comm").read_text().strip(), born(pid)
            what = "driver" if pid == root else "jvm" if name == "java" else "worker"
            result.append(Process(pid, what, when or ""))
    return result


def send(targets: list[Process], number: signal.Signals) -> None:
    """Sends a signal to all of them."""
    for process in targets:
        process.send(number)


def chosen(kind: str, there: list[Process], chance: random.Random) -> list[Process]:
    """The processes that a kill of this kind ends."""
    if kind in ("all", "zombie"):
        return there
    candidates = [process for process in there if process.what == ("driver" if kind == "term" else kind)]
    return [chance.choice(candidates)] if candidates else there


def one_kill(pipeline: Pipeline, kill: Kill, chance: random.Random) -> bool:
    """Starts a run and kills it as meant; False when it came to its end before."""
    run = pipeline.start()
    if not pipeline.wait_for(run, pipeline.commits() + kill.commits):
        kill.exit = run.returncode
        return False
    time.sleep(kill.delay)
    there = processes(run.pid)
    if run.poll() is not None:
        kill.exit = run.returncode
        return False
    if kill.kind == "zombie":
        _taken_over(pipeline, kill, there, chance)
    else:
        send(chosen(kill.kind, there, chance), signal.SIGTERM if kill.kind == "term" else signal.SIGKILL)
    ended = waited(run)
    kill.phase, kill.exit = pipeline.phase(), run.returncode
    kill.outcome += "" if ended else "hung, and ended by the harness; "
    kill.outcome += pipeline.last_words(run) if kill.kind in ("jvm", "worker", "zombie") else ""
    # a JVM whose driver is gone finds out by itself, while the next run starts
    threading.Thread(target=_end_later, args=(there,), daemon=True).start()
    return True


def waited(run: subprocess.Popen[str]) -> bool:
    """Waits for the run to end by itself; ends it and answers False when it does not."""
    try:
        run.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        send(processes(run.pid), signal.SIGKILL)
        run.wait()
        return False
    return True


def _taken_over(pipeline: Pipeline, kill: Kill, older: list[Process], chance: random.Random) -> None:
    """Stops the run, lets another take over, and lets the older go on while it works or when it has ended."""
    send(older, signal.SIGSTOP)
    newer, moment = pipeline.start(), chance.choice(["in the middle", "after the end", "after the death"])
    if moment == "after the end":
        waited(newer)
    else:
        pipeline.wait_for(newer, pipeline.commits() + chance.randint(1, 4))
        time.sleep(chance.random())
        if moment == "after the death":
            send(processes(newer.pid), signal.SIGKILL)
    send(older, signal.SIGCONT)
    waited(newer)
    kill.outcome = f"went on {moment} of the newer run, exit {newer.returncode}; "


def _end_later(left: list[Process]) -> None:
    time.sleep(20)
    send(left, signal.SIGKILL)


@dataclass
class Campaign:
    """All kills, and what was found when the logs were applied."""

    seed: int
    wanted: int
    until: float
    out: IO[str]
    kinds: Sequence[str] = KINDS
    sink: str = "delta"
    storage: StorageSection | None = None
    kills: list[Kill] = field(default_factory=list)
    faults: list[tuple[int, Faults]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def over(self) -> bool:
        """Whether there were kills enough, or time."""
        return len(self.kills) >= self.wanted or time.monotonic() > self.until

    def history(self, number: int, folder: Path, java: str) -> None:
        """Kills runs over one history until it is applied, and reads every cut."""
        chance = random.Random(self.seed * 1000 + number)
        consistency = ("transaction", "key")[number % 2]
        folder.mkdir(parents=True)
        log = random_log(folder / "log.jsonl", chance.randrange(2**32), 45, moves=consistency == "transaction")
        pipeline, failed = Pipeline(folder, log, consistency, java, self.sink, self.storage), 0
        while not self.over() and failed < 3:
            commits, delay = chance.choice([1, 2, 2, 3, 3, 4, 5, 6]), chance.uniform(0, 1.5)
            kill = Kill(self.seed, number, consistency, chance.choice(self.kinds), commits, delay)
            if one_kill(pipeline, kill, chance):
                self._record(kill)
            elif kill.exit == 0:
                break
            else:
                failed += 1
        self._finish(pipeline, number)

    def _record(self, kill: Kill) -> None:
        with self.lock:
            self.kills.append(kill)
            print(kill.line(len(self.kills)), file=self.out, flush=True)

    def _finish(self, pipeline: Pipeline, number: int) -> None:
        code, words = None, ""
        for _ in range(3):  # a Spark that was short of time or of memory may need another try
            run = pipeline.start()
            waited(run)
            code, words = run.returncode, pipeline.last_words(run)
            if code == 0:
                break
        with self.lock:
            if code != 0:
                self.errors.append(f"history {number} does not come to its end: exit {code}: {words}")
                print("     ", self.errors[-1], file=self.out, flush=True)
                return
            try:
                faults = pipeline.log.faults(pipeline.definition)
            except Exception as error:
                faults = Faults()
                faults.wrong(f"a cut cannot be read: {error}")
            self.faults.append((number, faults))
            result = f"{faults.cuts} cuts, {faults.tables} tables: {faults.lost} lost, {faults.doubled} doubled, "
            result += f"{faults.torn} torn"
            print(
                f"      history {number} is applied: {result}",
                *faults.words[:3],
                sep="\n      ",
                file=self.out,
                flush=True,
            )
            if not faults.words:
                shutil.rmtree(pipeline.folder, ignore_errors=True)

    def summary(self) -> str:
        """The counts of all kills, in one line."""
        kinds = {kind: sum(kill.kind == kind for kill in self.kills) for kind in KINDS}
        sums = {
            name: sum(getattr(f, name) for _, f in self.faults)
            for name in ("cuts", "tables", "lost", "doubled", "torn")
        }
        return (
            f"{self.sink}{' on S3' if self.storage else ''}, seed {self.seed}: {len(self.kills)} kills "
            f"({', '.join(f'{n} {kind}' for kind, n in kinds.items())}) over "
            f"{len(self.faults)} histories; {sums['cuts']} cuts, {sums['tables']} tables compared: {sums['lost']} lost, "
            f"{sums['doubled']} doubled, {sums['torn']} torn; {len(self.errors)} pipelines that do not come to an end"
        )


def warmed(folder: Path) -> str:
    """Java's options, with an archive of its classes made by a run over an empty history."""
    archive = folder / "classes.jsa"
    (folder / "warm").mkdir(parents=True)
    log = random_log(folder / "warm" / "log.jsonl", 1, 5)
    waited(Pipeline(folder / "warm", log, "transaction", f"{JAVA} -XX:ArchiveClassesAtExit={archive}").start())
    return f"{JAVA} -XX:SharedArchiveFile={archive}" if archive.exists() else JAVA


def campaign(
    seed: int,
    kills: int,
    minutes: float,
    folder: Path,
    out: IO[str],
    pipelines: int = 1,
    kinds: Sequence[str] = KINDS,
    sink: str = "delta",
    storage: StorageSection | None = None,
) -> Campaign:
    """Kills until there were enough or the time is over; every history that was begun is applied to its end.

    `storage`: of the bucket `lake`, where tables and the pipeline's own files are then.
    """
    campaign = Campaign(seed, kills, time.monotonic() + minutes * 60, out, kinds, sink, storage)
    java, numbers = warmed(folder), iter(range(10**6))

    def work() -> None:
        while not campaign.over():
            with campaign.lock:
                number = next(numbers)
            campaign.history(number, folder / f"history-{number}", java)

    with ThreadPoolExecutor(pipelines) as pool:
        for done in [pool.submit(work) for _ in range(pipelines)]:
            done.result()
    return campaign


def main() -> None:
    """Kills, compares, and writes it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seed", type=int, default=random.randrange(2**16))
    parser.add_argument("--pipelines", type=int, default=1)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS)
    parser.add_argument("--sink", choices=["delta", "iceberg"], default="delta")
    parser.add_argument("--s3", action="store_true", help="into a bucket")
    parser.add_argument("--share", type=float, default=0.01, help="of the bucket's requests that meet a fault")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "kills.txt")
    arguments: Any = parser.parse_args()
    if arguments.s3 and arguments.sink == "iceberg":
        parser.error("--s3 is for Delta tables: the catalog of the Iceberg tables here is a file beside them")
    folder = Path(tempfile.mkdtemp(prefix="changefeed-kills-"))
    os.environ["TMPDIR"] = str(folder)  # killed runs leave scratch behind
    with arguments.out.open("a") as out, ExitStack() as stack:
        storage = None
        if arguments.s3:
            s3, proxy = stack.enter_context(disturbed_server(folder, random.Random(arguments.seed), arguments.share))
            os.environ.update(s3.environ)  # of the reader
            storage = s3.storage(proxy.url)
        done = campaign(
            arguments.seed, arguments.kills, arguments.minutes, folder, out, arguments.pipelines, arguments.kinds,
            arguments.sink, storage,
        )  # fmt: skip
        print(done.summary(), file=out, flush=True)
    print(done.summary())
    bad = done.errors or any(faults.words for _, faults in done.faults)
    if bad:
        print(f"the folders of the histories that went wrong are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
