"""A standalone cluster of one and of two workers with one core each, on the same log: rows a second, and what runs beside what.

    python bench/cluster.py [--rows 400000] [--out bench/results/cluster.json]

Writes a record log of `ticdc-open` with four tables, packs this installation, starts a master and workers as processes on
loopback, and runs `changefeed run --once` on them. Seconds count from the first task that Spark runs to the last step. From
Spark's event log come the tasks: `busy` is the share of that time in which any runs, `beside` how many run then on average.
What remains is the driver alone: planning, commits to Delta's logs, the ledger. Seconds of CPU are those of all processes on the
driver's side and on the workers'. On a machine with two cores the driver, which works too, takes them from the second worker.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from deltalake import DeltaTable, QueryBuilder

from bench.memory import tree
from bench.scale import Log, cpu_of, create, inserted
from changefeed.spark_runtime import archive
from tests.services.spark_cluster import SparkCluster

RESULTS = Path(__file__).parent / "results" / "cluster.json"
TABLES, STEPS = 4, 4


def write_log(path: Path, rows: int) -> None:
    """Rows of four tables in turn, in a few steps; each step updates a tenth of what the one before inserted."""
    log, each = Log(path), rows // STEPS
    for number in range(TABLES):
        log.ddl("big", f"t{number}", create(f"t{number}"))
    for step in range(STEPS):
        log.ts += 1 << 18
        for row in range(each):
            old = step and row % 10 == 0
            number = (step - 1) * each + row if old else step * each + row
            log.row("big", f"t{number % TABLES}", inserted(number, f"step {step} " + "x" * 200))
        log.mark()
    log.write()


def run(folder: Path, log: Path, packed: Path, workers: int, batch: int) -> dict[str, Any]:
    """Measures a run on this number of workers."""
    lake, events = folder / "lake", folder / "events"
    events.mkdir(parents=True)
    with SparkCluster(folder / "cluster", count=workers, memory="2g") as cluster:
        spark = cluster.properties | {
            "spark.archives": f"{packed}#environment", "spark.executor.memory": "1g", "spark.driver.memory": "1g",
            "spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }  # fmt: skip
        source = {"type": "files", "path": str(log), "protocol": "ticdc-open", "max-records-per-batch": batch}
        sink = {"type": "delta", "path": str(lake)}
        file = folder / "pipeline.yaml"
        file.write_text(json.dumps({"source": source, "sink": sink, "pipeline": {"name": "big"}, "spark": spark}))
        driver, executors, steps = _watched(file, cluster)
    tasks = _tasks(events)
    rows = sum(_count(lake / "big" / f"t{number}") for number in range(TABLES))
    began, ended = tasks[0][0], steps[-1]["at"] * 1000
    wall, busy = (ended - began) / 1000, _union(tasks) / 1000
    work = sum(stop - start for start, stop in tasks) / 1000
    applied = steps[-1]["applied"]
    return {
        "workers": workers,
        "rows applied": applied,
        "rows in the tables": rows,
        "seconds": round(wall, 1),
        "rows a second": round(applied / wall),
        "busy": round(busy / wall, 2),
        "beside": round(work / busy, 2),
        "cpu seconds, driver": round(driver, 1),
        "cpu seconds, workers": round(executors, 1),
    }


def _watched(file: Path, cluster: SparkCluster) -> tuple[float, float, list[dict[str, Any]]]:
    """Runs the pipeline; CPU of the driver's processes and of the workers', and its steps."""
    spent: dict[int, float] = {}
    sides: tuple[set[int], set[int]] = (set(), set())
    errors = file.with_name("errors.txt")
    steps: list[dict[str, Any]] = []
    with file.with_name("output.jsonl").open("w") as out, errors.open("w") as err:
        command = [sys.executable, "-m", "changefeed.cli", "run", str(file), "--once", "--json"]
        environ = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environ)
        with open(out.name) as lines:
            while process.poll() is None:
                pids = [tree(process.pid), [p for n in range(cluster.count) for p in tree(cluster.pid(n))]]
                for side, numbers in zip(sides, pids, strict=True):
                    side.update(numbers)
                    spent.update({pid: used for pid in numbers if (used := cpu_of(pid))})
                for line in lines:
                    event = json.loads(line)
                    if event["event"] == "step":
                        steps.append({"at": time.time(), "applied": event["counts"]["applied"]})
                time.sleep(0.2)
    if process.returncode or not steps:
        raise SystemExit(errors.read_text())
    driver, workers = (sum(spent.get(pid, 0.0) for pid in side) for side in sides)
    return driver, workers, steps


def _tasks(events: Path) -> list[tuple[int, int]]:
    """Start and end of every task, in milliseconds, from the event log."""
    times = []
    for file in events.iterdir():
        for line in file.read_text().splitlines():
            if line.startswith('{"Event":"SparkListenerTaskEnd"'):
                info = json.loads(line)["Task Info"]
                times.append((info["Launch Time"], info["Finish Time"]))
    return sorted(times)


def _union(tasks: list[tuple[int, int]]) -> int:
    """The total time during which at least one task runs."""
    total, upto = 0, 0
    for start, stop in tasks:
        total += max(0, stop - max(start, upto))
        upto = max(upto, stop)
    return total


def _count(path: Path) -> int:
    rows = QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT count(*) AS n FROM t").read_all()
    return int(rows.column("n")[0].as_py())


def main() -> None:
    """Both runs, printed and kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="changefeed-cluster-") as folder:
        packed, log = Path(folder) / archive.file_name(), Path(folder) / "log.parquet"
        archive.write(packed)
        write_log(log, arguments.rows)
        runs = []
        for workers in (1, 2):
            runs.append(run(Path(folder) / f"workers-{workers}", log, packed, workers, arguments.rows // STEPS))
            print(json.dumps(runs[-1]), flush=True)
    results = {
        "rows": arguments.rows,
        "tables": TABLES,
        "steps": STEPS,
        "cores of the machine": os.cpu_count(),
        "runs": runs,
    }
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
