"""Measures the CPU time of a step's writes: a MERGE of each table, and the native apply, on equal tables with the same changes.

    python bench/native_apply.py [--rows 1000000] [--changes 50000 500000] [--tables 100] [--each 200] [--merged 100]
        [--rounds 3] [--alone]

First one table of `--rows` rows gets random changes (70 % updates, 20 % inserts, 10 % deletes by random keys), then `--tables`
tables of 2 000 rows get a few each (MERGE only `--merged` of them, because it takes so long). Both ways read the same chunks
from a folder of Parquet files, as the pending store writes it. They take turns, the other one first in every second round;
the first round of each case warms up. CPU seconds are those of this process and all below it. At the end both ways' tables
must hold the same rows. With `--alone` there is no Spark and no MERGE: the same work in one process, as a task does it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import write_deltalake

from changefeed.frames.chunks import pack
from changefeed.model.batch import Decoded, TableBatch, record_columns, table_schema
from changefeed.model.definition import Table
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.pipeline.pending.store import PendingStore
from changefeed.sinks.apply.item import Item, write_item
from changefeed.sinks.apply.job import StepWrite, write_all
from changefeed.sinks.delta.native.commit import checkpoint, commit
from changefeed.sinks.delta.native.opened import open_table
from changefeed.sinks.writes import WriteId
from changefeed.spark_runtime.session import compiled, session
from changefeed.stages.changes import ChunkReader, Window, changes
from changefeed.stages.latest import latest
from changefeed.storage.local import LocalFolder
from tests.sinks.delta_native.by_sink import SinkWriter

TYPES = {
    "id": "bigint", "name": "varchar(64)", "email": "varchar(64)", "amount": "decimal(12,2)", "created": "timestamp",
    "updated": "datetime(6)", "qty": "int", "note": "varchar(255)",
}  # fmt: skip
COLUMNS = tuple(Column(n, ColumnType.parse(t), key=n == "id") for n, t in TYPES.items())
SLOTS = 2
HZ = os.sysconf("SC_CLK_TCK")
random = np.random.default_rng(7)


def table(name: str) -> Table:
    """The definition of one table."""
    return Table("app", name, COLUMNS, ("id",))


def images(ids: Any) -> pa.StructArray:
    """Rows of about 120 bytes under these keys."""
    count = len(ids)
    text, noise = pa.array(ids).cast(pa.string()), pa.array(random.integers(0, 10**15, count)).cast(pa.string())
    micros = 1_700_000_000_000_000 + random.integers(0, 10**13, count)
    return pa.StructArray.from_arrays(
        [
            pa.array(ids, pa.int64()),
            pc.binary_join_element_wise("customer", text, " "),
            pc.binary_join_element_wise(text, "mail.example", "@"),
            pa.array(random.integers(0, 10**8, count)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)),
            pa.array(micros).cast(pa.timestamp("us", "UTC")),
            pa.array(micros + 1).cast(pa.timestamp("us")),
            pa.array(random.integers(0, 1000, count), pa.int32()),
            pc.binary_join_element_wise(noise, noise, "-"),
        ],
        fields=[pa.field(c.name, c.type.arrow) for c in COLUMNS],
    )


def chunks(name: str, ids: Any, deleted: Any, ts: int) -> pa.RecordBatch:
    """Upserts of these keys, or deletes, as chunks of 4 000 rows."""
    shape, packed = TableShape("app", name, COLUMNS), []
    for start in range(0, len(ids), 4000):
        mine, gone = ids[start : start + 4000], deleted[start : start + 4000]
        rows, count = images(mine), len(mine)
        offsets = pa.array(np.arange(start, start + count), pa.int64())
        columns = {
            "record": pa.array(np.arange(count), pa.int32()),
            "topic": pa.repeat("t", count),
            "partition": pa.repeat(pa.scalar(0, pa.int32()), count),
            "offset": offsets,
            "op": pc.if_else(pa.array(gone), "delete", "upsert"),
            "commit_ts": pa.array(np.arange(ts + start, ts + start + count), pa.uint64()),
            "before": pc.if_else(pa.array(gone), rows, pa.nulls(count, rows.type)),
            "after": pc.if_else(pa.array(gone), pa.nulls(count, rows.type), rows),
        }
        schema = table_schema(shape)
        arrays = [columns[f.name] if f.name in columns else _nothing(f, count) for f in schema]
        batch = TableBatch(shape, pa.RecordBatch.from_arrays(arrays, schema=schema))
        records = record_columns(count, topic=pa.repeat("t", count), partition=columns["partition"], offset=offsets)
        packed.append(pack(Decoded([batch], [], []), records))
    return pa.concat_batches(packed)


def _nothing(field: pa.Field, count: int) -> pa.Array:
    return pa.array([[]] * count, field.type) if pa.types.is_map(field.type) else pa.nulls(count, field.type)


def drawn(rows: int, count: int) -> tuple[Any, Any]:
    """Keys that change, and which of them are deleted."""
    old = random.permutation(rows)[: count - count // 5]
    ids = np.concatenate([old, random.integers(rows, 4 * rows, count // 5)])
    deleted = np.zeros(count, np.bool_)
    deleted[: count // 10] = True
    order = random.permutation(count)
    return ids[order], deleted[order]


def cpu() -> tuple[float, float]:
    """CPU seconds so far of the JVM, and of everything else of this process and below it, the ended included."""
    stats = {int(p): s for p in os.listdir("/proc") if p.isdigit() and (s := _stat(int(p)))}
    mine, todo = [], [os.getpid()]
    while todo:
        pid = todo.pop()
        mine.append(pid)
        todo += [p for p, (_, parent, _, _) in stats.items() if parent == pid]
    own = [stats[p] for p in mine if p in stats]
    java = sum(used for name, _, used, _ in own if name == "java")
    rest = sum(ended + (used if name != "java" else 0) for name, _, used, ended in own)
    return java / HZ, rest / HZ


def _stat(pid: int) -> tuple[str, int, int, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
    return name, int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])


class Bench:
    """Both ways over the tables of one case."""

    def __init__(self, spark: Any, root: Path, names: list[str], merged: int, *, large: bool) -> None:
        self.spark, self.root, self.names, self.large, self.step = spark, root, names, large, 1
        self.merged = names[:merged]
        self.writer = SinkWriter(spark, "bench", ())
        self.pending = PendingStore(spark, str(root / "pending"), folder=LocalFolder(str(root / "pending")))

    def begin(self, rows: int, files: int) -> None:
        """Makes the tables, all equal, twice."""
        first = self.root / "merge" / self.names[0]
        frame = self._frame(images(np.arange(rows)))
        with compiled(self.spark):
            self.writer.create(str(first), table(self.names[0]), WriteId(1, 1, 1), "{}")
            frame.repartitionByRange(files, "id").write.format("delta").mode("append").save(str(first))
        for way in ("merge", "native"):
            for name in self.names:
                if not (self.root / way / name).exists():
                    shutil.copytree(first, self.root / way / name)

    def _frame(self, rows: pa.StructArray) -> Any:
        pq.write_table(pa.Table.from_struct_array(rows), self.root / "base.parquet", row_group_size=100_000)
        return self.spark.read.parquet(str(self.root / "base.parquet"))

    def draw(self, rows: int, count: int) -> str:
        """The next step's changes of every table, as a folder of the pending store."""
        self.step += 1
        folder = self.root / "pending" / f"{self.step:06d}"
        folder.mkdir(parents=True)
        made = [chunks(name, *drawn(rows, count), ts=self.step * 10**9) for name in self.names]
        whole = pa.Table.from_batches(made)
        half = max(1, len(whole) // 2)
        for number, piece in enumerate((whole.slice(0, half), whole.slice(half))):
            pq.write_table(piece.rename_columns(_STORED), folder / f"part-{number}.parquet", compression="zstd")
        return folder.name

    def merge(self, folder: str) -> None:
        """Writes the tables as `pipeline.executor` writes those of a step."""
        with compiled(self.spark) if self.large else nullcontext():
            for name in self.merged:
                mine = self.pending.table(self.spark, [folder], ("app", name), None, None)
                last = latest(changes(mine, table(name), Window()), table(name), partial=False)
                path = str(self.root / "merge" / name)
                self.writer.merge(path, table(name), last, WriteId(1, self.step, 1), "{}", partial=False)

    def native(self, folder: str) -> None:
        """One job, and one commit a table."""
        at, writes = {}, []
        for name in self.names:
            opened = open_table(LocalFolder(str(self.root / "native" / name)), "bench")
            assert opened is not None
            assert opened.refused() is None
            at[name] = opened
            item = Item(
                opened.target(tuple(TYPES), ("id",)), ChunkReader(table(name), Window()), opened.files(["id"]), "merge"
            )
            writes.append(StepWrite(item, ("app", name)))
        done = write_all(self.spark, writes, SLOTS, chunks=self.pending.read([folder]))

        def finish(name: str, written: Any) -> None:
            commit(at[name], [written], WriteId(1, self.step, 1), "{}")
            checkpoint(at[name], at[name].version + 1)

        with ThreadPoolExecutor(4) as pool:
            for result in [pool.submit(finish, *pair) for pair in zip(self.names, done, strict=True)]:
                result.result()

    def check(self) -> str:
        """Whether both ways' tables hold the same rows."""
        differ = 0
        for name in self.merged[:5]:
            rows = [
                self.spark.sql(
                    f"SELECT count(*), count(DISTINCT id), sum(xxhash64(*) % 1000003) FROM delta.`{self.root}/{way}/{name}`"
                ).first()
                for way in ("merge", "native")
            ]
            differ += rows[0] != rows[1]
        return "the same rows" if not differ else f"{differ} TABLES DIFFER"


_STORED = [
    "kind", "database", "table", "shape_id", "shape", "rows", "min_commit_ts", "max_commit_ts", "topic", "partition",
    "first_offset", "last_offset", "payload",
]  # fmt: skip


def measured(way: Callable[[str], None], folder: str) -> tuple[float, float, float]:
    """Seconds by the clock, CPU seconds of the JVM, CPU seconds of all else."""
    before, began = cpu(), time.monotonic()
    way(folder)
    took, after = time.monotonic() - began, cpu()
    return took, after[0] - before[0], after[1] - before[1]


def rounds(bench: Bench, what: str, rows: int, count: int, number: int) -> None:
    """Takes turns, and prints what each round took."""
    kept: dict[str, list[float]] = {"merge": [], "native": []}
    for turn in range(number + 1):
        folder = bench.draw(rows, count)
        for way in ("merge", "native") if turn % 2 else ("native", "merge"):
            took, java, rest = measured(getattr(bench, way), folder)
            kept[way].append(java + rest)
            label, where = "warm-up" if turn == 0 else f"round {turn}", f"(JVM {java:7.2f}, rest {rest:6.2f})"
            print(
                f"{what:<44} {label:<8} {way:<7} CPU {java + rest:7.2f} s  {where}  clock {took:.1f} s",
                flush=True,
            )
    merge, native = (float(np.median(kept[way][1:])) for way in ("merge", "native"))
    print(
        f"{what:<44} median   merge {merge:.2f} s, native {native:.2f} s: {merge / native:.1f} x; {bench.check()}",
        flush=True,
    )


def alone(root: Path, names: list[str], rows: int, files: int, count: int, number: int) -> None:
    """The native apply in this process: rows that are read and written, and commits."""
    for name in names:
        for piece in np.array_split(np.arange(rows), files):
            write_deltalake(root / name, pa.Table.from_struct_array(images(piece)), mode="append")
    for step in range(1, number + 2):
        payloads = {}
        for name in names:
            made = chunks(name, *drawn(rows, count), ts=step * 10**9)
            payloads[name] = made.filter(pc.equal(made.column("kind"), "rows")).column("payload").to_pylist()
        used, began = [0.0, 0.0, 0.0], time.monotonic()
        for name in names:
            marks = [time.process_time()]
            opened = open_table(LocalFolder(str(root / name)), "bench")
            assert opened is not None
            item = Item(
                opened.target(tuple(TYPES), ("id",)), ChunkReader(table(name), Window()), opened.files(["id"]), "merge"
            )
            marks.append(time.process_time())
            written = write_item(item, payloads[name])
            marks.append(time.process_time())
            commit(opened, [written], WriteId(1, step, 1), "{}")
            checkpoint(opened, opened.version + 1)
            marks.append(time.process_time())
            used = [total + after - before for total, before, after in zip(used, marks, marks[1:], strict=False)]
        took = time.monotonic() - began
        opening, writing, committing = used
        print(
            f"alone  {len(names)} tables of {rows:,} rows, {count:,} changes each: CPU {sum(used):.2f} s (open {opening:.2f}, "
            f"write {writing:.2f}, commit {committing:.2f})  clock {took:.1f} s",
            flush=True,
        )


def main() -> None:
    """Measures both cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, nargs="*", default=[50_000, 500_000])
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--each", type=int, default=200)
    parser.add_argument("--merged", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", action="store_true")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the beginning", flush=True)
    if arguments.alone:
        with tempfile.TemporaryDirectory() as folder:
            for count in arguments.changes:
                alone(Path(folder) / f"{count}", ["t"], arguments.rows, 4, count, arguments.rounds)
            names = [f"t{i}" for i in range(arguments.tables)]
            alone(Path(folder) / "small", names, 2000, 1, arguments.each, arguments.rounds)
        return
    spark = session("native-apply", master=f"local[{SLOTS}]")
    with tempfile.TemporaryDirectory() as folder:
        if arguments.changes:
            large = Bench(spark, Path(folder) / "large", ["t"], 1, large=True)
            large.root.mkdir()
            large.begin(arguments.rows, 4)
            for count in arguments.changes:
                rounds(
                    large,
                    f"1 table, {count:,} changes in {arguments.rows:,} rows",
                    arguments.rows,
                    count,
                    arguments.rounds,
                )
        if arguments.tables:
            names = [f"t{i}" for i in range(arguments.tables)]
            small = Bench(spark, Path(folder) / "small", names, arguments.merged or len(names), large=False)
            small.root.mkdir()
            small.begin(2000, 1)
            rounds(
                small,
                f"{arguments.tables} tables, {arguments.each} changes each",
                2000,
                arguments.each,
                arguments.rounds,
            )
    spark.stop()


if __name__ == "__main__":
    main()
