"""CPU of a step's write of one table by copy on write and by merge on read, and of a query after it.

    python -m bench.merge_on_read [--rows 1000000] [--changes 1000 50000 500000] [--rounds 3] [--near]

Two equal tables take the same random changes, as a task of the native apply makes them, without Spark: 70 % updates, 20 %
inserts, 10 % deletes, by random keys all over the table, or with `--near` by keys that lie together. The two take turns.
Columns of the output, each for one step: CPU seconds of this process and all below it (reading the log, keys and old rows,
writing files, the commit, its checkpoint), MB in new files, data files, deletion vectors; compaction has its own line. `query`
is the sum of a column, by delta-rs. At the end both tables must hold the same rows.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from bench.native_apply import TYPES, chunks, cpu, drawn, images, random, table
from changefeed.sinks.apply.compaction import CompactionRules, groups
from changefeed.sinks.apply.item import Item, write_item
from changefeed.sinks.delta.native.commit import checkpoint, commit, compact
from changefeed.sinks.delta.native.opened import Opened, open_table
from changefeed.sinks.writes import WriteId
from changefeed.stages.changes import ChunkReader, Window
from changefeed.storage.local import LocalFolder

MODES = ("copy-on-write", "merge-on-read")


def used() -> float:
    """CPU seconds so far, of all processes."""
    return sum(cpu())


def opened(path: Path) -> Opened:
    """The table as it is."""
    at = open_table(LocalFolder(str(path)), "bench")
    assert at is not None
    return at


def apply(path: Path, payloads: list[bytes], number: int, *, marks: bool) -> None:
    """One write."""
    at = opened(path)
    target, files = at.target(tuple(TYPES), ("id",)), at.files(["id"])
    written = write_item(Item(target, ChunkReader(table("t"), Window()), files, "merge", marks), payloads)
    commit(at, [written], WriteId(1, number, 1), "{}", merges_on_read=marks)
    checkpoint(at, at.version + 1)


def compacted(path: Path) -> bool:
    """Compacts the table if it is worth it."""
    at = opened(path)
    target, files = at.target((), ()), at.files()
    reading: Any = ChunkReader(table("t"), Window())
    items = [
        Item(target, reading, files.filter(pc.is_in(files.column("path"), pa.array(group))), "compact")
        for stored in at.stored_files()
        for group in groups(stored, CompactionRules())
    ]
    if items:
        compact(at, [write_item(item, ()) for item in items])
    return bool(items)


def query(path: Path) -> dict[str, Any]:
    """Rows and sums."""
    sql = "SELECT count(*) AS n, sum(id) AS ids, sum(qty) AS qty FROM t"
    sums: dict[str, Any] = pa.table(
        QueryBuilder().register("t", DeltaTable(str(path))).execute(sql).read_all()
    ).to_pylist()[0]
    return sums


def near(rows: int, count: int) -> tuple[Any, Any]:
    """Keys that lie together, and which of them are deleted."""
    start = int(random.integers(0, max(1, rows - count)))
    deleted = np.zeros(count, np.bool_)
    deleted[: count // 10] = True
    return random.permutation(np.arange(start, start + count)), deleted


def stored(path: Path) -> tuple[int, int, int]:
    """Bytes of all files beside the log; data files and vectors of the newest version."""
    files = opened(path).state.files.values()
    size = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
    return size, len(files), sum("deletionVector" in file for file in files)


def measure(root: Path, rows: int, count: int, rounds: int, number: int, *, clustered: bool) -> None:
    """Some steps with so many changes each."""
    for turn in range(rounds):
        made = chunks("t", *(near if clustered else drawn)(rows, count), ts=(number + turn) * 10**9)
        payloads = made.filter(pc.equal(made.column("kind"), "rows")).column("payload").to_pylist()
        for mode in MODES if turn % 2 else MODES[::-1]:
            path, marks = root / mode, mode == "merge-on-read"
            before, began = stored(path)[0], used()
            apply(path, payloads, number + turn, marks=marks)
            step, (size, files, vectors) = used() - began, stored(path)
            began = used()
            query(path)
            asked = used() - began
            print(
                f"{rows:>9,} rows {count:>7,} changes  {mode:<13}  CPU {step:6.2f} s  {(size - before) / 2**20:7.1f} MB written"
                f"  {files:3} files {vectors:3} vectors  query {asked:5.2f} s",
                flush=True,
            )
        began = used()
        if compacted(root / "merge-on-read"):
            print(f"{rows:>9,} rows {'':>15}  compaction     CPU {used() - began:6.2f} s", flush=True)


def main() -> None:
    """Measures all cases on one table of each mode."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, nargs="*", default=[1_000, 50_000, 500_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--near", action="store_true")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the beginning", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        root, rows = Path(folder), arguments.rows
        for piece in np.array_split(np.arange(rows), max(4, rows // 1_000_000)):
            part = pa.Table.from_struct_array(images(piece))
            for mode in MODES:
                write_deltalake(root / mode, part, mode="append")
        number = 1
        for count in arguments.changes:
            measure(root, rows, count, arguments.rounds, number, clustered=arguments.near)
            number += arguments.rounds
        sums = [query(root / mode) for mode in MODES]
        print("the same rows" if sums[0] == sums[1] else f"THE TABLES DIFFER: {sums}", flush=True)
    print(f"load {os.getloadavg()[0]:.1f} at the end", flush=True)


if __name__ == "__main__":
    main()
