"""Applies the records of `bench/orders.py` as a team without Spark would: what `bench/jobs.py` compares with.

    python bench/deltalake_consumer.py SERVERS PREFIX TABLES LAKE BATCH [--follow]

confluent-kafka, msgspec, the last change of each key in a dict, pyarrow, and delta-rs's MERGE of one table after the other.
Offsets are written to a file after the merges: at least once for each table, no cuts, no schema changes, no dead letters.
With `--follow` it goes on, with a batch a second, until SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

TYPES = {
    "id": pa.int64(), "customer_id": pa.int32(), "status": pa.string(), "total": pa.decimal128(12, 2), "qty": pa.int32(),
    "note": pa.string(), "created": pa.timestamp("us", "UTC"), "updated": pa.timestamp("us", "UTC"),
}  # fmt: skip
READ_AS = {"total": pa.string(), "created": pa.timestamp("ms", "UTC")}  # before they are cast


def merge(table: DeltaTable, changes: dict[int, tuple[str, dict[str, Any]]]) -> None:
    """Upserts and deletes of one table."""
    rows = [row for _, row in changes.values()]
    columns = {"op": pa.array([op for op, _ in changes.values()])}
    for name, kind in TYPES.items():
        columns[name] = pa.array([row[name] for row in rows], READ_AS.get(name, kind)).cast(kind)
    sets = {name: f"s.{name}" for name in TYPES}
    (
        table.merge(pa.table(columns), "t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_delete("s.op = 'd'")
        .when_matched_update(sets)
        .when_not_matched_insert(sets, "s.op <> 'd'")
        .execute()
    )


def main() -> None:
    """Reads all topics to the ends that they have now, or for some time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers")
    parser.add_argument("prefix")
    parser.add_argument("tables", type=int)
    parser.add_argument("lake", type=Path)
    parser.add_argument("batch", type=int)
    parser.add_argument("--follow", action="store_true")
    arguments = parser.parse_args()
    topics = [f"{arguments.prefix}.shop.t{number}" for number in range(arguments.tables)]
    arguments.lake.mkdir(parents=True, exist_ok=True)
    marks = arguments.lake / "offsets.json"
    offsets: dict[str, int] = json.loads(marks.read_text()) if marks.exists() else {}
    consumer = Consumer(
        {
            "bootstrap.servers": arguments.servers, "group.id": "none", "enable.auto.commit": False,
            "fetch.message.max.bytes": 8_000_000, "queued.max.messages.kbytes": 131_072,
        }
    )  # fmt: skip
    known = consumer.list_topics(timeout=10).topics
    parts = [
        TopicPartition(topic, part, offsets.get(f"{topic}:{part}", 0))
        for topic in topics
        for part in known[topic].partitions
    ]
    ends = [consumer.get_watermark_offsets(TopicPartition(p.topic, p.partition), timeout=10)[1] for p in parts]
    left = sum(end - part.offset for end, part in zip(ends, parts, strict=True))
    consumer.assign(parts)
    follow, ended = arguments.follow, threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    tables: dict[str, DeltaTable] = {}
    while not ended.is_set() and (left > 0 or follow):
        changes: dict[str, dict[int, tuple[str, dict[str, Any]]]] = {}
        count, began = 0, time.monotonic()
        while count < (arguments.batch if follow else min(arguments.batch, left)):
            for message in consumer.consume(min(5000, arguments.batch - count), timeout=0.1 if follow else 1.0):
                event = msgspec.json.decode(message.value() or b"null")
                row = event["before"] if event["op"] == "d" else event["after"]
                changes.setdefault(event["source"]["table"], {})[row["id"]] = event["op"], row
                offsets[f"{message.topic()}:{message.partition()}"] = (message.offset() or 0) + 1
                count += 1
            if follow and time.monotonic() - began > 1.0:
                break
        left -= count
        for name, last in changes.items():
            if name not in tables:
                path = str(arguments.lake / name)
                tables[name] = (
                    DeltaTable(path) if DeltaTable.is_deltatable(path) else DeltaTable.create(path, pa.schema(TYPES))
                )
            merge(tables[name], last)
        scratch = marks.with_suffix(".new")
        scratch.write_text(json.dumps(offsets))
        os.replace(scratch, marks)


if __name__ == "__main__":
    main()
