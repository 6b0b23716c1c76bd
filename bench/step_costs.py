"""The cost of steps on a standalone cluster of this machine: CPU of the driver, CPU of the workers, by the size of a step.

`measured` runs a pipeline for each `Load`, all in one Spark session. The driver is this process and its JVM; executors are
processes of their own. CPU is read from the clocks of the processes when a step ends, and divided by `Phases` for the driver.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.memory import framed, tree
from bench.scale import STEP, Log, cpu_of, create, inserted
from changefeed import telemetry
from changefeed.pipeline.monitoring.phases import Phases
from changefeed.pipeline.run import run
from changefeed.sinks.apply import step as apply_step
from changefeed.spark_runtime import archive
from changefeed.spark_runtime.session import session
from tests.pipeline.kit.running import definition
from tests.services.s3 import S3Server
from tests.services.spark_cluster import SparkCluster

SKIPPED, COUNTED = 2, 3  # steps of each pipeline
FLUSHED = 5_000  # records that are written at once
FEW_AND_MANY = (10, 80)  # tables in S3


@dataclass(frozen=True, slots=True)
class Load:
    """The size of a step: tables with changes, changes of each, partitions of the log, tasks that write, threads that commit."""

    tables: int
    changes: int
    partitions: int = 1
    writers: int = 1
    parallelism: int = 4

    @property
    def records(self) -> int:
        """The records of a step: its changes, and a resolved event of each partition."""
        return self.tables * self.changes + self.partitions


WARM_UP = Load(20, 500, 3)


class PartitionedLog(Log):
    """A record log of several partitions; each table is in one."""

    def __init__(self, path: Path, partitions: int) -> None:
        super().__init__(path)
        self.partitions, self._offsets = partitions, Counter[int]()

    def mark(self) -> None:
        """Everything so far is complete, in each partition."""
        for number in range(self.partitions):
            self._put({"ts": self.ts, "t": 3}, b"", number)

    def _add(self, head: dict[str, Any], value: bytes) -> None:
        self._put(head, value, int(head["tbl"].removeprefix("t")) % self.partitions)

    def _put(self, head: dict[str, Any], value: bytes, partition: int) -> None:
        text = json.dumps(head, separators=(",", ":"))  # as the producer writes it, so that the kernel decodes it
        key, offset = framed(text.encode(), version=True), self._offsets[partition]
        record = {"topic": "big", "partition": partition, "offset": offset, "key": key, "value": framed(value)}
        self.rows.append(record)
        self._offsets[partition] += 1
        if len(self.rows) == FLUSHED:
            self._flush()


def write_log(path: Path, load: Load, steps: int) -> None:
    """Writes a log of steps of the same size; of the changes of a step, half update rows that the step before inserted."""
    log, half = PartitionedLog(path, load.partitions), load.changes // 2
    names = [f"t{number}" for number in range(load.tables)]
    for name in names:
        log.ddl("big", name, create(name))
    for step in range(steps):
        log.ts += STEP
        for number in range(load.changes if step else load.changes - 1):  # the first step has the schema changes, too
            row = (step - 1) * half + number if step and number < half else step * half + number
            value = inserted(row, f"step {step} " + "x" * 100)
            for name in names:
                log.row("big", name, value)
        log.mark()
    log.write()


@dataclass(slots=True)
class Meter:
    """An observer of a run that reads the clocks after each step.

    Attributes:
        readings: after each step, the seconds so far: of CPU in the driver's Python and JVM and by the clock, by phases; of
            CPU of the workers; and the number of chunks so far.
    """

    jvm: int
    workers: Sequence[int]
    pending: Path
    readings: list[dict[str, float]] = field(default_factory=list)
    _phases: dict[str, Phases] = field(init=False)
    _spent: dict[int, float] = field(default_factory=dict)
    _chunks: int = 0
    _own: float = 0.0  # CPU of this observer

    def __post_init__(self) -> None:
        clocks = {
            "python": lambda: time.process_time() - self._own,
            "jvm": lambda: cpu_of(self.jvm),
            "clock": time.monotonic,
        }
        self._phases = {name: Phases(clock) for name, clock in clocks.items()}

    def __call__(self, place: str, facts: Mapping[str, Any]) -> None:
        """Passes the place to the phases."""
        for phases in self._phases.values():
            phases(place, facts)
        began = time.process_time()
        if place == "stage.after":
            newest = max(self.pending.iterdir(), key=lambda folder: folder.stat().st_mtime_ns)
            self._chunks += sum(pq.read_metadata(file).num_rows for file in newest.glob("*.parquet"))
        if place == "step":
            pids = [pid for root in self.workers for pid in tree(root)]
            self._spent |= {pid: used for pid in pids if (used := cpu_of(pid))}
        self._own += time.process_time() - began
        if place == "step":
            parts = {f"{name}, {part}": s for name, of in self._phases.items() for part, s in of.so_far().items()}
            self.readings.append(parts | {"workers": sum(self._spent.values()), "chunks": self._chunks})

    def step(self) -> dict[str, float]:
        """Returns the median of the steps that count."""
        counted = self.readings[SKIPPED - 1 :]
        each = [{name: after[name] - before[name] for name in after} for before, after in pairwise(counted)]
        return {name: round(statistics.median(step[name] for step in each), 4) for name in each[0]}


def measured(loads: Sequence[Load], workers: int) -> list[dict[str, Any]]:
    """Runs a pipeline for each load on a cluster of so many workers of one core; returns the cost of its steps."""
    rows = list[dict[str, Any]]()
    apply_step.HERE_BYTES = -1  # no data file is written in the driver, as in steps of more than 8 MiB
    with tempfile.TemporaryDirectory(prefix="changefeed-model-") as name:
        folder, packed = Path(name), Path(name) / archive.file_name()
        archive.write(packed)
        with SparkCluster(folder / "cluster", count=workers, memory="2g") as cluster:
            config = {"spark.archives": f"{packed}#environment", "spark.executor.memory": "1g"}
            spark = session("scale-model", config=cluster.properties | config | {"spark.driver.memory": "1g"})
            gateway: Any = spark.sparkContext._gateway
            jvm, pids = gateway.proc.pid, [cluster.pid(n) for n in range(workers)]
            for number, load in enumerate((WARM_UP, *loads)):
                conf: Any = spark.sparkContext._jsc.sc().conf()
                conf.set("spark.default.parallelism", str(load.writers))
                log, lake = folder / f"{number}.parquet", folder / f"lake-{number}"
                write_log(log, load, SKIPPED + COUNTED)
                meter = Meter(jvm, pids, lake / "_changefeed" / "pending")
                with telemetry.observed(meter):
                    done = run(
                        definition(log, lake, limit=load.records, parallelism=load.parallelism), spark, once=True
                    )
                assert done.steps == SKIPPED + COUNTED, done.steps
                if number:
                    rows.append(as_row(load, meter.step()) | {"cores": workers})
                    print(json.dumps(rows[-1]), flush=True)
            spark.stop()
    return rows


def as_row(load: Load, step: Mapping[str, float]) -> dict[str, Any]:
    """Returns the size of a step and its cost, in seconds."""
    readers = -(-load.records // max(10_000, -(-load.records // 8)))  # as the source `files` divides a log
    parts = {of: {name.removeprefix(f"{of}, "): s for name, s in step.items() if name.startswith(f"{of}, ")}
             for of in ("python", "jvm", "clock")}  # fmt: skip
    return {
        "tables": load.tables, "changes": load.tables * load.changes, "partitions": load.partitions,
        "parallelism": load.parallelism, "chunks": step["chunks"], "tasks": readers + min(load.writers, load.tables),
        "driver": round(sum(parts["python"].values()) + sum(parts["jvm"].values()), 4), "workers": step["workers"],
        "seconds": round(sum(parts["clock"].values()), 4),
        **{of: {part: s for part, s in seconds.items() if s > 0.0005} for of, seconds in parts.items()},
    }  # fmt: skip


def request_cpu(requests: int) -> float:
    """Returns the seconds of CPU of a request to S3 in the driver's Python; `requests`: those that it makes for a table.

    Steps of few and of many tables are made in S3 (moto) and in a local folder: the difference is that of the requests.
    """
    apply_step.HERE_BYTES = -1
    with tempfile.TemporaryDirectory(prefix="changefeed-requests-") as name, S3Server(Path(name)) as s3:
        s3.make_bucket("lake")
        spark = session("scale-model", config={"spark.master": "local[1]", "spark.driver.memory": "1g"})
        costs = {
            (t, place): _python_cpu(spark, Path(name), t, s3 if place else None)
            for t in FEW_AND_MANY
            for place in (0, 1)
        }
        spark.stop()
    few, many = FEW_AND_MANY
    extra = [costs[tables, 1] - costs[tables, 0] for tables in FEW_AND_MANY]
    return (extra[1] - extra[0]) / (many - few) / requests


def _python_cpu(spark: Any, folder: Path, tables: int, s3: S3Server | None) -> float:
    """Returns the median of the CPU of a step in this process, in seconds."""
    load, name = Load(tables, 20, parallelism=16), f"{tables}-{'s3' if s3 else 'local'}"
    write_log(folder / f"{name}.parquet", load, SKIPPED + COUNTED)
    made = definition(folder / f"{name}.parquet", folder / name, limit=load.records, parallelism=load.parallelism)
    if s3 is not None:
        sink = made.sink.model_copy(update={"path": f"s3://lake/{name}"})
        made = made.model_copy(update={"sink": sink, "storage": s3.storage(s3.url)})
    times = list[float]()
    with telemetry.observed(lambda place, _: times.append(time.process_time()) if place == "step" else None):
        run(made, spark, once=True)
    return statistics.median(after - before for before, after in pairwise(times[SKIPPED - 1 :]))
