"""Applying speed: whole runs of a pipeline over logs that are made for it, from records to tables that are then compared.

    inserts   new rows of a new table
    changes   updates, inserts and deletes by key, of a table that has as many rows before
    tables    new rows of many tables
    steps     the changes of a small table, in steps of 200

Each run is a pipeline's own over a folder of record logs, with one Spark session for all. Its time is divided at the places
that it passes (`pipeline.monitoring.phases`). Afterwards every row of every table is compared with the row that the log comes to.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed import record_log, telemetry
from changefeed.bench.workload import framed
from changefeed.errors import SinkError
from changefeed.model.batch import record_batch
from changefeed.pipeline.monitoring.phases import Phases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FIRST_TS, _STEP = 450_000_000_000_000_000, 1 << 18  # a millisecond of a TSO
_TRANSACTION, _MARK = 100, 2_000  # rows
_SMALL_STEP, _SMALL_STEPS = 200, 10
_AT_ONCE = 20_000

Rows = dict[int, str]


@dataclass(frozen=True, slots=True)
class Applied:
    """The speed of one job.

    Attributes:
        rows: row changes that were applied.
        seconds: of the run, without the start of Spark.
        cpu_seconds: of all processes; None if the system does not report it.
        phases: seconds by the parts of its steps, see `Phases`.
        compared: rows that were compared with the log, all right.
    """

    job: str
    tables: int
    steps: int
    rows: int
    seconds: float
    rows_per_second: float
    cpu_seconds: float | None
    phases: dict[str, float]
    compared: int

    def to_dict(self) -> dict[str, Any]:
        """The output with `--json`."""
        return asdict(self)


def measure(
    rows: int, tables: int, write_mode: str, *, small_steps: bool, status: Callable[[str], None], seed: int = 1
) -> Iterator[Applied]:
    """Runs the jobs one after the other, in a folder that is deleted at the end.

    Args:
        rows: row changes of each job; of `steps`, which has its own, none.
        tables: tables of the job `tables`.
        write_mode: `sink.write-mode`.
        small_steps: whether to run the job `steps`.
        status: called with what is done next.
        seed: seed of the rows.

    Raises:
        SinkError: a table has other rows than its log.
    """
    from changefeed.spark_runtime.session import session

    jobs = [_Job("inserts", 1, rows), _Job("changes", 1, rows, before=rows), _Job("tables", tables, rows)]
    if small_steps:
        small = _SMALL_STEP * _SMALL_STEPS
        jobs.append(_Job("steps", 1, small, before=small, batch=_SMALL_STEP + 1, mark=_SMALL_STEP))
    status("starting Spark")
    spark = session("changefeed-bench", config={"spark.driver.memory": "2g"})
    try:
        for job in jobs:
            with tempfile.TemporaryDirectory(prefix="changefeed-bench-") as folder:
                yield job.run(spark, Path(folder), write_mode, status, seed)
    finally:
        spark.stop()


@dataclass(frozen=True, slots=True)
class _Job:
    """One job: row changes of some tables, which have so many rows before."""

    name: str
    tables: int
    rows: int
    before: int = 0
    batch: int = 50_000
    mark: int = _MARK

    def run(
        self, spark: SparkSession, folder: Path, write_mode: str, status: Callable[[str], None], seed: int
    ) -> Applied:
        """Makes the log, applies it, and compares the tables."""
        from changefeed.pipeline.config.load import read
        from changefeed.pipeline.run import run

        log = _Log(folder / "logs", self.tables, random.Random(seed), self.mark)
        source = {"type": "files", "path": str(log.folder / "*.parquet"), "protocol": "ticdc-open"}
        sink = {"type": "delta", "path": str(folder / "lake"), "write-mode": write_mode}
        definition = read(
            {"pipeline": {"name": "bench"}, "source": source | {"max-records-per-batch": self.batch}, "sink": sink}
        )
        status(f"{self.name}: making the log")
        log.create()
        log.insert(self.before)
        log.write()
        run(definition, spark, once=True)
        (log.change if self.before else log.insert)(self.rows)
        log.write()
        status(f"{self.name}: applying {self.rows:,} row changes")
        cpu, began, phases = cpu_seconds(), time.monotonic(), Phases()
        with telemetry.observed(phases):
            done = run(definition, spark, once=True)
            parts = phases.finish()
        used, seconds = cpu_seconds(), time.monotonic() - began
        status(f"{self.name}: comparing every row")
        written = [done.state.tables[f"bench.t{number}"] for number in range(self.tables)]
        compared = sum(
            _compared(f"{folder}/lake/{table.path}", table.version, rows)
            for table, rows in zip(written, log.tables, strict=True)
        )
        applied = done.state.counts.applied - done.before.counts.applied
        return Applied(
            self.name, self.tables, done.steps, applied, round(seconds, 3), round(applied / seconds, 1),
            None if cpu is None or used is None else round(used - cpu, 2), parts, compared,
        )  # fmt: skip


class _Log:
    """Record logs of `ticdc-open` as they are made, and the rows that their tables have after them.

    Attributes:
        tables: the rows of each table, by key.
    """

    def __init__(self, folder: Path, tables: int, random_: random.Random, mark: int) -> None:
        self.folder, self.tables = folder, [Rows() for _ in range(tables)]
        self._random, self._mark, self._ts = random_, mark, _FIRST_TS
        self._offset, self._changes, self._files, self._next = 0, 0, 0, 0
        self._touched = set[tuple[int, int]]()
        self._records: list[dict[str, Any]] = []
        self._batches: list[pa.RecordBatch] = []
        folder.mkdir()

    def create(self) -> None:
        """A statement for each table."""
        for number in range(len(self.tables)):
            self._next_transaction()
            sql = f"CREATE TABLE `bench`.`t{number}` (`id` BIGINT NOT NULL, `note` VARCHAR(200), PRIMARY KEY (`id`))"
            self._add(number, 2, b'{"q":"%s","t":3}' % sql.encode())
        self._next_transaction()

    def insert(self, count: int) -> None:
        """New rows, of all tables in turn."""
        for _ in range(count):
            self._insert(self._next % len(self.tables))

    def change(self, count: int) -> None:
        """Updates, inserts and deletes, six, two and two in ten, of random rows of the first table."""
        rows, keys = self.tables[0], list(self.tables[0])
        for _ in range(count):
            which = self._random.random()
            at = self._random.randrange(len(keys)) if keys else 0
            if which < 0.2 or not keys:
                keys.append(self._insert(0))
            elif which < 0.4:
                keys[at], keys[-1] = keys[-1], keys[at]
                key = keys.pop()
                self._row(0, key, b'{"d":%s}' % _image(key, rows.pop(key)))
            else:
                old, new = rows[keys[at]], self._note()
                rows[keys[at]] = new
                self._row(0, keys[at], b'{"u":%s,"p":%s}' % (_image(keys[at], new), _image(keys[at], old)))

    def write(self) -> None:
        """One more file with what was made since the last one, complete to its end."""
        self._resolve()
        self._flush()
        record_log.write(self.folder / f"{self._files:04d}.parquet", self._batches)
        self._batches, self._files = [], self._files + 1

    def _insert(self, table: int) -> int:
        key, note = self._next, self._note()
        self._next += 1
        self.tables[table][key] = note
        self._row(table, key, b'{"u":%s}' % _image(key, note))
        return key

    def _note(self) -> str:
        return f"{self._random.getrandbits(200):050x} of a customer"

    def _row(self, table: int, key: int, value: bytes) -> None:
        if len(self._touched) == _TRANSACTION or (table, key) in self._touched:
            self._next_transaction()
        self._touched.add((table, key))  # a transaction changes a row once
        self._add(table, 1, value)
        self._changes += 1
        if self._changes % self._mark == 0:
            self._resolve()

    def _resolve(self) -> None:
        """Sends a resolved event: the next change is of another transaction."""
        self._add(None, 3, b"")
        self._next_transaction()

    def _next_transaction(self) -> None:
        self._ts += _STEP
        self._touched.clear()

    def _add(self, table: int | None, kind: int, value: bytes) -> None:
        at = b"" if table is None else b'"scm":"bench","tbl":"t%d",' % table
        key = (1).to_bytes(8, "big") + framed(b'{"ts":%d,%s"t":%d}' % (self._ts, at, kind))
        self._records.append(
            {"topic": "bench", "partition": 0, "offset": self._offset, "key": key, "value": framed(value)}
        )
        self._offset += 1
        if len(self._records) == _AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        self._batches.append(record_batch(self._records))
        self._records = []


def _image(key: int, note: str) -> bytes:
    return b'{"id":{"t":8,"h":true,"f":11,"v":%d},"note":{"t":15,"f":64,"v":"%s"}}' % (key, note.encode())


def _compared(path: str, version: int | None, wanted: Rows) -> int:
    """Compares every row of a table with the rows that it should have; returns their number.

    Raises:
        SinkError: the rows differ.
    """
    from deltalake import DeltaTable, QueryBuilder

    table = DeltaTable(path, version=version)
    read = pa.table(QueryBuilder().register("t", table).execute("SELECT id, note FROM t").read_all())
    has = dict(zip(read.column("id").to_pylist(), read.column("note").to_pylist(), strict=True))
    if has != wanted or read.num_rows != len(wanted):
        wrong = [key for key in has.keys() | wanted.keys() if has.get(key) != wanted.get(key)]
        raise SinkError(
            f"{path}: {len(wrong):,} rows are not those of the log, the first with id {min(wrong, default=None)}. This is a "
            "defect of changefeed"
        )
    return len(wanted)


def cpu_seconds() -> float | None:
    """Seconds of CPU so far of this process and all below it, the ended included; None where /proc is missing."""
    stats = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        stats[int(file.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    if not stats:
        return None
    ticks, todo = 0, [os.getpid()]
    while todo:
        pid = todo.pop()
        ticks += stats.get(pid, (0, 0))[1]
        todo += [child for child, (parent, _) in stats.items() if parent == pid]
    return ticks / os.sysconf("SC_CLK_TCK")
