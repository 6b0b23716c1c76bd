"""Writes the data files of many writes of a step together: few rows here, without a job; others in one Spark job.

    writes ──▶ items (`item_of`) ──▶ `write_files` ──▶ a `TaskResult` for each: files that no commit refers to yet

Writes share a job if their tasks can read the files of their chunks, or if they share a DataFrame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.chunk_files import part_sizes
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.apply.item import Item, TaskResult, Typed, write_item
from changefeed.sinks.apply.job import StepWrite, compact_all, write_all, write_here
from changefeed.sinks.apply.target import Target
from changefeed.sinks.base import Changes, Chunked
from changefeed.sinks.writes import Append, Load, Upsert
from changefeed.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The changes of a keyed write are merged by one task. Larger writes need a way that works on one with all tasks.
MOST_ROWS = 10_000_000
_FEW_ROWS = 10_000  # typed changes that the driver may hold
# Up to here a Spark job costs more than the writes themselves: they are made in the driver.
HERE_BYTES, _HERE_WEIGHT = 8 * 2**20, 200_000

_WAYS: dict[type, Literal["merge", "append", "replace"]] = {Load: "replace", Upsert: "merge", Append: "append"}


@cache
def no_files() -> pa.Table:
    """The files of a new table: none."""
    return pa.schema([("path", pa.string()), ("size", pa.int64())]).empty_table()


def too_large(changes: Changes, *, keyed: bool) -> str | None:
    """Returns why changes are too many for `write_files`; None if they are not. `keyed`: they are merged by key."""
    if changes.chunked is None:
        return None if changes.rows <= _FEW_ROWS else "too many rows for the driver"
    return "too many changes for one task" if keyed and changes.rows > MOST_ROWS else None


def item_of(
    write: Load | Upsert | Append,
    changes: Changes,
    target: Target,
    files: pa.Table,
    limits: Limits,
    *,
    marks: bool = False,
) -> Item:
    """Creates the item of a write.

    Args:
        write: the write of rows.
        changes: its changes.
        target: the table that is written.
        files: the table's data files, as in `Item`; `no_files()` for a new table.
        limits: sizes for the files to write.
        marks: whether an `Upsert` may mark old rows in deletion vectors.
    """
    chunked, way = changes.chunked, _WAYS[type(write)]
    marks = marks and way == "merge"
    if chunked is None:
        return Item(target, Typed(list(changes.batches())), files, way, marks, changes.partial, limits=limits)
    return Item(
        target, chunked.reading, files, way, marks, changes.partial, chunked.last_reading, limits=limits,
        final_states=chunked.final_states,
    )  # fmt: skip


def write_files(spark: SparkSession | None, writes: Sequence[tuple[Changes, Item]]) -> list[TaskResult]:
    """Writes the data files of all writes; returns the result of each, in order.

    Args:
        spark: the session for jobs; None if no write needs one, because its changes are typed.
        writes: the changes and the item of each write.

    Raises:
        SinkError: a data file cannot be read or written.
    """
    results: dict[int, TaskResult] = {}
    in_chunks = list[tuple[int, Chunked]]()
    for number, (changes, item) in enumerate(writes):
        if (chunked := changes.chunked) is not None:
            in_chunks.append((number, chunked))
        else:
            results[number] = write_item(item, ())
    files_of = cache(_files)
    for _, group in groupby(sorted(in_chunks, key=_origin), _origin):
        together = list(group)
        files = {number: files_of(chunked.store, chunked.folders) for number, chunked in together}
        step_writes = [_step_write(*writes[number], chunked, files[number][0]) for number, chunked in together]
        assert spark is not None, "chunks need a session"
        size = sum({name: size for _, sizes in files.values() for name, size in sizes.items()}.values())
        written = _written(spark, step_writes, together[0][1], size)
        results |= dict(zip((number for number, _ in together), written, strict=True))
    return [results[number] for number in range(len(writes))]


def compact_files(
    spark: SparkSession | None, target: Target, files: pa.Table, chosen: Iterable[Sequence[str]], limits: Limits
) -> list[TaskResult]:
    """Writes groups of a table's files again, without their deleted rows, each group by itself.

    Args:
        spark: the session for large files; None to write all of them here.
        target: the table.
        files: its data files, see `Target`.
        chosen: the paths of the files of each group.
        limits: sizes for the files to write.

    Raises:
        SinkError: a data file cannot be read or written.
    """
    items = [
        Item(target, Typed([]), files.filter(pc.is_in(files.column("path"), pa.array(group))), "compact", limits=limits)
        for group in chosen
    ]
    if spark is None or sum(pc.sum(item.files.column("size")).as_py() for item in items) <= HERE_BYTES:
        return [write_item(item, ()) for item in items]
    return compact_all(spark, items, spark.sparkContext.defaultParallelism)


def _origin(numbered: tuple[int, Chunked]) -> tuple[str, ...]:
    """Equal for writes that share a job: their tasks read files, or they share a DataFrame."""
    chunked = numbered[1]
    return chunked.origin if chunked.store is None else ()


def _files(store: Folder | None, folders: tuple[str, ...]) -> tuple[frozenset[str], dict[str, int]]:
    """Returns the files in folders of chunks, and their sizes."""
    sizes = dict[str, int]()
    if store is None:
        return frozenset(), sizes
    for folder in folders:
        sizes |= part_sizes(store, folder)
    return frozenset(sizes), sizes


def _step_write(changes: Changes, item: Item, chunked: Chunked, files: frozenset[str]) -> StepWrite:
    window, size = chunked.reading.window, sum(item.files.column("size").to_pylist())
    # a write weighs its rows, and what of the table it may have to read
    return StepWrite(item, chunked.source, window.after, window.upto, changes.rows + size // 128, files, chunked.store)


def _written(spark: SparkSession, writes: Sequence[StepWrite], chunked: Chunked, size: int) -> list[TaskResult]:
    slots: Any = spark.sparkContext.defaultParallelism
    if chunked.store is None:
        return write_all(spark, writes, slots, chunks=chunked.chunks(spark))
    if size <= HERE_BYTES and sum(write.weight for write in writes) <= _HERE_WEIGHT:
        return write_here(writes)
    return write_all(spark, writes, slots)
