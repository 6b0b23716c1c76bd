"""Many items as one Spark job: the chunks of a step go to the tasks that write their tables.

    chunks ──▶ join with the items' tables ──▶ a partition for each slot, sorted by item ──▶ write_item ──▶ TaskResult

A chunk is read once, however many tables a step has, and sent once to each item of its table. An item gets its chunks in a
fixed order as a stream: they are never in memory together.

Chunks in files that tasks can read are not sent: each task reads the files of its own items. `write_here` is for a few rows,
without a job.
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

from changefeed.frames.chunk_files import StoredChunks
from changefeed.frames.mapped import Work
from changefeed.sinks.apply.item import Item, TaskResult, Typed, unmatched, write_item
from changefeed.stages.changes import ChunkReader
from changefeed.stages.together import together
from changefeed.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ORDER = ("item", "topic", "partition", "first_offset", "last_offset", "min_commit_ts", "shape_id")
_READ = ["kind", "database", "table", "rows", "max_commit_ts", *_ORDER[1:]]
_LEAST = 256 * 2**20
_SMALL_ROWS, _SMALL_CHUNKS = 2_000, 8  # typing a batch costs as much as hundreds of rows
_TOGETHER_BYTES = 8 * 2**20  # of payloads
_RESULTS_AT_ONCE = 100
_LARGE_RESULT = 2**18  # bytes; a result may have deletion vectors
_RESULT = "item int, written binary"


@dataclass(frozen=True, slots=True)
class StepWrite:
    """One write of a step: an item, and the chunks that it needs.

    Attributes:
        source: database and table of the chunks.
        after, upto: the range of commit_ts of the chunks, (after, upto]; None means unbounded.
        weight: amount of work, relative to other writes.
        files: names of the files with the chunks in `store`, if tasks can read them.
    """

    item: Item
    source: tuple[str, str]
    after: int | None = None
    upto: int | None = None
    weight: int = 1
    files: frozenset[str] = frozenset()
    store: Folder | None = None

    def takes(self, chunk: Mapping[str, Any]) -> bool:
        """Whether a chunk of the write's table is in its files and may have changes in the range."""
        low, high = chunk["min_commit_ts"], chunk["max_commit_ts"]
        above = self.after is None or (high is not None and high > self.after)
        return chunk["file"] in self.files and above and (self.upto is None or (low is not None and low <= self.upto))


def write_all(
    spark: SparkSession,
    writes: Sequence[StepWrite],
    slots: int,
    least: int = _LEAST,
    *,
    chunks: DataFrame | None = None,
) -> list[TaskResult]:
    """Carries out writes in a Spark job; returns their results, in order.

    The files of a large table are distributed over several tasks (`split`); a second job writes the rows of keys that no file
    contains.

    Args:
        writes: the writes, one for each table.
        slots: number of tasks that run at the same time.
        least: minimum size of the files of a task, in bytes.
        chunks: the chunks of all writes, with the columns of `frames.chunks`; None if the writes name their files.
    """
    split_writes = [split(write, slots, least) for write in writes]
    parts = [part for group in split_writes for part in group]
    done = iter(_run(spark, parts, slots, chunks))
    results = [[next(done) for _ in group] for group in split_writes]
    rest = [
        (i, replace(writes[i], item=unmatched(writes[i].item, [w.matched or b"" for w in group])))
        for i, group in enumerate(results)
        if len(group) > 1
    ]
    for (i, _), written in zip(rest, _run(spark, [write for _, write in rest], slots, chunks), strict=True):
        results[i].append(written)
    return [_joined(group) for group in results]


def write_here(writes: Sequence[StepWrite]) -> list[TaskResult]:
    """Carries out writes in this process, from their files: for a few rows, a Spark job costs more than the writes.

    Raises:
        SinkError: a file cannot be read, or as `write_item`.
    """
    return list(_write_each(writes))


def _write_each(writes: Sequence[StepWrite]) -> Iterator[TaskResult]:
    """Yields the result of each of the writes; large ones read the payloads of their chunks one after the other."""
    store = next((write.store for write in writes if write.store is not None), None)
    if store is None:
        yield from (write_item(write.item, ()) for write in writes)
        return
    stored = StoredChunks(store)
    chunks_by_source = defaultdict[tuple[str, str], list[dict[str, Any]]](list)
    for chunk in _chunks_of(stored, writes):
        chunks_by_source[chunk["database"], chunk["table"]].append(chunk)
    small, held = list[tuple[Item, ChunkReader, list[bytes]]](), 0
    for write in writes:
        mine = [chunk for chunk in chunks_by_source[write.source] if write.takes(chunk)]
        payloads = (stored.payload(c["file"], c["group"], c["row"]) for c in mine)
        if not _is_small(mine) or not isinstance(write.item.changes, ChunkReader):
            yield from _written_together(small)
            yield write_item(write.item, payloads)
            small, held = [], 0
            continue
        small.append((write.item, write.item.changes, list(payloads)))
        held += sum(map(len, small[-1][2]))
        if held > _TOGETHER_BYTES:
            yield from _written_together(small)
            small, held = [], 0
    yield from _written_together(small)


def _is_small(chunks: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a write of these chunks has few rows; a chunk of a few large ones is large, too."""
    return len(chunks) <= _SMALL_CHUNKS and sum(chunk["rows"] for chunk in chunks) <= _SMALL_ROWS


def _written_together(small: Sequence[tuple[Item, ChunkReader, list[bytes]]]) -> Iterator[TaskResult]:
    """Yields the results of writes with few rows each, whose changes are typed together."""
    typed = together([reader for _, reader, _ in small], [payloads for _, _, payloads in small])
    for (item, _, _), (read, changes) in zip(small, typed, strict=True):
        yield write_item(replace(item, changes=Typed(changes, read)), ())


def _chunks_of(stored: StoredChunks, writes: Sequence[StepWrite]) -> Iterator[dict[str, Any]]:
    """Yields the chunks that the writes may take, in the order in which changes are applied."""
    by_file = defaultdict[str, list[StepWrite]](list)
    for write in writes:
        for file in write.files:
            by_file[file].append(write)
    groups = [group for file in sorted(by_file) for group in stored.find(file, _READ, _taken_by(by_file[file]))]
    if groups:
        chunks = pa.concat_tables(groups)
        described = chunks.to_pylist()
        for row in pc.sort_indices(chunks, sort_keys=[(name, "ascending") for name in _ORDER[1:]]).to_pylist():
            yield described[row]


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


def _run(spark: SparkSession, writes: Sequence[StepWrite], slots: int, chunks: DataFrame | None) -> list[TaskResult]:
    if not writes:
        return []
    items = [write.item for write in writes]
    count = min(slots, len(writes))
    slot_of = _slots([write.weight for write in writes], count)
    if chunks is None:
        done = spark.range(0, count, 1, count).mapInArrow(_reading_worker(writes, slot_of), _RESULT)
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
        yield from _results(
            (number, write_item(items[number], (payload.as_py() for _, payload in mine)))
            for number, mine in groupby(rows, itemgetter(0))
        )

    return run


def _reading_worker(writes: Sequence[StepWrite], slot_of: Sequence[int]) -> Work:
    """Returns the function that workers run: numbers of slots in, the results of the slots' items out.

    Spark pickles the function with the slower of Python's two picklers, so what it contains is pickled before.
    """
    slots = defaultdict[int, list[tuple[int, StepWrite]]](list)
    for item, (slot, write) in enumerate(zip(slot_of, writes, strict=True)):
        slots[slot].append((item, write))
    pickled = {slot: pickle.dumps(mine) for slot, mine in slots.items()}

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for slot in (slot for batch in batches for slot in batch.column(0).to_pylist()):
            mine: list[tuple[int, StepWrite]] = pickle.loads(pickled[slot])
            mine.sort(key=lambda one: one[1].source)  # the order of the chunks in their files
            items, own = zip(*mine, strict=True)
            yield from _results(zip(items, _write_each(own), strict=True))

    return run


def _results(written: Iterable[tuple[int, TaskResult]]) -> Iterator[pa.RecordBatch]:
    """Yields numbers of items and their results in batches: Spark takes as long for a batch as for hundreds of its rows."""
    items, results = list[int](), list[bytes]()
    for item, result in written:
        items.append(item)
        results.append(pickle.dumps(result))
        if len(items) >= _RESULTS_AT_ONCE or len(results[-1]) >= _LARGE_RESULT:
            yield _result(items, results)
            items, results = [], []
    if items:
        yield _result(items, results)


def _result(items: list[int], results: list[bytes]) -> pa.RecordBatch:
    columns = [pa.array(items, pa.int32()), pa.array(results, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["item", "written"])
