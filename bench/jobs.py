"""Whole jobs, from Kafka to tables, by changefeed, by short consumers in Python, and by Paimon on Flink, in turns.

    python -m bench.jobs [nothing a b bm c d thousand e m m20] [--ways changefeed,deltalake,paimon] [--rounds 2] [--part 1.0]
                         [--step 250000] [--seconds 120] [--seed N] [--out FILE]

    nothing   a run that finds nothing new for its five tables
    a         a million inserts into a new table
    b         two million changes of a table of a million rows: 70 % updates, 20 % inserts, 10 % deletes
    bm        the same by merge on read; changefeed alone
    c         the same over ten tables
    d         100 tables at one go: a thousand inserts and two thousand changes of each
    thousand  1 000 tables at one go: 200 changes of each
    e         500 changes a second of five tables, followed for some time
    m         two million changes of a table of a million rows, by merge on read; changefeed alone
    m20       the same of a table of 20 million rows

The broker is a real one, on loopback. `changefeed run` has its whole contract on (`consistency: key`, the default ways of
writing); `bench/python_consumer.py`, the ways `deltalake` and `pyiceberg`, has none. Paimon (only if it is asked for, see
`bench/paimon_sync.py`) writes its own format, with every column as text; its rows are not compared. CPU seconds are those of the
whole process tree, with the start of Spark, without the broker. Each round starts from the same tables. Afterwards every row of
every table is compared with the log.
The way `iceberg` is changefeed into Iceberg tables with a catalog in SQLite, `iceberg3` the same in format version 3. The ways
`s3` and `deltalake-s3` are changefeed and deltalake into a bucket of moto, an S3 server on loopback whose CPU is not counted.
None of these four is for `e`, `m` and `m20`. `--part 0.1` makes a tenth of the rows. The lag of a change in `e` is from when it
was sent to when its table's commit was there.
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
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
from confluent_kafka import Producer
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyiceberg.catalog import load_catalog

from bench.memory import resident, tree
from bench.orders import SCHEMA, Message, Orders
from bench.scale import cpu_of
from tests.services.kafka import KafkaBroker
from tests.services.s3 import S3Server

CONSUMER = Path(__file__).with_name("python_consumer.py")
PAIMON = Path(__file__).with_name("paimon_sync.py")
RATE = 500  # changes a second of the job `e`
START, REST = 20.0, 10.0  # seconds before the first change and after the last one
WAYS = ("changefeed", "deltalake")  # by default
IN_BUCKET = ("s3", "deltalake-s3")
FILE = 128 << 20  # bytes of a file of an adopted table


@dataclass(frozen=True, slots=True)
class Job:
    """A log, the tables that are there before it is read, and the part of it that is measured.

    Attributes:
        loaded: rows of all tables that are loaded from the log; not measured, unless `before` is False.
        adopted: rows of each table that deltalake has written before.
    """

    tables: int
    partitions: int
    loaded: int
    changes: int
    before: bool = True
    adopted: int = 0
    mode: str = "copy-on-write"


JOBS = {
    "nothing": Job(5, 1, 50_000, 0),
    "a": Job(1, 2, 1_000_000, 0, before=False),
    "b": Job(1, 2, 1_000_000, 2_000_000),
    "c": Job(10, 1, 1_000_000, 2_000_000),
    "d": Job(100, 1, 100_000, 200_000, before=False),
    "thousand": Job(1000, 1, 0, 200_000, before=False),
    "bm": Job(1, 2, 1_000_000, 2_000_000, mode="merge-on-read"),
    "e": Job(5, 1, 50_000, 0),
    "m": Job(1, 2, 0, 2_000_000, adopted=1_000_000, mode="merge-on-read"),
    "m20": Job(1, 2, 0, 2_000_000, adopted=20_000_000, mode="merge-on-read"),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU and seconds of a process tree, and the most memory that it had at once."""

    cpu: float
    seconds: float
    peak: int


def measured(
    command: list[str], output: Path, until: threading.Event | None = None, environ: Mapping[str, str] | None = None
) -> Cost:
    """Runs a command to its end, or ends it by SIGTERM at an event; `environ`: more of its environment.

    Raises:
        RuntimeError: it ended with an error.
    """
    spent, peak, began, ended = dict[int, float](), 0, time.monotonic(), {0}
    with output.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(environ or {})})
        while process.poll() is None:
            pids = tree(process.pid)
            spent |= {pid: used for pid in pids if (used := cpu_of(pid))}
            peak = max(peak, sum(resident(pids).values()))
            if until is not None and until.is_set():
                process.terminate()
                until, ended = None, {0, 128 + signal.SIGTERM, -signal.SIGTERM}
            time.sleep(0.2)
    if process.returncode not in ended:
        raise RuntimeError(f"{' '.join(command)}: exit {process.returncode}\n{output.read_text()[-2000:]}")
    return Cost(round(sum(spent.values()), 1), round(time.monotonic() - began, 1), peak >> 20)


@dataclass
class Bench:
    """One job on one broker, with the folders of its tables."""

    job: Job
    orders: Orders
    broker: KafkaBroker
    folder: Path
    step: int
    s3: S3Server | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self._producer = Producer(
            {"bootstrap.servers": self.broker.bootstrap, "linger.ms": 5, "compression.type": "lz4",
             "queue.buffering.max.messages": 200_000}
        )  # fmt: skip
        for topic, partitions in self.orders.topics.items():
            self.broker.create_topic(topic, partitions=partitions)

    def send(self, messages: Iterable[Message]) -> None:
        """Sends records, and returns when the broker has them."""
        for topic, partition, key, value in messages:
            while True:
                try:
                    self._producer.produce(topic, value, key, partition)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        self._producer.flush()

    def lake(self, way: str) -> Path:
        """The folder of a way's tables on disk."""
        return self.folder / way

    def url(self, way: str) -> str:
        """The folder of a way's tables, on disk or in the bucket."""
        return f"s3://lake/{self._in_bucket(way)}" if way in IN_BUCKET else str(self.lake(way))

    def table(self, way: str, number: int) -> str:
        """The folder of a table."""
        return f"{self.url(way)}/{f't{number}' if way.startswith('deltalake') else f'shop/t{number}'}"

    def _in_bucket(self, way: str) -> str:
        return f"{self.orders.prefix}/{way}"

    def clear(self, way: str) -> None:
        """Begins with no tables."""
        shutil.rmtree(self.lake(way), ignore_errors=True)
        if way in IN_BUCKET:
            self._bucket.objects.filter(Prefix=f"{self._in_bucket(way)}/").delete()

    def keep(self, way: str) -> None:
        """Keeps a copy of the tables, with which `restore` begins."""
        self._copy(way, f"{way}-before")

    def restore(self, way: str) -> None:
        """Begins with the tables of `keep`."""
        self.clear(way)
        self._copy(f"{way}-before", way)

    def _copy(self, source: str, target: str) -> None:
        if self.lake(source).exists():
            shutil.copytree(self.lake(source), self.lake(target))
        if source.removesuffix("-before") in IN_BUCKET:
            before, after = f"{self._in_bucket(source)}/", f"{self._in_bucket(target)}/"
            for file in self._bucket.objects.filter(Prefix=before):
                self._bucket.copy({"Bucket": "lake", "Key": file.key}, after + file.key.removeprefix(before))

    @cached_property
    def _bucket(self) -> Any:
        assert self.s3 is not None
        keys = {"aws_access_key_id": self.s3.keys[0], "aws_secret_access_key": self.s3.keys[1]}
        return boto3.resource("s3", endpoint_url=self.s3.url, region_name="us-east-1", **keys).Bucket("lake")

    def opened(self, way: str, number: int) -> DeltaTable:
        """Opens a table."""
        options = self.s3.environ if self.s3 is not None and way in IN_BUCKET else None
        return DeltaTable(self.table(way, number), storage_options=options)

    def rows(self, way: str, number: int) -> pa.Table:
        """The rows of a table, by a reader that is not changefeed's."""
        if not way.startswith(("iceberg", "pyiceberg")):
            return pa.table(QueryBuilder().register("t", self.opened(way, number)).execute("SELECT * FROM t"))
        catalog = load_catalog("changefeed", type="sql", uri=f"sqlite:///{self.lake(way)}/catalog.db")
        try:
            return catalog.load_table(("shop", f"t{number}")).scan().to_arrow()
        finally:
            catalog.close()

    def command(self, way: str, *, follow: bool = False) -> list[str]:
        """The command that applies what there is, or follows what comes."""
        if way.startswith("deltalake") or way == "pyiceberg":
            self.lake(way).mkdir(exist_ok=True)  # for its offsets
            tables = ["--tables", self.url(way)] if way in IN_BUCKET else []
            more = [*tables, *(["--follow"] if follow else [])]
            words = [self.orders.prefix, str(self.job.tables), str(self.lake(way)), str(self.step)]
            return [
                sys.executable, str(CONSUMER), way.removesuffix("-s3"), self.broker.bootstrap, *words, *more,
            ]  # fmt: skip
        if way == "paimon":
            words = [self.orders.prefix, str(self.job.tables), str(self.lake(way))]
            return [sys.executable, str(PAIMON), self.broker.bootstrap, *words]
        source = {
            "type": "kafka", "servers": self.broker.bootstrap, "topics": list(self.orders.topics),
            "protocol": {"name": "debezium-mysql", "decimal.handling.mode": "string"}, "max-records-per-batch": self.step,
        }  # fmt: skip
        adopt = {"adopt": ["shop.*"]} if self.job.adopted else {}
        definition: dict[str, Any] = {
            "source": source, "sink": {"type": "delta", "path": self.url(way), "write-mode": self.job.mode} | adopt,
            "pipeline": {"name": "bench", "consistency": "key"},
            "spark": {"spark.master": "local[2]", "spark.driver.memory": "2g"},
        }  # fmt: skip
        if self.s3 is not None and way in IN_BUCKET:
            definition["storage"] = self.s3.storage().model_dump(by_alias=True, exclude_none=True)
        if way.startswith("iceberg"):
            version = 3 if way == "iceberg3" else 2
            mode = self.job.mode
            definition["sink"] = {
                "type": "iceberg", "path": str(self.lake(way)), "write-mode": mode, "format-version": version,
            }  # fmt: skip
        file = self.folder / "pipeline.yaml"
        file.write_text(json.dumps(definition))
        return [sys.executable, "-m", "changefeed.cli", "run", str(file), *([] if follow else ["--once"])]

    def apply(self, way: str) -> Cost:
        """Applies what there is."""
        environ = self.s3.environ if self.s3 is not None and way == "deltalake-s3" else {}
        return measured(self.command(way), self.folder / f"{way}.txt", environ=environ)

    def check(self, way: str) -> int:
        """Compares every row of every table with the log; returns their number.

        Raises:
            RuntimeError: they differ.
        """
        count = 0
        for number in range(self.job.tables):
            wanted = self.orders.rows(number)
            if wanted.num_rows:
                actual = self.rows(way, number).select(SCHEMA.names).cast(SCHEMA).sort_by("id")
                if not actual.combine_chunks().equals(wanted.combine_chunks()):
                    raise RuntimeError(
                        f"{way}, table {number}: {actual.num_rows} rows, not the {wanted.num_rows} of the log"
                    )
            count += wanted.num_rows
        return count


def at_one_go(bench: Bench, ways: list[str], rounds: int) -> dict[str, list[Cost]]:
    """Measures a job whose records are all there before it starts."""
    job, orders = bench.job, bench.orders
    bench.send(orders.create())
    bench.send(orders.insert(job.loaded))
    if job.before:
        for way in ways:
            for number in range(job.tables if job.adopted else 0):
                write_deltalake(bench.table(way, number), orders.rows_before(), target_file_size=FILE)
            bench.apply(way)
            bench.keep(way)
    bench.send(orders.change(job.changes))
    costs: dict[str, list[Cost]] = {way: [] for way in ways}
    for number in range(rounds):
        for way in ways if number % 2 == 0 else ways[::-1]:
            if job.before:
                bench.restore(way)
            else:
                bench.clear(way)
            costs[way].append(bench.apply(way))
            compared = f"{bench.check(way):,} rows are right" if way != "paimon" else "rows not compared"
            say(f"{orders.prefix} {way}: {costs[way][-1]}, {compared}")
    return costs


def followed(bench: Bench, way: str, seconds: float) -> tuple[Cost, list[float]]:
    """Measures a way that follows changes at a constant rate, and the lag of each change in seconds, sorted."""
    bench.send(bench.orders.create())
    bench.send(bench.orders.insert(bench.job.loaded))
    bench.apply(way)
    costs, stop = list[Cost](), threading.Event()
    command, output = bench.command(way, follow=True), bench.folder / f"{way}.txt"
    running = threading.Thread(target=lambda: costs.append(measured(command, output, stop)))
    running.start()
    time.sleep(START)
    sent: list[tuple[int, float]] = []  # table, seconds
    began = time.time()
    while (now := time.time()) < began + seconds:
        due = round((now - began) * RATE) - len(sent)
        messages = list(bench.orders.change(due, live=int(now * 1e6)))
        sent += [(int(topic.rpartition("t")[2]), now) for topic, *_ in messages]
        bench.send(messages)
        time.sleep(0.01)
    time.sleep(REST)
    stop.set()
    running.join()
    lags = []
    commits = [visible(Path(bench.table(way, number))) for number in range(bench.job.tables)]
    for table, at in sent:
        lags.append(min((when - at for when, newest in commits[table] if newest >= at - 0.001), default=float("inf")))
    say(f"{bench.orders.prefix} {way}: {costs}, {bench.check(way):,} rows are right")
    return costs[0], sorted(lags)


def visible(table: Path) -> list[tuple[float, float]]:
    """When each commit of a table was there, and the newest `updated` in its files; both in seconds."""
    result = []
    for file in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        newest = [
            json.loads(action["add"]["stats"])["maxValues"].get("updated") for action in actions if "add" in action
        ]
        times = [
            datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC).timestamp() for text in newest if text
        ]
        if times:
            result.append((file.stat().st_ctime, max(times)))  # when its name was there, not its bytes
    return result


def say(text: str) -> None:
    """Progress."""
    print(f"  {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Measures, and writes it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", choices=[*JOBS, []], default=list(JOBS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--part", type=float, default=1.0)
    parser.add_argument("--step", type=int, default=250_000, help="records that are read at once, by both")
    parser.add_argument("--seconds", type=float, default=120.0, help="of the job e")
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS))
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "jobs.jsonl")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="changefeed-jobs-"))
    try:
        with ExitStack() as stack:
            broker, out = stack.enter_context(KafkaBroker(heap="1g")), stack.enter_context(arguments.out.open("a"))
            s3 = stack.enter_context(S3Server(folder)) if set(IN_BUCKET).intersection(arguments.ways) else None
            for name in arguments.jobs:
                result: dict[str, Any] = {
                    "job": name,
                    "part": arguments.part,
                    "step": arguments.step,
                    "seed": arguments.seed,
                }
                job = replace(
                    JOBS[name],
                    loaded=round(JOBS[name].loaded * arguments.part),
                    changes=round(JOBS[name].changes * arguments.part),
                    adopted=round(JOBS[name].adopted * arguments.part),
                )
                ways = ["changefeed"] if job.adopted else arguments.ways

                def bench(prefix: str, job: Job = job) -> Bench:
                    orders = Orders(prefix, job.tables, job.partitions, arguments.seed, job.adopted)
                    return Bench(job, orders, broker, folder / prefix, arguments.step, s3)

                if name == "e":
                    for way in (way for way in arguments.ways if way in WAYS):
                        cost, lags = followed(bench(f"e-{way}"), way, arguments.seconds)
                        median, p99 = lags[len(lags) // 2], lags[len(lags) * 99 // 100]
                        result[way] = asdict(cost) | {"lag": {"median": round(median, 2), "p99": round(p99, 2)}}
                else:
                    costs = at_one_go(bench(name), ways, arguments.rounds)
                    result |= {way: [asdict(cost) for cost in costs[way]] for way in costs}
                    shutil.rmtree(folder / name)
                print(json.dumps(result), file=out, flush=True)
                print(json.dumps(result), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
