"""Many items as one Spark job: the chunks of a step go to the tasks that write their tables.

    chunks ──▶ join with the items' tables ──▶ a partition for each slot, sorted by item ──▶ write_item ──▶ TaskResult

A chunk is read once, however many tables a step has, and sent once to each item of its table. An item gets its chunks in a
fixed order as a stream: they are never in memory together.

Chunks that fit into the memory of a task are not sent: each task reads the files itself, and keeps the chunks of its own items
(`ChunkFiles`). `write_here` is for a few rows, without a job.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.chunk_files import read_chunks
from changefeed.frames.chunks import CHUNKS
from changefeed.frames.slices import Work
from changefeed.sinks.delta.native.item import Item, TaskResult, left, write_item

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ORDER = ("item", "topic", "partition", "first_offset", "last_offset", "min_commit_ts", "shape_id")
_READ = ["kind", "database", "table", "max_commit_ts", *_ORDER[1:], "payload"]
_NO_CHUNKS = pa.schema([CHUNKS.field(name) for name in _READ]).empty_table()
_LEAST = 256 * 2**20
_RESULT = "item int, written binary"


@dataclass(frozen=True, slots=True)
class StepWrite:
    """One write of a step: an item, and the chunks that it needs.

    Attributes:
        source: database and table of the chunks.
        after, upto: the range of commit_ts of the chunks, (after, upto]; None means unbounded.
        weight: amount of work, relative to other writes.
    """

    item: Item
    source: tuple[str, str]
    after: int | None = None
    upto: int | None = None
    weight: int = 1

    def takes(self, chunk: Mapping[str, Any]) -> bool:
        """Whether a chunk of the write's table may have changes in the range."""
        low, high = chunk["min_commit_ts"], chunk["max_commit_ts"]
        above = self.after is None or (high is not None and high > self.after)
        return above and (self.upto is None or (low is not None and low <= self.upto))


@dataclass(frozen=True, slots=True)
class ChunkFiles:
    """Parquet files with the columns of `frames.chunks`, at these paths on all machines."""

    spark: SparkSession
    paths: tuple[str, ...]


def write_all(
    chunks: DataFrame | ChunkFiles, writes: Sequence[StepWrite], slots: int, least: int = _LEAST
) -> list[TaskResult]:
    """Carries out writes in a Spark job; returns their results, in order.

    The files of a large table are distributed over several tasks (`split`); a second job writes the rows of keys that no file
    contains.

    Args:
        chunks: the chunks of all writes, with the columns of `frames.chunks`, or the files that contain them.
        writes: the writes, one for each table.
        slots: number of tasks that run at the same time.
        least: minimum size of the files of a task, in bytes.
    """
    split_writes = [split(write, slots, least) for write in writes]
    parts = [part for group in split_writes for part in group]
    done = iter(_run(chunks, parts, slots))
    results = [[next(done) for _ in group] for group in split_writes]
    rest = [
        (i, replace(writes[i], item=left(writes[i].item, [w.matched or b"" for w in group])))
        for i, group in enumerate(results)
        if len(group) > 1
    ]
    for (i, _), written in zip(rest, _run(chunks, [write for _, write in rest], slots), strict=True):
        results[i].append(written)
    return [_joined(group) for group in results]


def write_here(files: Iterable[str], writes: Sequence[StepWrite]) -> list[TaskResult]:
    """Carries out writes in this process: for a few rows, a Spark job costs more than the writes.

    Args:
        files: Parquet files of chunks on this machine, with the columns of `frames.chunks`.
        writes: the writes, one for each table.

    Raises:
        SinkError: a file cannot be read, or as `write_item`.
    """
    return list(_write_each(files, writes))


def _write_each(files: Iterable[str], writes: Sequence[StepWrite]) -> Iterator[TaskResult]:
    """Yields the result of each of the writes; their chunks are read before the first one, and are in memory together."""
    groups = [group for file in files for group in read_chunks(file, _READ[:-1], _taken_by(writes))]
    chunks = pa.concat_tables(groups) if groups else _NO_CHUNKS
    rows_by_source = defaultdict[tuple[str, str], list[int]](list)
    plain, payloads = chunks.drop_columns("payload"), chunks.column("payload")
    order, described = pc.sort_indices(plain, sort_keys=[(name, "ascending") for name in _ORDER[1:]]), plain.to_pylist()
    for row in order.to_pylist():
        rows_by_source[described[row]["database"], described[row]["table"]].append(row)
    for write in writes:
        rows = [row for row in rows_by_source[write.source] if write.takes(described[row])]
        yield write_item(write.item, (payloads[row].as_py() for row in rows))


def _taken_by(writes: Sequence[StepWrite]) -> Callable[[pa.Table], Any]:
    """Returns the function that marks `rows` chunks which one of the writes may take: see `StepWrite.takes`."""
    databases, tables = (pa.array(sorted({write.source[i] for write in writes}), pa.string()) for i in (0, 1))
    afters = [write.after for write in writes if write.after is not None]
    uptos = [write.upto for write in writes if write.upto is not None]

    def mask(chunks: pa.Table) -> Any:
        named = pc.and_(pc.is_in(chunks.column("database"), databases), pc.is_in(chunks.column("table"), tables))
        taken = pc.and_(pc.equal(chunks.column("kind"), "rows"), named)
        if afters and len(afters) == len(writes):
            taken = pc.and_(taken, pc.greater(chunks.column("max_commit_ts"), min(afters)))
        if uptos and len(uptos) == len(writes):
            taken = pc.and_(taken, pc.less_equal(chunks.column("min_commit_ts"), max(uptos)))
        return pc.fill_null(taken, False)

    return mask


def compact_all(spark: SparkSession, items: Sequence[Item], slots: int) -> list[TaskResult]:
    """Compacts files: runs items that have no changes, in one Spark job. Returns one result per item."""
    ids = spark.range(0, len(items), 1, min(slots, len(items)))
    rows = ids.selectExpr("CAST(id AS INT) AS item", "CAST(NULL AS BINARY) AS payload")
    return [pickle.loads(row["written"]) for row in sorted(rows.mapInArrow(worker(items), _RESULT).collect())]


def split(write: StepWrite, slots: int, least: int = _LEAST) -> list[StepWrite]:
    """Splits a write with large files into several, each with some of the files; files with close keys stay together."""
    files = write.item.files
    size = pc.sum(files.column("size")).as_py() or 0
    count = min(slots, size // least, len(files))
    if write.item.way != "merge" or count < 2:
        return [write]
    if "low_0" in files.column_names:
        files = files.sort_by("low_0")
    ends, grown = [0], 0
    for i, bytes_ in enumerate(files.column("size").to_pylist()):
        grown += bytes_
        if grown >= size * len(ends) / count and len(ends) < count:
            ends.append(i + 1)
    ends.append(len(files))
    groups = [files.slice(a, b - a) for a, b in pairwise(ends) if b > a]
    if len(groups) < 2:
        return [write]
    return [replace(write, item=replace(write.item, files=group, alone=False)) for group in groups]


def _joined(parts: Sequence[TaskResult]) -> TaskResult:
    if len(parts) == 1:
        return parts[0]
    added = tuple(file for part in parts for file in part.added)
    removed = tuple(path for part in parts for path in part.removed)
    return TaskResult(added, removed, parts[0].read, marked=tuple(file for part in parts for file in part.marked))


def _run(chunks: DataFrame | ChunkFiles, writes: Sequence[StepWrite], slots: int) -> list[TaskResult]:
    if not writes:
        return []
    items = [write.item for write in writes]
    count = min(slots, len(writes))
    slot_of = _slots([write.weight for write in writes], count)
    if isinstance(chunks, ChunkFiles):
        numbers = chunks.spark.range(0, count, 1, count)
        done = numbers.mapInArrow(_reading_worker(chunks.paths, writes, slot_of), _RESULT)
    else:
        done = _dealt(chunks, writes, slot_of, count).mapInArrow(worker(items), _RESULT)
    results_by_item = {row["item"]: pickle.loads(row["written"]) for row in done.collect()}
    return [results_by_item[i] if i in results_by_item else write_item(item, ()) for i, item in enumerate(items)]


def _dealt(chunks: DataFrame, writes: Sequence[StepWrite], slot_of: Sequence[int], count: int) -> DataFrame:
    """Returns (item, payload) rows in `count` partitions, each sorted by item."""
    from pyspark.sql import functions as F

    lines = pa.table(
        {
            "item": pa.array(range(len(writes)), pa.int32()),
            "slot": pa.array(slot_of, pa.int32()),
            "of_database": [write.source[0] for write in writes],
            "of_table": [write.source[1] for write in writes],
            "after": pa.array([write.after for write in writes], pa.int64()),
            "upto": pa.array([write.upto for write in writes], pa.int64()),
        }
    )
    wanted = F.broadcast(chunks.sparkSession.createDataFrame(lines))
    mine = (
        (F.col("database") == F.col("of_database"))
        & (F.col("table") == F.col("of_table"))
        & (F.col("after").isNull() | (F.col("max_commit_ts") > F.col("after")))
        & (F.col("upto").isNull() | (F.col("min_commit_ts") <= F.col("upto")))
    )
    joined = chunks.where("kind = 'rows'").join(wanted, mine).select("slot", *_ORDER, "payload")
    return joined.repartitionById(count, "slot").sortWithinPartitions(*_ORDER).select("item", "payload")


def _slots(weights: Sequence[int], count: int) -> list[int]:
    """Assigns each weight to a slot: the heaviest first, each to the slot with the lowest sum."""
    loads, slot_of = [0] * count, [0] * len(weights)
    for i in sorted(range(len(weights)), key=lambda i: -weights[i]):
        slot_of[i] = min(range(count), key=loads.__getitem__)
        loads[slot_of[i]] += weights[i] + 1
    return slot_of


def worker(items: Sequence[Item]) -> Work:
    """The function that runs in Spark's Python workers: items' payloads in, what was written out."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (
            (number, payload)
            for batch in batches
            for number, payload in zip(batch.column(0).to_pylist(), batch.column(1), strict=True)
        )
        for number, mine in groupby(rows, itemgetter(0)):
            yield _result(number, write_item(items[number], (payload.as_py() for _, payload in mine)))

    return run


def _reading_worker(paths: Sequence[str], writes: Sequence[StepWrite], slot_of: Sequence[int]) -> Work:
    """Returns the function that workers run: numbers of slots in, the results of the slots' items out."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for slot in (slot for batch in batches for slot in batch.column(0).to_pylist()):
            mine = [item for item, of in enumerate(slot_of) if of == slot]
            for item, written in zip(mine, _write_each(paths, [writes[item] for item in mine]), strict=True):
                yield _result(item, written)

    return run


def _result(item: int, written: TaskResult) -> pa.RecordBatch:
    columns = [pa.array([item], pa.int32()), pa.array([pickle.dumps(written)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["item", "written"])
