"""CPU of a step's write of one table into Iceberg, beside the same write into Delta.

    python -m bench.iceberg_writes [--rows 1000000] [--changes 1000 50000] [--rounds 3]

Equal tables take the same random changes, as a task of the native apply makes them, without Spark: 70 % updates, 20 % inserts,
10 % deletes, by random keys all over the table. The ways take turns, in another order each round:

    delta                copy on write, merge on read
    iceberg 2, 3         format version 2 and 3: copy on write, merge on read
    iceberg 2, 16 buckets    partitions by bucket(16, id)

Each line has the median of the rounds: CPU seconds of this process for one step (reading the log or the manifests, keys and old
rows, writing files, the commit). At the end all tables must hold the same rows.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

from bench import merge_on_read
from bench.native_apply import TYPES, chunks, drawn, images, table
from changefeed.sinks.apply.files import Added
from changefeed.sinks.apply.item import Item, Typed, write_item
from changefeed.sinks.apply.step import no_files
from changefeed.sinks.apply.target import Target
from changefeed.sinks.base import WriteRequest
from changefeed.sinks.iceberg.catalog import TableCatalog
from changefeed.sinks.iceberg.commit import commit, create
from changefeed.sinks.iceberg.layout import IcebergLayout
from changefeed.sinks.iceberg.manifests import Change
from changefeed.sinks.iceberg.opened import Opened
from changefeed.sinks.iceberg.options import TableOptions
from changefeed.sinks.iceberg.partition_fields import PartitionField
from changefeed.sinks.iceberg.partitions import fields_of
from changefeed.sinks.iceberg.schema import arrow_schema, new_schema
from changefeed.sinks.iceberg.sink import IcebergTables
from changefeed.sinks.iceberg.types import columns_of
from changefeed.sinks.writes import Load, Upsert, WriteId
from changefeed.stages.changes import ChunkReader, Window
from changefeed.storage.local import LocalFolder

BUCKETS = (PartitionField("id", "bucket[16]"),)
ICEBERG = {
    "iceberg 2, copy": TableOptions(),
    "iceberg 2, marks": TableOptions(merges_on_read=True),
    "iceberg 3, copy": TableOptions(format_version=3),
    "iceberg 3, marks": TableOptions(format_version=3, merges_on_read=True),
    "iceberg 2, 16 buckets, copy": TableOptions(lambda name: BUCKETS),
    "iceberg 3, 16 buckets, marks": TableOptions(lambda name: BUCKETS, 3, True),
}
DELTA = {"delta, copy": False, "delta, marks": True}
PATH = "bench/t"


class Iceberg:
    """One Iceberg table in a catalog of its own."""

    def __init__(self, folder: Path, options: TableOptions) -> None:
        folder.mkdir()
        self._uri = f"sqlite:///{folder}/catalog.db"
        self._catalog = TableCatalog(
            "bench", {"type": "sql", "uri": self._uri}, "{database}", LocalFolder(str(folder)), f"file://{folder}"
        )
        self._sink = IcebergTables(self._catalog, owner="bench", options=options)
        self._options = options

    def load(self, parts: list[pa.Table]) -> None:
        """Makes the table, with a file or more for each part."""
        definition = table("t")
        schema = new_schema(columns_of(definition, ()))
        new = self._options.new_table(self._sink.location(PATH), schema, definition)
        folder = self._catalog.folder.subfolder(PATH)
        layout = IcebergLayout(folder, arrow_schema(schema), {0: fields_of(new.spec, schema)})
        added = list[Added]()
        for part in parts:
            item = Item(Target(layout, layout.schema, tuple(TYPES), ()), Typed(_typed(part)), no_files(), "append")
            added += write_item(item, ()).added
        create(self._catalog, new, "bench", added, _request(Load, 1))

    def opened(self) -> Opened:
        """The table as it is."""
        opened = self._sink.open(PATH)
        assert opened is not None
        return opened

    def apply(self, payloads: list[bytes], number: int) -> None:
        """One write."""
        opened, marks = self.opened(), self._options.merges_on_read
        target = opened.target(tuple(TYPES), ("id",))
        reading = ChunkReader(table("t"), Window())
        written = write_item(Item(target, reading, opened.stored(["id"]), "merge", marks), payloads)
        removed = frozenset(name for name, _ in written.removed)
        commit(self._catalog, opened, Change(written.added, removed, written.marked), _request(Upsert, number))

    def sums(self) -> dict[str, Any]:
        """Rows and sums, as PyIceberg reads them."""
        catalog = load_catalog("bench", type="sql", uri=self._uri)
        rows = catalog.load_table("bench.t").scan(selected_fields=("id", "qty")).to_arrow()
        catalog.close()
        return {"n": len(rows), "ids": pc.sum(rows.column("id")).as_py(), "qty": pc.sum(rows.column("qty")).as_py()}


def _request(kind: Any, number: int) -> WriteRequest:
    return WriteRequest(kind(path=PATH, number=1, table=table("t")), None, WriteId(1, number, 1), "{}")


def _typed(part: pa.Table) -> list[pa.RecordBatch]:
    """Rows as typed changes."""
    names = [f"c{place}" for place in range(part.num_columns)]
    changes = part.rename_columns(names).append_column("_deleted", pa.array(np.zeros(len(part), np.bool_)))
    batches: list[pa.RecordBatch] = changes.to_batches()
    return batches


def main() -> None:
    """Measures all cases on one table of each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, nargs="*", default=[1_000, 50_000])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the beginning", flush=True)
    with tempfile.TemporaryDirectory() as name:
        root, rows = Path(name), arguments.rows
        parts = [
            pa.Table.from_struct_array(images(piece))
            for piece in np.array_split(np.arange(rows), max(4, rows // 1_000_000))
        ]
        for way in DELTA:
            for part in parts:
                write_deltalake(root / way, part, mode="append")
        tables = {way: Iceberg(root / way, options) for way, options in ICEBERG.items()}
        for of in tables.values():
            of.load(parts)
        number = 2
        for count in arguments.changes:
            spent = defaultdict[str, list[float]](list)
            for turn in range(arguments.rounds):
                made = chunks("t", *drawn(rows, count), ts=number * 10**9)
                payloads = made.filter(pc.equal(made.column("kind"), "rows")).column("payload").to_pylist()
                ways = [*DELTA, *tables]
                for way in [*ways[turn:], *ways[:turn]]:
                    began = merge_on_read.used()
                    if way in tables:
                        tables[way].apply(payloads, number)
                    else:
                        merge_on_read.apply(root / way, payloads, number, marks=DELTA[way])
                    spent[way].append(merge_on_read.used() - began)
                number += 1
            for way, steps in spent.items():
                beside = statistics.median(spent["delta, marks" if way.endswith("marks") else "delta, copy"])
                middle = statistics.median(steps)
                print(
                    f"{rows:>9,} rows {count:>7,} changes  {way:<28}  CPU {middle:6.2f} s  {middle / beside:5.2f} x Delta's",
                    flush=True,
                )
        sums = [of.sums() for of in tables.values()] + [merge_on_read.query(root / way) for way in DELTA]
        print("the same rows" if all(one == sums[0] for one in sums) else f"THE TABLES DIFFER: {sums}", flush=True)
    print(f"load {os.getloadavg()[0]:.1f} at the end", flush=True)


if __name__ == "__main__":
    main()
