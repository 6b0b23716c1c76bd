"""A model of steps on clusters larger than this machine: measured costs, and what they come to with 16, 64 and 256 cores.

    python bench/scale_model.py measure                 runs steps for some minutes, and fits the model
    python bench/scale_model.py predict [--interval 60] [--parallelism 64] [--latency 20]
    python bench/scale_model.py check [--workers 1 2]   compares it with steps to which it was not fitted

`measure` runs pipelines over record logs of `ticdc-open` on a standalone cluster with one worker of one core, whose executor is
a process of its own. So the CPU of a step is either that of the driver (this process and its JVM), which works alone, or that of
the workers, which all cores share. Tasks write all data files, as in large steps. The first two steps of each pipeline, in which
the tables are created, do not count. A cost is a sum of terms, fitted by the least squares of relative errors; none is negative.

    driver  = a + b tables + c partitions + d chunks + e tasks      tables: those with changes in the step
    workers = f changes + g tables + h chunks + i tasks             chunks: the changes of a table in a batch of a task

`predict` is for tables in S3: each request costs the driver CPU, which is measured too, and takes `--latency` milliseconds. A
step applies the changes of one `--interval` of seconds, and lasts driver + workers / cores. Tasks are assumed to share the work
evenly. `share` is the driver's part of a step, `of interval` its part of the interval, in which all cores wait for it; `keeps up`
and `10 % from` are the shortest intervals in which a step fits, and in which the driver has a tenth. GET/s and PUT/s are requests
while they are made. The results are in `bench/results/scale_model.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, product
from math import ceil, inf
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from bench.step_costs import Load, measured, request_cpu

RESULTS = Path(__file__).parent / "results" / "scale_model.json"
CLUSTER = Path(__file__).parent / "results" / "cluster.json"
# Requests to S3 of a step, and of a table in it: `results/requests.txt`, with 5 tables and with 40. Lists count as GET.
STEP_REQUESTS, TABLE_REQUESTS = {"GET": 14, "PUT": 5}, {"GET": 5, "PUT": 2}
GET_LIMIT, PUT_LIMIT = 5_500, 3_500  # requests a second for each prefix
# As the source `kafka` and `stages.decode` divide records into batches.
KAFKA_BATCH, ROWS_PER_TABLE, GATHERED_BYTES, RECORD_BYTES = 8_000, 512, 128 * 2**20, 250
DRIVER_TERMS = ("step", "tables", "partitions", "chunks", "tasks")
WORKER_TERMS = ("changes", "tables", "chunks", "tasks")
# The grid: one quantity is changed at a time, then several.
GRID = (
    Load(10, 1_000), Load(100, 100), Load(300, 100), Load(1_000, 20), Load(10, 10_000), Load(100, 1_000), Load(2, 20_000),
    Load(100, 100, 100), Load(10, 1_000, 1_000), Load(100, 100, 1_000),
    Load(100, 100, 1, 16), Load(100, 100, 1, 64), Load(300, 200, 100, 16),
    Load(300, 100, parallelism=1), Load(300, 100, parallelism=16),
)  # fmt: skip
HELD_OUT = (Load(50, 800, 20, 4), Load(200, 200, 300, 8))


def fitted(rows: Sequence[Mapping[str, Any]], terms: Sequence[str], target: str) -> dict[str, float]:
    """Returns the coefficients of the terms, none negative, with the least squares of relative errors.

    The best fit without negative coefficients is a plain fit of some of the terms: with so few, each choice is tried.
    """
    wanted = np.array([row[target] for row in rows])
    columns = {term: np.array([float(row.get(term, 1.0)) for row in rows]) / wanted for term in terms}
    best, least = dict.fromkeys(terms, 0.0), float(len(rows))
    for chosen in (c for count in range(1, len(terms) + 1) for c in combinations(terms, count)):
        matrix = np.column_stack([columns[term] for term in chosen])
        solved, *_ = np.linalg.lstsq(matrix, np.ones(len(rows)), rcond=None)
        error = float(np.sum((matrix @ solved - 1) ** 2))
        if (solved >= 0).all() and error < least:
            best, least = dict.fromkeys(terms, 0.0) | dict(zip(chosen, solved.tolist(), strict=True)), error
    return best


def total(coefficients: Mapping[str, float], quantities: Mapping[str, float]) -> float:
    """Returns the sum of the terms, in seconds; a term without a quantity is there once."""
    return sum(coefficient * quantities.get(term, 1.0) for term, coefficient in coefficients.items())


@dataclass(frozen=True, slots=True)
class Model:
    """The fitted coefficients, in seconds for each unit of a term, and the CPU of a request."""

    driver: Mapping[str, float]
    workers: Mapping[str, float]
    request_cpu: float = 0.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster and its pipeline: seconds between the steps, threads that commit, seconds of a request."""

    cores: int
    tables: int
    partitions: int
    interval: float = 60.0
    parallelism: int = 64
    latency: float = 0.02


@dataclass(frozen=True, slots=True)
class Step:
    """A predicted step.

    Attributes:
        driver: seconds in which the driver works alone, or waits for requests.
        seconds: of the whole step.
        gets, puts: requests a second while they are made; puts are those of the driver or of the tasks, whichever are more.
        loads: resource -> the part that is used of what it has in an interval; above 1, it does not suffice.
    """

    driver: float
    seconds: float
    gets: float
    puts: float
    loads: Mapping[str, float]

    @property
    def first(self) -> str:
        """The resource that gives way first."""
        return max(self.loads, key=lambda name: self.loads[name])


def chunk_count(readers: int, tables: float, partitions: float, changes: float) -> float:
    """Returns the chunks of a step whose reading tasks have changes of so many tables and partitions each.

    A batch has a chunk of each table, and two of each partition: its positions, and its resolved events.
    """
    batch = max(KAFKA_BATCH, min(ROWS_PER_TABLE * tables, GATHERED_BYTES / RECORD_BYTES))
    batches = readers * ceil(changes / readers / batch)
    return min(changes, batches * tables) + batches * 2 * partitions


def predicted(model: Model, cluster: Cluster, rate: float) -> Step:
    """Returns the step that applies the changes of an interval, `rate` changes a second."""
    changes = rate * cluster.interval
    written = min(cluster.tables, changes)
    tables = max(1.0, written / min(cluster.cores, cluster.partitions))  # of one reading task
    chunks = chunk_count(cluster.cores, tables, max(1.0, cluster.partitions / cluster.cores), changes)
    quantities = {
        "changes": changes, "tables": written, "partitions": cluster.partitions,
        "chunks": chunks, "tasks": cluster.cores + min(cluster.cores, written),
    }  # fmt: skip
    gets, puts = (STEP_REQUESTS[kind] + TABLE_REQUESTS[kind] * written for kind in ("GET", "PUT"))
    own = gets + puts - written  # tasks put the data files
    cpu = total(model.driver, quantities) + own * model.request_cpu
    waits = (sum(STEP_REQUESTS.values()) + own / cluster.parallelism) * cluster.latency
    driver = max(cpu, waits)  # threads wait at the same time, but Python computes in one of them
    work = total(model.workers, quantities) / cluster.cores
    puts_of_task = ceil(written / cluster.cores)  # of data files, one after the other
    work += puts_of_task * (cluster.latency + model.request_cpu)
    loads = {
        "driver's CPU": cpu,
        "driver's waits": waits,
        "cores": work,
        "GETs": gets / GET_LIMIT,
        "PUTs": puts / PUT_LIMIT,
    }
    return Step(
        driver, driver + work, gets / driver, max((puts - written) / driver, written / work),
        {name: seconds / cluster.interval for name, seconds in loads.items()},
    )  # fmt: skip


def shortest_interval(model: Model, cluster: Cluster, rate: float, share: float = 1.0) -> float:
    """Returns the shortest interval whose steps are no longer than it, with at most this share of it for the driver.

    It is infinite if no interval up to a day suffices: chunks, and with them the driver's work, grow with the changes.
    """
    low, high = 0.0, 86_400.0

    def suffices(interval: float) -> bool:
        step = predicted(model, replace(cluster, interval=interval), rate)
        return step.seconds <= interval and step.driver <= share * interval

    if not suffices(high):
        return inf
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def forecast(model: Model, arguments: argparse.Namespace) -> list[str]:
    """Returns the lines of the table of predictions."""
    names = (
        "cores, tables, partitions, changes/s, step s, driver s, share, of interval, keeps up, 10 % from, GET/s, PUT/s"
    )
    lines = ["".join(f"{name:>12}" for name in names.split(", ")) + "  most used"]
    for sizes in product((16, 64, 256), (100, 1_000, 10_000), (100, 1_000)):
        cluster = Cluster(*sizes, arguments.interval, arguments.parallelism, arguments.latency / 1000)
        for rate in (100_000, 1_000_000):
            step = predicted(model, cluster, rate)
            keeps_up, tenth = (shortest_interval(model, cluster, rate, share) for share in (1.0, 0.1))
            cells = [
                *sizes, f"{rate:,}", f"{step.seconds:.1f}", f"{step.driver:.1f}", f"{step.driver / step.seconds:.0%}",
                f"{step.driver / cluster.interval:.1%}", f"{keeps_up:.3g} s", f"{tenth:.3g} s",
                f"{step.gets:.0f}", f"{step.puts:.0f}",
            ]  # fmt: skip
            lines.append("".join(f"{cell:>12}" for cell in cells) + "  " + "; ".join(_notes(step, cluster)))
    return lines


def _notes(step: Step, cluster: Cluster) -> Iterable[str]:
    """Yields the resource of which a step uses most, and what is exceeded."""
    yield step.first
    if step.seconds > cluster.interval:
        yield "too late"
    if step.gets > GET_LIMIT:
        yield "GETs above a prefix's limit"
    if step.puts > PUT_LIMIT:
        yield "PUTs above a prefix's limit"


def compared(model: Model, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns a line for each measured step: predicted seconds / measured seconds = ratio."""
    lines = []
    for row in rows:
        driver, workers = total(model.driver, row), total(model.workers, row)
        costs = {"driver": driver, "workers": workers, "seconds": driver + workers / row["cores"]}
        ratios = (f"{name} {s:.2f} / {row[name]:.2f} = {s / row[name]:.2f}" for name, s in costs.items() if name in row)
        sizes = (f"{row[name]} {name}" for name in ("cores", "tables", "changes", "partitions", "chunks", "tasks"))
        lines.append(f"{', '.join(sizes)}: {'; '.join(ratios)}")
    return lines


def recorded_steps() -> list[dict[str, Any]]:
    """Returns the mean steps of the runs of `bench/cluster.py`, by the clock: with one worker and with two."""
    kept = json.loads(CLUSTER.read_text())
    slices, parallelism = 8, 2  # of the source `files`; of Spark, which counts at least two cores
    sizes = {
        "tables": kept["tables"], "changes": kept["rows"] // kept["steps"], "partitions": 1,
        "chunks": slices * kept["tables"], "tasks": slices + parallelism,
    }  # fmt: skip
    return [sizes | {"cores": run["workers"], "seconds": run["seconds"] / kept["steps"]} for run in kept["runs"]]


def _measure(arguments: argparse.Namespace) -> None:
    rows = measured(GRID, 1)
    usual = [row for row in rows if row["parallelism"] == Load(1, 1).parallelism]
    driver_requests = sum(TABLE_REQUESTS.values()) - 1  # a task puts the data file
    driver, workers = fitted(usual, DRIVER_TERMS, "driver"), fitted(usual, WORKER_TERMS, "workers")
    model = Model(driver, workers, request_cpu(driver_requests))
    arguments.out.write_text(json.dumps({"model": asdict(model), "steps": rows}, indent=1) + "\n")
    print(json.dumps(asdict(model), indent=1), *compared(model, usual), sep="\n")


def _predict(arguments: argparse.Namespace) -> None:
    print(*forecast(_model(arguments.out), arguments), sep="\n")


def _check(arguments: argparse.Namespace) -> None:
    kept = json.loads(arguments.out.read_text())
    rows = [row for workers in arguments.workers for row in measured(HELD_OUT, workers)]
    arguments.out.write_text(json.dumps(kept | {"checked": rows}, indent=1) + "\n")
    print(*compared(_model(arguments.out), [*rows, *recorded_steps()]), sep="\n")


def _model(path: Path) -> Model:
    return Model(**json.loads(path.read_text())["model"])


def main() -> None:
    """Measures, predicts or checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, call in (("measure", _measure), ("predict", _predict), ("check", _check)):
        command = commands.add_parser(name)
        command.add_argument("--out", type=Path, default=RESULTS)
        command.set_defaults(call=call)
    commands.choices["check"].add_argument("--workers", type=int, nargs="+", default=[1, 2])
    for name, default in (("interval", 60.0), ("parallelism", 64), ("latency", 20.0)):
        commands.choices["predict"].add_argument(f"--{name}", type=type(default), default=default)
    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
