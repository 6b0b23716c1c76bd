"""Counts the requests to S3 of the steps of a pipeline, and their time with a latency that each request has.

    python bench/requests.py [--tables 5] [--changes 500] [--steps 6] [--latency 20] [--out FILE]

Each step has one batch: `--changes` changes of each of `--tables` tables, half of them inserts, half updates. The server is moto
behind a proxy that lets each request wait for `--latency` milliseconds. The first step creates the tables; the lines are of the
later ones, by what a request is about. A step lasts from the moment at which its batch may be read to the cut in the ledger.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from changefeed import telemetry
from changefeed.pipeline.run import run
from changefeed.spark_runtime.session import session
from tests.pipeline.kit.history import HistoryBuilder
from tests.pipeline.kit.running import definition
from tests.services.fault_proxy import FaultProxy, Request
from tests.services.s3 import S3Server

# What a request is about, by its path and query; the first that matches counts.
_ABOUT = [
    ("ledger", r"_changefeed(/|%2F)ledger"),
    ("pending changes", r"_changefeed(/|%2F)pending"),
    ("dead letters, expiry", r"_changefeed"),
    ("logs of tables", r"_delta_log"),
    ("data files", r"\.parquet|\.bin"),
]
_NAMES = [name for name, _ in _ABOUT]


class Step(NamedTuple):
    """One step: its requests by what they are about and their method, and its seconds."""

    requests: Counter[tuple[str, str]]
    seconds: float


def main() -> None:
    """Prints the requests of a step, and its time."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("tables", 5), ("changes", 500), ("steps", 6), ("latency", 20)):
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--out", type=Path)
    chosen = options.parse_args()
    lines = _report(_steps(chosen.tables, chosen.changes, chosen.steps, chosen.latency / 1000), chosen)
    print("\n".join(lines))
    if chosen.out:
        chosen.out.write_text("\n".join(lines) + "\n")


def _steps(tables: int, changes: int, count: int, latency: float) -> list[Step]:
    """The steps of one run."""
    with tempfile.TemporaryDirectory() as folder, S3Server(Path(folder)) as s3:
        s3.make_bucket("lake")
        log = _log(Path(folder) / "log.jsonl", tables, changes, count)
        with FaultProxy(s3.url, latency) as proxy:
            made = definition(log, Path("lake"), limit=tables * changes + 2)
            sink = made.sink.model_copy(update={"path": f"s3://lake/{uuid.uuid4().hex}"})
            pipeline = made.model_copy(update={"sink": sink, "storage": s3.storage(proxy.url)})
            spark = session("requests", config={"spark.sql.shuffle.partitions": "1"})
            steps, begun = list[Step](), list[tuple[float, int]]()

            def passed(name: str) -> None:
                if name == "stage.before":
                    begun.append((time.perf_counter(), len(proxy.requests)))
                if name == "done.after":
                    started, first = begun[-1]
                    steps.append(Step(_by_kind(proxy.requests[first:]), time.perf_counter() - started))

            telemetry.on_pass = passed
            run(pipeline, spark, once=True)
            spark.stop()
    return steps


def _by_kind(requests: list[Request]) -> Counter[tuple[str, str]]:
    return Counter((_about(request.path), _method(request)) for request in requests)


def _about(path: str) -> str:
    return next((name for name, pattern in _ABOUT if re.search(pattern, path)), "other")


def _method(request: Request) -> str:
    if request.method == "GET" and "list-type" in request.path:
        return "LIST"
    return request.method


def _log(path: Path, tables: int, changes: int, steps: int) -> Path:
    """A log of as many batches; a change is a record."""
    history, names = HistoryBuilder(), [f"t{number}" for number in range(tables)]
    for name in names:
        history.schema("app", name, f"CREATE TABLE `app`.`{name}` (`id` BIGINT NOT NULL,`qty` INT,PRIMARY KEY(`id`))")
    half = changes // 2
    for step in range(steps):
        for name in names:
            for number in range(changes):
                row = step * half + number % half
                old = {"id": row, "qty": 0} if number >= half else None
                history.rows((name, old, {"id": row, "qty": number}))
        history.resolved()
    return history.write(path)


def _report(steps: list[Step], chosen: argparse.Namespace) -> list[str]:
    later = steps[1:]
    methods = sorted({method for step in later for _, method in step.requests})
    lines = [
        f"{chosen.tables} tables × {chosen.changes} changes a step, {chosen.latency} ms a request, {len(later)} steps",
        "",
        f"{'requests a step (median)':28}" + "".join(f"{method:>8}" for method in methods) + f"{'all':>8}",
    ]
    for name in [*_NAMES, "other"]:
        counts = [statistics.median(step.requests[name, method] for step in later) for method in methods]
        lines.append(f"{name:28}" + "".join(f"{count:8g}" for count in counts) + f"{sum(counts):8g}")
    totals = [sum(step.requests.values()) for step in later]
    seconds = [step.seconds for step in later]
    lines += [
        "",
        f"requests a step    median {statistics.median(totals):g}, most {max(totals)}",
        f"seconds a step     median {statistics.median(seconds):.2f}, most {max(seconds):.2f}",
    ]
    return lines


if __name__ == "__main__":
    main()
