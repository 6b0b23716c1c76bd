"""CPU of merging changes into Iceberg tables by PyIceberg's `upsert` and by MERGE of Spark: the peers of job `d` of `bench.jobs`.

    python -m bench.iceberg_merges [--tables 10] [--ways pyiceberg,spark] [--out FILE]

Each table gets a thousand rows, and then 2 000 changes: 1 400 updates, 400 inserts and 200 deletes, reduced to the last of each
key, of six columns. That is what is left of the job without Kafka, decoding and a ledger: a lower bound for a consumer.
Figures are CPU seconds of the process tree, with the start of Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog

from bench.memory import tree
from bench.scale import cpu_of
from tests.services.iceberg_spark import results_of

ROWS, UPDATES, INSERTS, DELETES = 1_000, 1_400, 400, 200


def rows(keys: list[int], chance: random.Random) -> pa.Table:
    """Orders with these keys."""
    start = datetime(2026, 1, 1)
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "customer": pa.array([chance.randrange(10**6) for _ in keys], pa.int64()),
            "status": [chance.choice(["new", "paid", "shipped"]) for _ in keys],
            "note": [f"note {chance.randrange(10**9)}" for _ in keys],
            "total": pa.array([chance.random() * 100 for _ in keys], pa.float64()),
            "at": pa.array([start + timedelta(seconds=chance.randrange(10**7)) for _ in keys], pa.timestamp("us")),
        }
    )


def changes(chance: random.Random) -> tuple[pa.Table, list[int]]:
    """The rows that are there after the changes, and the keys that are deleted."""
    deleted = chance.sample(range(ROWS), DELETES)
    updated = {chance.randrange(ROWS) for _ in range(UPDATES)} - set(deleted)
    return rows([*sorted(updated), *range(ROWS, ROWS + INSERTS)], chance), deleted


def pyiceberg(root: Path, tables: int) -> None:
    """Merges by `upsert` and `delete`, each table in one transaction."""
    chance = random.Random(1)
    catalog = load_catalog("peer", type="sql", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
    catalog.create_namespace("shop")
    for number in range(tables):
        first = rows(list(range(ROWS)), chance)
        table = catalog.create_table(f"shop.t{number}", first.schema)
        table.append(first)
        after, deleted = changes(chance)
        with table.transaction() as change:
            change.upsert(after, join_cols=["id"])
            change.delete(f"id in ({', '.join(map(str, deleted))})")
    catalog.close()


def spark(root: Path, tables: int) -> None:
    """Merges by MERGE INTO, from Parquet files."""
    chance, statements = random.Random(1), ["CREATE NAMESPACE changefeed.shop"]
    for number in range(tables):
        after, deleted = changes(chance)
        first, delta = root / f"first{number}.parquet", root / f"delta{number}.parquet"
        pq.write_table(rows(list(range(ROWS)), chance), first)
        gone = rows(deleted, chance)
        both = pa.concat_tables([after, gone])
        flags = pa.array([False] * len(after) + [True] * len(gone))
        pq.write_table(both.append_column("gone", flags), delta)
        name = f"changefeed.shop.t{number}"
        names = ", ".join(after.column_names)
        sets = ", ".join(f"t.{column} = s.{column}" for column in after.column_names)
        values = ", ".join(f"s.{column}" for column in after.column_names)
        statements += [
            f"CREATE TABLE {name} USING iceberg AS SELECT {names} FROM parquet.`{first}`",
            f"MERGE INTO {name} t USING parquet.`{delta}` s ON t.id = s.id WHEN MATCHED AND s.gone THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {sets} WHEN NOT MATCHED AND NOT s.gone THEN INSERT ({names}) VALUES ({values})",
        ]
    results_of(root, statements)


WAYS: dict[str, Callable[[Path, int], None]] = {"pyiceberg": pyiceberg, "spark": spark}


def measured(way: str, tables: int) -> dict[str, float]:
    """CPU and wall seconds of a way."""
    spent, over = dict[int, float](), threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            spent.update({pid: used for pid in tree(os.getpid()) if (used := cpu_of(pid))})

    watcher = threading.Thread(target=watch)
    with tempfile.TemporaryDirectory() as folder:
        start, own = time.monotonic(), cpu_of(os.getpid())
        watcher.start()
        try:
            WAYS[way](Path(folder), tables)
        finally:
            over.set()
            watcher.join()
        spent[os.getpid()] = cpu_of(os.getpid())
        return {"cpu": round(sum(spent.values()) - own, 1), "seconds": round(time.monotonic() - start, 1)}


def main() -> None:
    """Measures, and writes one line of JSON for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "iceberg_merges.jsonl")
    arguments = parser.parse_args()
    with arguments.out.open("a") as out:
        for way in arguments.ways:
            line = json.dumps({"way": way, "tables": arguments.tables, **measured(way, arguments.tables)})
            print(line, file=out, flush=True)
            print(line, flush=True)


if __name__ == "__main__":
    main()
