"""Measures the cost of many tables: decoding and packing records of one table, of a hundred and of a thousand, in one process.

    python -m bench.many_tables [--tables 1 100 1000] [--changes 1000] [--rounds 3] [--json]

The records are those of `jobs.py`: Debezium's JSON without schemas, with the CREATE TABLE of each table; each table has
`--changes` changes, a single one a thousand times as many. The tables have topics of their own, which are read one after the
other or take turns, or take turns in one topic. CPU microseconds of this process for each record: the first time, with what a
new table costs, and when all tables are known; of the latter, those of the decoder alone, without packing.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from statistics import median
from time import process_time
from typing import Any

import pyarrow as pa

from bench.orders import Orders
from changefeed.model.batch import RECORDS, record_batch
from changefeed.spark_runtime.daemon import keep_memory
from changefeed.stages.decode import Gathered, RecordReader, arrived

_BATCH = 10_000  # records, as many as Spark sends at once
_OPTIONS = {"decimal.handling.mode": "string"}
_ALONE = 1000  # times as many changes, if there is one table
_TOPICS, _TURNS, _ONE = "in topics of their own", "in topics of their own that take turns", "take turns in one topic"


def batches(tables: int, changes: int, order: str) -> Iterator[pa.RecordBatch]:
    """The records in the order in which a task reads them."""
    orders, offsets = Orders("bench", tables, 1, 7, 0), defaultdict[str, int](int)
    read = defaultdict[str, list[dict[str, Any]]](list)
    for source, _, key, value in (*orders.create(), *orders.change(tables * changes)):
        topic = "bench" if order == _ONE else source
        record = {"topic": topic, "partition": 0, "offset": offsets[topic], "key": key, "value": value}
        offsets[topic] += 1
        read[topic if order == _TOPICS else ""].append(record)
    columns = [name for name in RECORDS.names if not name.startswith("timestamp")]
    for records in read.values():
        for start in range(0, len(records), _BATCH):
            yield record_batch(records[start : start + _BATCH]).select(columns)


def costs(read: list[pa.RecordBatch]) -> tuple[float, float, float]:
    """CPU microseconds for each record: the first time, again, and again in the decoder alone."""
    reader = RecordReader("debezium-mysql", _OPTIONS)
    first, _ = cost(reader, read)
    return first, *cost(reader, read[1:])  # without the CREATE TABLEs


def cost(reader: RecordReader, read: list[pa.RecordBatch]) -> tuple[float, float]:
    """CPU microseconds for each record, decoded and packed as a task does it, and decoded alone."""
    began, gathered, decoding = process_time(), Gathered(iter(read)), 0.0
    for batch in gathered:
        records = arrived(batch)
        start = process_time()
        decoded = reader(records)
        decoding += process_time() - start
        gathered.tables = len(decoded.tables)
        reader.pack(decoded, records)
    count = sum(map(len, read))
    return (process_time() - began) / count * 1e6, decoding / count * 1e6


def main() -> None:
    """Measures each number of tables, in each order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    keep_memory()  # as in a worker
    for tables in arguments.tables:
        changes = arguments.changes * (_ALONE if tables == 1 else 1)
        for order in (_TOPICS, _TURNS, _ONE) if tables > 1 else [_TOPICS]:
            read = list(batches(tables, changes, order))
            measured = [costs(read) for _ in range(arguments.rounds)]
            first, again, decoding = map(list, zip(*measured, strict=True))
            if arguments.json:
                result = {"tables": tables, "changes": changes, "order": order}
                print(json.dumps(result | {"first": first, "again": again, "decoding": decoding}))
            else:
                shown = f"{median(first):.1f} µs a record, all known {median(again):.1f}, decoding alone {median(decoding):.1f}"
                print(f"{tables:>5} tables of {changes} changes {order}: {shown}")


if __name__ == "__main__":
    main()
