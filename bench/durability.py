"""Measures what it costs a step to have its files on disk before the ledger has its entries.

    python -m bench.durability [--tables 20] [--steps 40] [--rounds 5]

A pipeline applies a log of `--steps` steps, each with `--rows` rows in every table, in three ways: as it is (`syncfs` of the
sink's file system before each entry), with fsync of every file and folder that was written since the entry before, and without
either. The ways take turns; the medians of the rounds are printed. Files of the ledger are synced in each way.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

from changefeed.pipeline import run as running
from changefeed.pipeline.run import run
from changefeed.spark_runtime.session import session
from tests.pipeline.kit.history import HistoryBuilder
from tests.pipeline.kit.running import definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Sync = Callable[[str, str, Iterable[str]], None]


class EachFile:
    """Syncs every file and folder below the sink that was changed since the call before."""

    def __init__(self) -> None:
        self.last = 0

    def __call__(self, root: str, own: str, paths: Iterable[str]) -> None:
        """See the class."""
        begun = time.time_ns()
        for folder, _, names in os.walk(root):
            for path in (*(f"{folder}/{name}" for name in names), folder):
                if os.stat(path).st_mtime_ns >= self.last:
                    handle = os.open(path, os.O_RDONLY)
                    os.fsync(handle)
                    os.close(handle)
        self.last = begun


def _nothing(root: str, own: str, paths: Iterable[str]) -> None:
    """Leaves it to the kernel."""


def _log(path: Path, tables: int, steps: int, rows: int) -> Path:
    h = HistoryBuilder(partitions=1)
    for number in range(tables):
        h.schema(
            "app", f"t{number}", f"CREATE TABLE `app`.`t{number}` (`id` BIGINT NOT NULL,`qty` INT,PRIMARY KEY(`id`))"
        )
    for step in range(steps):
        for number in range(tables):
            h.rows(*((f"t{number}", None, {"id": step * rows + row, "qty": step}) for row in range(rows)))
        h.resolved()
    return h.write(path)


def _timed(spark: SparkSession, log: Path, lake: Path, limit: int, sync: Sync) -> tuple[float, float, int]:
    """Seconds by the clock, CPU seconds of this process and its Python workers, and steps of a run."""
    pipeline = definition(log, lake, limit=limit)
    begun, cpu = time.perf_counter(), sum(os.times()[:4])
    with patch.object(running, "_sync", sync):
        done = run(pipeline, spark, once=True)
    return time.perf_counter() - begun, sum(os.times()[:4]) - cpu, done.steps


def main() -> None:
    """Prints the medians of each way."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("tables", 20), ("steps", 40), ("rows", 50), ("rounds", 5)):
        options.add_argument(f"--{name}", type=int, default=default)
    chosen = options.parse_args()
    ways: dict[str, Callable[[], Sync]] = {"syncfs": lambda: as_it_is, "each file": EachFile, "none": lambda: _nothing}
    as_it_is = running._sync
    results: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    folder = Path(tempfile.mkdtemp(prefix="durability-", dir=Path.cwd()))
    try:
        log = _log(folder / "log.jsonl", chosen.tables, chosen.steps, chosen.rows)
        spark = session("bench", config={"spark.sql.shuffle.partitions": "1"})
        for number in range(chosen.rounds + 1):
            for way, make in ways.items():
                lake = folder / f"{way}-{number}".replace(" ", "-")
                seconds, cpu, steps = _timed(spark, log, lake, chosen.tables * chosen.rows, make())
                if number:  # the first round starts workers
                    results[way].append((seconds / steps * 1000, cpu / steps * 1000))
                shutil.rmtree(lake)
        print(
            f"{chosen.tables} tables, {chosen.rows} rows of each in a step, {steps} steps, {chosen.rounds} rounds; a step:"
        )
        for way, figures in results.items():
            wall, cpu = (statistics.median(column) for column in zip(*figures, strict=True))
            print(f"{way:10} {wall:8.1f} ms by the clock {cpu:8.1f} ms of CPU")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
