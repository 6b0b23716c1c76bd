"""CPU of the commits of one Iceberg table as its history grows, by changefeed and by PyIceberg.

    python -m bench.iceberg_commits [--commits 300] [--ways changefeed,pyiceberg] [--out FILE]

The catalog is in SQLite, the table on this disk. Each commit of changefeed adds a data file and removes one; it includes opening
the table, not writing the data file. A commit of PyIceberg is an append of the same rows, data file included. A figure is the
median of twenty commits, in milliseconds of CPU of this process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from changefeed.sinks.base import WriteRequest
from changefeed.sinks.writes import Load, Upsert, WriteId
from tests.sinks.contract import Given
from tests.sinks.iceberg.tables import ORDERS, PATH, Tables

WINDOW = 20


def changefeed(root: Path) -> Callable[[int], float]:
    """Returns a function that makes the commit of a number, and returns its CPU seconds."""
    tables = Tables(root)
    sink = tables.sink()
    tables.write(sink, Load, {"id": 0, "note": "0"})

    def commit(number: int) -> float:
        changes = Given(ORDERS, ({"id": 0, "note": str(number)},))
        request = WriteRequest(Upsert(path=PATH, number=1, table=ORDERS), changes, WriteId(1, number + 10, 1), "{}")
        (prepared,) = sink.prepare([request])
        start = time.process_time()
        sink.snapshot(PATH)
        sink.apply(prepared)
        return time.process_time() - start

    return commit


def pyiceberg(root: Path) -> Callable[[int], float]:
    """Returns the same for an append by PyIceberg."""
    catalog = load_catalog("bench", type="sql", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
    catalog.create_namespace("shop")
    rows = pa.table({"id": pa.array([0], pa.int32()), "note": ["0"]})
    catalog.create_table("shop.orders", rows.schema)

    def commit(number: int) -> float:
        start = time.process_time()
        catalog.load_table("shop.orders").append(rows)
        return time.process_time() - start

    return commit


WAYS = {"changefeed": changefeed, "pyiceberg": pyiceberg}


def measured(way: str, commits: int) -> dict[str, float]:
    """Returns the figures: number of commits before -> milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        commit = WAYS[way](Path(folder))
        times = [commit(number) for number in range(1, commits + 1)]
    ends = [end for end in (WINDOW + 5, 100, 200, 300, 1000) if end <= commits]
    return {str(end): round(statistics.median(times[end - WINDOW : end]) * 1000, 1) for end in ends}


def main() -> None:
    """Measures, and writes one line of JSON for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "iceberg_commits.jsonl")
    arguments = parser.parse_args()
    with arguments.out.open("a") as out:
        for way in arguments.ways:
            line = json.dumps({"way": way, "cpu ms after commits": measured(way, arguments.commits)})
            print(line, file=out, flush=True)
            print(line)


if __name__ == "__main__":
    main()
