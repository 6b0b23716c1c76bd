"""Measures what Spark's compiler saves in writes by SQL: loads and MERGEs of several sizes, with compiled and interpreted plans.

    python -m bench.merge_plans [--rows 10000 30000 100000 300000 600000] [--writes 3]

Each way has a process of its own, whose first write is the first one that the JVM plans. A load writes `--rows` rows into a new
table; each MERGE changes a tenth of the rows by random keys. CPU seconds of the whole process tree for each write; the size is
that of the table's files. The changes are read from the pending store, as in a run with `writer: spark`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.native_apply import Bench, chunks, measured, table
from changefeed.sinks.delta import log
from changefeed.sinks.writes import WriteId
from changefeed.spark_runtime.session import compiled, session
from changefeed.stages.changes import Window, changes
from changefeed.stages.latest import latest

_WAYS = ("interpreted", "compiled")


class Writes(Bench):
    """Loads and MERGEs of one table."""

    def load(self, folder: str) -> None:
        """Writes a new table."""
        name = self.names[0]
        with compiled(self.spark) if self.large else nullcontext():
            mine = self.pending.table(self.spark, [folder], ("app", name), None, None)
            last = latest(changes(mine, table(name), Window()), table(name), partial=False)
            self.writer.load(str(self.root / "merge" / name), table(name), last, WriteId(1, self.step, 1), "{}")

    def rows(self, count: int) -> str:
        """The first step's changes, which insert all rows."""
        folder = self.root / "pending" / "000001"
        folder.mkdir(parents=True)
        made = chunks(self.names[0], np.arange(count), np.zeros(count, np.bool_), ts=10**9)
        pq.write_table(pa.Table.from_batches([made]), folder / "part-0.parquet", compression="zstd")
        return folder.name


def costs(rows: int, writes: int, *, large: bool) -> str:
    """Writes in this process: the size of the table, and the CPU seconds of the load and of each MERGE."""
    spark = session("merge-plans", master="local[2]")
    with tempfile.TemporaryDirectory() as folder:
        bench = Writes(spark, Path(folder), ["t"], 1, large=large)
        took = [measured(bench.load, bench.rows(rows))]
        took += [measured(bench.merge, bench.draw(rows, rows // 10)) for _ in range(writes)]
        at = log.snapshot(spark, str(bench.root / "merge" / "t"), "bench")
        size = at.size / 2**20 if at else 0
    return (
        f"{size:6.1f} MiB  load {sum(took[0][1:]):5.1f} s  MERGEs {' '.join(f'{sum(t[1:]):5.1f}' for t in took[1:])} s"
    )


def main() -> None:
    """Measures each size both ways, or with `--way` one way in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 30_000, 100_000, 300_000, 600_000])
    parser.add_argument("--writes", type=int, default=3)
    parser.add_argument("--way", choices=_WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        print(costs(arguments.rows[0], arguments.writes, large=arguments.way == "compiled"))
        return
    for rows in arguments.rows:
        for way in _WAYS:
            command = [
                sys.executable,
                "-m",
                "bench.merge_plans",
                "--rows",
                f"{rows}",
                "--writes",
                f"{arguments.writes}",
            ]
            ran = subprocess.run([*command, "--way", way], check=True, stdout=subprocess.PIPE, text=True)
            print(f"{rows:>8,} rows {way:<12} {ran.stdout.splitlines()[-1]}", flush=True)


if __name__ == "__main__":
    main()
