"""Measures whole jobs from a MySQL or MariaDB server to Delta tables: first copy, changes, lag; beside Debezium's engine.

    python -m bench.capture_jobs [--server mariadb] [--rows 5000000] [--changes 2000000] [--seconds 120] [--rate 200]
                                 [--tables 5] [--interval "1 second"] [--seed N] [--out FILE]
    python -m bench.capture_jobs --rows 100000 --changes 50000 --seconds 10        # to try it

    copy      a first copy of `--rows` rows by `changefeed run --once` with one and with two Spark cores, and by the snapshot
              of the engine
    changes   `--changes` changes in the log: the engine and the pipeline with two cores go on where their copies
              ended. Tables are compared with the server's.
    lag       `--rate` transactions of one row a second for `--seconds`, while `changefeed run` follows: the time from when a
              statement was sent until the commit of its Delta table was there, for inserts and updates

CPU seconds are those of whole process trees with their start, JVM and Python workers included; the server's are not counted.
The engine makes JSON without schemas, and throws it away: it writes nothing but a marker behind the last change, by which it
is known to be done. Its JVM has the options that the JVM chooses, and a heap of 1 GiB. `--engine no` leaves it out.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pymysql
from deltalake import DeltaTable

from bench.capture import ENGINE_SECONDS, ENGINE_SETTINGS, JAVA_OPTIONS
from bench.jobs import REST, Cost, measured, say, visible
from bench.server_orders import COLUMNS, ServerOrders
from tests.services.database import Database, MariaDb, MySql
from tests.services.debezium import MARKER, Debezium

_SERVERS: dict[str, type[Database]] = {"mariadb": MariaDb, "mysql": MySql}


class CaptureJobs:
    """The jobs on one server, with the folders of their tables."""

    def __init__(self, orders: ServerOrders, folder: Path, interval: str) -> None:
        self._orders, self._folder, self._interval = orders, folder, interval

    def run(self, cores: int, *, follow: bool = False, until: threading.Event | None = None) -> Cost:
        """Runs the pipeline that has so many Spark cores."""
        database, way = self._orders.database, f"changefeed-{cores}"
        definition = {
            "source": {"type": "mysql", "host": "127.0.0.1", "port": database.port, "user": "dbz", "password": "dbz",
                       "tables": ["shop.t*"]},
            "sink": {"type": "delta", "path": str(self._folder / way)},
            "pipeline": {"name": way, "trigger-interval": self._interval},
            "spark": {"spark.master": f"local[{cores}]", "spark.driver.memory": "2g"},
        }  # fmt: skip
        file = self._folder / f"{way}.yaml"
        file.write_text(json.dumps(definition))
        command = [sys.executable, "-m", "changefeed.cli", "run", str(file), *([] if follow else ["--once"])]
        return measured(command, self._folder / f"{way}.txt", until)

    def engine(self) -> tuple[Cost, int]:
        """Runs Debezium's engine up to the end of the log; its cost, and the number of its events."""
        began, settings = time.monotonic(), ENGINE_SETTINGS | {"snapshot.mode": "initial"}
        with Debezium(
            self._orders.database, self._folder / "engine", settings, written=MARKER, java_options=JAVA_OPTIONS
        ) as engine:
            events = engine.follow("shop", ENGINE_SECONDS)
            process = psutil.Process(engine.pid)
            spent, memory = process.cpu_times(), process.memory_info().rss
        count = events[-1].get("skipped", 0)
        cost = Cost(round(spent.user + spent.system, 1), round(time.monotonic() - began, 1), memory >> 20)
        return cost, count

    def check(self, cores: int) -> int:
        """Compares every row of every table with the server's; returns their number.

        Raises:
            RuntimeError: they differ.
        """
        count = 0
        for number in range(self._orders.tables):
            wanted, table = self._orders.rows(number), DeltaTable(str(self._table(cores, number)))
            actual = pa.table(table.to_pyarrow_table()).select(COLUMNS.names).cast(COLUMNS).sort_by("id")
            if not actual.combine_chunks().equals(wanted.combine_chunks()):
                raise RuntimeError(
                    f"table {number} differs: {actual.num_rows} rows, and {wanted.num_rows} of the server"
                )
            count += wanted.num_rows
        return count

    def lag(self, cores: int, seconds: float, rate: float) -> tuple[Cost, list[float]]:
        """Follows changes at a constant rate; the cost of all of it, and the lag of each change in seconds, sorted."""
        costs, stop = list[Cost](), threading.Event()
        running = threading.Thread(target=lambda: costs.append(self.run(cores, follow=True, until=stop)))
        running.start()
        try:
            self._wait_for_commit(cores, running)
            sent = self._write(seconds, rate)
            time.sleep(REST)
        finally:
            stop.set()
            running.join()
        commits = [visible(self._table(cores, number)) for number in range(self._orders.tables)]
        return costs[0], sorted(
            min((when - at for when, newest in commits[table] if newest >= at - 0.001), default=float("inf"))
            for table, at in sent
        )

    def _table(self, cores: int, number: int) -> Path:
        return self._folder / f"changefeed-{cores}" / "shop" / f"t{number}"

    def _wait_for_commit(self, cores: int, running: threading.Thread) -> None:
        """Inserts a row, and waits until the run has started and its table has it."""
        log = self._table(cores, 0) / "_delta_log"
        before = len([*log.glob("*.json")])
        self._orders.database.execute(f"INSERT INTO t0 SET id = {10**13}", "shop")
        while len([*log.glob("*.json")]) == before:
            if not running.is_alive():
                raise RuntimeError((self._folder / f"changefeed-{cores}.txt").read_text()[-2000:])
            time.sleep(0.1)

    def _write(self, seconds: float, rate: float) -> list[tuple[int, float]]:
        """Inserts and updates rows in transactions of their own; the table of each, and the time when it was sent."""
        sent: list[tuple[int, float]] = []
        connection = pymysql.connect(
            host="127.0.0.1",
            port=self._orders.database.port,
            user="dbz",
            password="dbz",
            database="shop",
            autocommit=True,
        )
        with connection, connection.cursor() as cursor:
            began = time.time()
            while (now := time.time()) < began + seconds:
                for _ in range(round((now - began) * rate) - len(sent)):
                    table, at = random.randrange(self._orders.tables), time.time()
                    new = 10**12 + len(sent)
                    columns = "customer = %s, total = 1, state = 'new', updated = FROM_UNIXTIME(%s), note = 'a note'"
                    if random.random() < 0.2:
                        cursor.execute(f"INSERT INTO t{table} SET id = %s, {columns}", (new, 1, f"{at:.6f}"))
                    else:
                        row = f"SELECT id FROM (SELECT id FROM t{table} WHERE id >= %s ORDER BY id LIMIT 1) one"
                        key = random.randrange(1000)
                        cursor.execute(f"UPDATE t{table} SET {columns} WHERE id = ({row})", (2, f"{at:.6f}", key))
                    sent.append((table, at))
                time.sleep(0.002)
        return sent


def main() -> None:
    """Runs the jobs, and prints a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=_SERVERS, default="mariadb")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--changes", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=120.0, help="of changes at a constant rate; 0: no lag")
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--tables", type=int, default=5)
    parser.add_argument("--interval", default="1 second", help="trigger-interval of the pipeline")
    parser.add_argument("--engine", choices=("yes", "no"), default="yes", help="whether Debezium's engine runs, too")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "capture_jobs.jsonl")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="changefeed-capture-"))
    names = ("server", "rows", "changes", "tables", "interval", "seed")
    result: dict[str, Any] = {name: getattr(chosen, name) for name in names}
    try:
        with _SERVERS[chosen.server]("--max-binlog-size=1G") as database:
            orders = ServerOrders(database, chosen.tables, chosen.seed)
            orders.load(chosen.rows)
            jobs = CaptureJobs(orders, folder, chosen.interval)
            result["copy"] = _at_one_go(jobs, [1, 2], chosen.engine == "yes")
            if chosen.changes:
                orders.change(chosen.changes)
                result["log"] = _at_one_go(jobs, [2], chosen.engine == "yes")
            if chosen.seconds:
                cost, lags = jobs.lag(2, chosen.seconds, chosen.rate)
                median, p99 = lags[len(lags) // 2], lags[len(lags) * 99 // 100]
                result["lag"] = asdict(cost) | {"median": round(median, 2), "p99": round(p99, 2), "count": len(lags)}
                say(f"{result['lag']}, {jobs.check(2):,} rows are right")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(result))
    with chosen.out.open("a") as out:
        print(json.dumps(result), file=out)


def _at_one_go(jobs: CaptureJobs, all_cores: list[int], with_engine: bool) -> dict[str, Any]:
    """Measures what is there by all ways."""
    result: dict[str, Any] = {}
    for cores in all_cores:
        result[f"changefeed-{cores}"] = asdict(jobs.run(cores))
        say(f"{cores} cores: {result[f'changefeed-{cores}']}, {jobs.check(cores):,} rows are right")
    if with_engine:
        cost, count = jobs.engine()
        result["engine"] = asdict(cost) | {"events": count}
        say(f"engine: {result['engine']}")
    return result


if __name__ == "__main__":
    main()
