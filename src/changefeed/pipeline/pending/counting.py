"""Counts rows of the pending store in windows of commit_ts, to account for every row that was read.

Chunks that are wholly inside or outside a window are counted by their plain columns. Chunks that span a bound are counted row
by row: by the driver if they are few, otherwise in one Spark job.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import SinkError
from changefeed.frames.chunk_files import StoredChunks
from changefeed.frames.chunks import unpack
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.state import Counts
from changefeed.stages.changes import Window
from changefeed.storage import Folder

if TYPE_CHECKING:
    from changefeed.pipeline.contracts import Pending
    from changefeed.pipeline.pending.store import PendingStore

# The windows of a chunk in which its rows count; they do not overlap.
Windows = Callable[[ChunkInfo], Iterable[Window]]
# folder, database, table, shape, topic and partition of chunks
_Rows = tuple[str, str | None, str | None, str | None, str, int]
# the windows in which rows of chunks that span a bound are to be counted, by name
Across = Mapping[_Rows, Iterable[tuple[str, Window]]]


def rows_within(store: Pending, chunks: Iterable[ChunkInfo], **windows: Windows) -> dict[str, int]:
    """Number of rows of the chunks in their windows, for each name."""
    totals = Counter[str](dict.fromkeys(windows, 0))
    # chunks of one folder, table, shape and partition share their windows
    across: dict[_Rows, dict[tuple[str, Window], None]] = {}
    for chunk in chunks:
        for name, windows_of in windows.items() if chunk.kind == "rows" else ():
            for window in windows_of(chunk):
                all_in, all_out = _place(chunk.min_ts, chunk.max_ts, window)
                if all_in:
                    totals[name] += chunk.rows
                elif not all_out:
                    across.setdefault(_rows_of(chunk), {})[name, window] = None
    if across:
        totals.update(store.across(across))
    return dict(totals)


def shapes_inside(store: Pending, spanning: Iterable[ChunkInfo], window: Window) -> set[str]:
    """The shapes, as text, of those chunks that have a row in a window, which all of them span."""
    counted = store.across({_rows_of(chunk): [(str(chunk.shape), window)] for chunk in spanning})
    return {shape for shape, rows in counted.items() if rows}


def rows_between(chunks: Iterable[ChunkInfo], window: Window) -> tuple[int, int]:
    """Minimum and maximum number of rows of `rows` chunks in a window; equal if no chunk spans a bound."""
    least = most = 0
    for chunk in chunks:
        all_in, all_out = _place(chunk.min_ts, chunk.max_ts, window)
        least += chunk.rows if all_in else 0
        most += 0 if all_out else chunk.rows
    return least, most


def check_counts(counts: Counts, pending: int) -> None:
    """Checks the ledger's counts against the rows that are still in the pending store.

    Raises:
        SinkError: some rows are neither applied, repeated nor pending, or are counted twice.
    """
    if counts.pending != pending:
        raise SinkError(
            f"the counts of rows do not add up: {counts.rows:,} row changes were read, {counts.applied:,} would be applied "
            f"and {counts.repeated:,} were sent again, which leaves {counts.pending:,}; the pending store has {pending:,}. "
            "Nothing more is written. Rebuild the tables with `changefeed repair --rebuild --all`, and report this with "
            "the pipeline's definition"
        )


def _rows_of(chunk: ChunkInfo) -> _Rows:
    return chunk.folder, chunk.database, chunk.table, chunk.shape, chunk.topic, chunk.partition


def _place(low: int | None, high: int | None, window: Window) -> tuple[bool, bool]:
    """Whether all rows from `low` to `high` are in the window, and whether none is."""
    after, upto = window.after, window.upto
    if low is None or high is None:  # rows without commit_ts are pending or applied together with their chunk
        return True, False
    all_in = (after is None or low > after) and (upto is None or high <= upto)
    return all_in, (after is not None and high <= after) or (upto is not None and low > upto)


def across_here(store: Folder, files: Mapping[str, int], windows: Across) -> Counter[str]:
    """Counts rows of chunks that span a bound, in this process.

    Args:
        store: the folder of the pending store.
        files: names and sizes of the files in the folders of `windows`.
        windows: the windows to count in.

    Raises:
        SinkError: a file cannot be read.
    """
    bounds = _bounds(windows)

    def crosses(chunks: pa.Table) -> Any:
        low, high = chunks.column("min_commit_ts"), chunks.column("max_commit_ts")
        spans = [pc.and_(pc.less_equal(low, bound), pc.greater(high, bound)) for bound in bounds]
        return pc.and_(pc.equal(chunks.column("kind"), "rows"), pc.fill_null(reduce(pc.or_, spans), False))

    counts, stored = Counter[str](), StoredChunks(store)
    for file, size in files.items():
        folder = file.rpartition("/")[0]
        for chunks in stored.find(file, _PLAIN, crosses, size):
            for row in chunks.to_pylist():
                payload = stored.payload(row["file"], row["group"], row["row"])
                counts.update(_counted({"folder": folder, **row, "payload": payload}, windows))
    return counts


def across_in_spark(store: PendingStore, windows: Across) -> Counter[str]:
    """Counts rows of chunks that span a bound, in one Spark job."""
    from pyspark.sql import functions as F

    low, high = F.col("min_commit_ts"), F.col("max_commit_ts")
    crosses = reduce(operator.or_, [(low <= bound) & (high > bound) for bound in _bounds(windows)])

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counts = Counter[str]()
            for row in batch.to_pylist():
                counts.update(_counted(row, windows))
            yield pa.RecordBatch.from_pydict({"name": list(counts), "rows": list(counts.values())}, _COUNTED)

    folder = F.element_at(F.split(F.col("_metadata.file_path"), "/"), -2).alias("folder")
    chunks = store.read(sorted({rows[0] for rows in windows})).where((F.col("kind") == "rows") & crosses)
    columns = chunks.select(folder, *_ROWS[1:], "min_commit_ts", "max_commit_ts", "payload")
    counted = columns.mapInArrow(run, "name string, rows bigint").groupBy("name").sum("rows").collect()
    return Counter({row[0]: int(row[1]) for row in counted})


def count_across(row: Mapping[str, Any], windows: Iterable[tuple[str, Window]]) -> Iterator[tuple[str, int]]:
    """Yields (name, number of rows in the window) for each window with a bound inside the chunk."""
    crossed = [(n, w) for n, w in windows if _place(row["min_commit_ts"], row["max_commit_ts"], w) == (False, False)]
    if crossed:
        ts = unpack(row["payload"]).rows.column("commit_ts")
        yield from ((name, pc.sum(window.mask(ts)).as_py() or 0) for name, window in crossed)


def _counted(row: Mapping[str, Any], windows: Across) -> Counter[str]:
    counts = Counter[str]()
    for name, rows in count_across(row, windows.get(tuple(row[column] for column in _ROWS), ())):
        counts[name] += rows
    return counts


def _bounds(windows: Across) -> list[int]:
    """The bounds of all windows; there is one at least, because only a window with a bound is spanned."""
    return sorted({b for pairs in windows.values() for _, w in pairs for b in (w.after, w.upto) if b is not None})


_ROWS = ("folder", "database", "table", "shape", "topic", "partition")
_PLAIN = ("kind", *_ROWS[1:], "min_commit_ts", "max_commit_ts")
_COUNTED = pa.schema([("name", pa.string()), ("rows", pa.int64())])
