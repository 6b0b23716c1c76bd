"""Measures the cost of compilers: pipelines with the defaults, with Spark's plans compiled, and with Java's second compiler.

    python bench/plans.py [--rows 0 1000000 4000000] [--runs 3] [--json]

Runs the example (`--rows 0`: 705 rows, 13 schema changes, 5 tables), then once more with nothing left to apply, and
transactions of `--rows` rows, like those of `memory.py`; each a few times, the ways in turns. CPU seconds of all processes of the
command, user and system; the best run counts. `--writer spark` applies the rows by SQL MERGE.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.memory import records
from changefeed import record_log
from changefeed.spark_runtime.properties import COMPILED

PR_SET_CHILD_SUBREAPER = 36
EXAMPLE = Path(__file__).parent.parent / "examples" / "shop" / "history.jsonl.gz"
WAYS = {
    "default": {},
    "plans compiled": COMPILED,
    "Java's second compiler": {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"},
}


def seconds(folder: Path, log: Path, limit: int, writer: str, spark: dict[str, str]) -> float:
    """CPU seconds of a pipeline's run over the log, from where its last run ended."""
    file = folder / "pipeline.yaml"
    definition = {
        "source": {"type": "files", "path": str(log), "protocol": "ticdc-open", "max-records-per-batch": limit},
        "sink": {"type": "delta", "path": str(folder / "lake"), "writer": writer},
        "pipeline": {"name": "plans"},
        "spark": spark,
    }
    file.write_text(json.dumps(definition))  # JSON is YAML
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "changefeed.cli", "run", str(file), "--once", "--json"]
    subprocess.run(command, check=True, capture_output=True)
    with suppress(ChildProcessError):  # Spark's workers outlive the JVM that started them for a moment
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measures each size both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[0, 1_000_000, 4_000_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--writer", choices=["native", "spark"], default="native")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rows in arguments.rows:
            log, limit = (folder / f"{rows}.parquet", 20_000) if rows else (EXAMPLE, 500)
            if rows:
                record_log.write(log, records(rows, 2))
            works = [f"{rows:,} rows"] if rows else ["the example", "the example, nothing new"]
            took = {work: {way: list[float]() for way in WAYS} for work in works}
            for _ in range(arguments.runs):
                for way, spark in WAYS.items():
                    shutil.rmtree(folder / "lake", ignore_errors=True)
                    for times in took.values():
                        times[way].append(seconds(folder, log, limit, arguments.writer, spark))
            for work, times in took.items():
                best = {way: round(min(each), 1) for way, each in times.items()}
                results.append({"work": work, "writer": arguments.writer, **best})
                if not arguments.json:
                    print(f"{work:>26}  " + "  ".join(f"{way} {best[way]:.1f} s" for way in WAYS), flush=True)
    if arguments.json:
        print("[" + ",\n ".join(map(json.dumps, results)) + "]")


if __name__ == "__main__":
    main()
