"""Applies the records of `bench/orders.py` as a team without Spark would: what `bench/jobs.py` compares with.

    python bench/python_consumer.py {deltalake,pyiceberg} SERVERS PREFIX TABLES LAKE BATCH [--tables URL] [--follow]

confluent-kafka, msgspec, the last change of each key in a dict, pyarrow, and one table after the other: delta-rs's MERGE, or
PyIceberg's `upsert` and `delete` in one transaction, with a catalog in SQLite. Offsets are written to a file after the merges: at
least once for each table, no cuts, no schema changes, no dead letters. With `--follow` it goes on, with a batch a second, until
SIGTERM. With `--tables` the tables of deltalake are below a URL, which it reaches by the variables of the environment, and the
offsets stay in LAKE.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

TYPES = {
    "id": pa.int64(), "customer_id": pa.int32(), "status": pa.string(), "total": pa.decimal128(12, 2), "qty": pa.int32(),
    "note": pa.string(), "created": pa.timestamp("us", "UTC"), "updated": pa.timestamp("us", "UTC"),
}  # fmt: skip
READ_AS = {"total": pa.string(), "created": pa.timestamp("ms", "UTC")}  # before they are cast


Changes = dict[int, tuple[str, dict[str, Any]]]  # the last change of each key: op, and row


def columns(changes: Changes) -> pa.Table:
    """The changes as columns, with `op`."""
    rows = [row for _, row in changes.values()]
    made = {"op": pa.array([op for op, _ in changes.values()])}
    for name, kind in TYPES.items():
        made[name] = pa.array([row[name] for row in rows], READ_AS.get(name, kind)).cast(kind)
    return pa.table(made)


class DeltaLake:
    """Delta tables, by deltalake."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._tables: dict[str, DeltaTable] = {}

    def merge(self, name: str, changes: Changes) -> None:
        """Upserts and deletes of one table."""
        if name not in self._tables:
            path = f"{self._folder}/{name}"
            is_there = DeltaTable.is_deltatable(path)
            self._tables[name] = DeltaTable(path) if is_there else DeltaTable.create(path, pa.schema(TYPES))
        sets = {column: f"s.{column}" for column in TYPES}
        (
            self._tables[name]
            .merge(columns(changes), "t.id = s.id", source_alias="s", target_alias="t")
            .when_matched_delete("s.op = 'd'")
            .when_matched_update(sets)
            .when_not_matched_insert(sets, "s.op <> 'd'")
            .execute()
        )


class IcebergLake:
    """Iceberg tables, by PyIceberg."""

    def __init__(self, folder: str) -> None:
        from pyiceberg.catalog import load_catalog  # not for the other way, whose start it would be part of

        self._catalog = load_catalog(
            "changefeed", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
        )
        self._catalog.create_namespace_if_not_exists("shop")
        self._tables: dict[str, Any] = {}

    def merge(self, name: str, changes: Changes) -> None:
        """Upserts and deletes of one table; a table that is new gets its rows by an append."""
        from pyiceberg.expressions import In

        rows = columns(changes)
        written = rows.filter(pc.field("op") != "d").drop_columns("op")
        if name not in self._tables:
            if not self._catalog.table_exists(("shop", name)):
                self._tables[name] = self._catalog.create_table(("shop", name), written.schema)
                self._tables[name].append(written)
                return
            self._tables[name] = self._catalog.load_table(("shop", name))
        deleted = rows.filter(pc.field("op") == "d")["id"].to_pylist()
        with self._tables[name].transaction() as change:
            if written.num_rows:
                change.upsert(written, join_cols=["id"])
            if deleted:
                change.delete(In("id", deleted))  # type: ignore[arg-type, call-arg]


LAKES: dict[str, Callable[[str], DeltaLake | IcebergLake]] = {"deltalake": DeltaLake, "pyiceberg": IcebergLake}


def main() -> None:
    """Reads all topics to the ends that they have now, or for some time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=LAKES)
    parser.add_argument("servers")
    parser.add_argument("prefix")
    parser.add_argument("tables", type=int)
    parser.add_argument("lake", type=Path)
    parser.add_argument("batch", type=int)
    parser.add_argument("--tables", dest="url", help="URL of the folder of the tables")
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
    lake = LAKES[arguments.way](arguments.url or str(arguments.lake))
    while not ended.is_set() and (left > 0 or follow):
        changes: dict[str, Changes] = {}
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
            lake.merge(name, last)
        scratch = marks.with_suffix(".new")
        scratch.write_text(json.dumps(offsets))
        os.replace(scratch, marks)


if __name__ == "__main__":
    main()
