"""Changes of a large table that another program wrote: what they take, and whether the table is right.

    python -m bench.large_table [--rows 100000000] [--changes 250000] [--mode copy-on-write] [--seed N] [--out FILE]

The table is that of job `b` of `jobs.py`, written by deltalake and adopted; half of the updates and deletes go to the newest 5 %
of its keys, half to any. CPU seconds and memory are those of the whole process tree of `changefeed run --once`. Afterwards
sums over all rows, and each changed row, are compared with the log.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from bench.jobs import FILE, Bench, Job, say
from bench.orders import SCHEMA, Orders
from tests.services.kafka import KafkaBroker

AT_ONCE = 5_000_000  # rows
SUMS = {
    "rows": "count(*)", "id": "sum(id)", "customer_id": "sum(customer_id)", "qty": "sum(qty)",
    "total": "sum(CAST(total * 100 AS BIGINT))",
}  # fmt: skip


def summed(rows: pa.Table) -> Counter[str]:
    """The sums of these rows that `SUMS` names."""
    cents = pc.multiply(rows.column("total"), pa.scalar(100, pa.decimal128(3, 0))).cast(pa.int64())
    columns = {name: rows.column(name) for name in ("id", "customer_id", "qty")} | {"total": cents}
    return Counter({"rows": rows.num_rows} | {name: pc.sum(column).as_py() or 0 for name, column in columns.items()})


def check(path: str, orders: Orders) -> None:
    """Compares the table with the log.

    Raises:
        RuntimeError: they differ.
    """
    query = QueryBuilder().register("t", DeltaTable(path))
    wanted = Counter[str]()
    changed = pa.array(orders.tables[0], pa.int64())
    for first in range(1, orders.loaded + 1, AT_ONCE):
        before = orders.rows_before(first, min(first + AT_ONCE - 1, orders.loaded))
        wanted.update(summed(before.filter(pc.invert(pc.is_in(before.column("id"), changed)))))
    rows = only_changed(orders).rows(0)
    wanted.update(summed(rows))
    sums = ", ".join(f"{text} AS {name}" for name, text in SUMS.items())
    actual = {
        name: int(value) for name, value in pa.table(query.execute(f"SELECT {sums} FROM t")).to_pylist()[0].items()
    }
    if actual != dict(wanted):
        raise RuntimeError(f"{path}: {actual}, not {dict(wanted)}")
    written = f"SELECT * FROM t WHERE updated IS NOT NULL OR id > {orders.loaded}"
    there = pa.table(query.execute(written)).select(SCHEMA.names).cast(SCHEMA).sort_by("id")
    if not there.combine_chunks().equals(rows.combine_chunks()):
        raise RuntimeError(f"{path}: {there.num_rows} changed rows, not the {rows.num_rows} of the log")


def only_changed(orders: Orders) -> Orders:
    """The same changes, of a table that was empty before: its rows are those that were changed."""
    changes = Orders(orders.prefix, 1, orders.partitions, orders.seed)
    changes.tables = orders.tables
    return changes


def main() -> None:
    """Measures, and writes it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--changes", type=int, default=250_000)
    parser.add_argument("--mode", choices=["copy-on-write", "merge-on-read"], default="copy-on-write")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "large_table.jsonl")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="changefeed-large-"))
    job = Job(1, 2, 0, arguments.changes, adopted=arguments.rows, mode=arguments.mode)
    try:
        with KafkaBroker(heap="1g") as broker:
            orders = Orders("large", 1, 2, arguments.seed, arguments.rows)
            bench = Bench(job, orders, broker, folder / "large", 250_000)
            path = bench.table("changefeed", 0)
            for first in range(1, arguments.rows + 1, AT_ONCE):
                rows = orders.rows_before(first, min(first + AT_ONCE - 1, arguments.rows))
                write_deltalake(path, rows, mode="append", target_file_size=FILE)
            say(f"{arguments.rows:,} rows are there")
            bench.send(orders.create())
            bench.send(orders.change(arguments.changes))
            cost = bench.apply("changefeed")
            say(f"{arguments.changes:,} changes: {cost}")
            check(path, orders)
            say("all sums and all changed rows are right")
        result: dict[str, Any] = {name: getattr(arguments, name) for name in ("rows", "changes", "mode", "seed")}
        with arguments.out.open("a") as out:
            print(json.dumps(result | asdict(cost)), file=out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
