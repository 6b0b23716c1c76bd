"""What it costs to compile Spark's plans, and to interpret them: pipelines as they run by default, and with all compiled.

    python bench/plans.py [--rows 0 1000000 4000000] [--runs 3] [--json]

Runs the example (0 rows stand for it: 705 rows, 13 schema changes, 5 tables) and transactions of so many rows, as those of
`memory.py`, each a few times, by default and compiled in turns. Seconds of the whole command; the best run counts.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.memory import records
from changefeed import record_log
from changefeed.spark_runtime.properties import COMPILED

EXAMPLE = Path(__file__).parent.parent / "examples" / "shop" / "history.jsonl.gz"
WAYS = {"default": {}, "compiled": COMPILED}


def seconds(folder: Path, log: Path, limit: int, spark: dict[str, str]) -> float:
    """Runs a pipeline over the log, from nothing."""
    shutil.rmtree(folder / "lake", ignore_errors=True)
    file = folder / "pipeline.yaml"
    said = {
        "source": {"type": "files", "path": str(log), "protocol": "ticdc-open", "max-records-per-batch": limit},
        "sink": {"type": "delta", "path": str(folder / "lake")},
        "pipeline": {"name": "plans"},
        "spark": spark,
    }
    file.write_text(json.dumps(said))  # JSON is YAML
    started = time.monotonic()
    command = [sys.executable, "-m", "changefeed.cli", "run", str(file), "--once", "--json"]
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - started


def main() -> None:
    """Measures each size both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[0, 1_000_000, 4_000_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rows in arguments.rows:
            log, limit = (folder / f"{rows}.parquet", 20_000) if rows else (EXAMPLE, 500)
            if rows:
                record_log.write(log, records(rows, 2))
            took: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(arguments.runs):
                for way, spark in WAYS.items():
                    took[way].append(seconds(folder, log, limit, spark))
            best = {way: round(min(times), 1) for way, times in took.items()}
            found.append({"rows": rows or "example", **best})
            if not arguments.json:
                print(f"{found[-1]['rows']:>10}  " + "  ".join(f"{way} {best[way]:.1f} s" for way in WAYS), flush=True)
    if arguments.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
