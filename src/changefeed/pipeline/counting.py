"""How many rows of the pending store lie in windows: whole chunks by what they say, those across a bound by their payloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from changefeed.pipeline.pending import ChunkInfo, PendingStore
from changefeed.stages.changes import Window, count


def rows_within(
    store: PendingStore, chunks: Iterable[ChunkInfo], windows: Callable[[ChunkInfo], Iterable[Window]]
) -> int:
    """The rows of each chunk that lie in one of its windows, which do not overlap."""
    total, across = 0, dict[tuple[tuple[str, str], Window], set[str]]()
    for chunk in chunks:
        low, high = chunk.min_ts, chunk.max_ts
        for window in windows(chunk) if chunk.kind == "rows" else ():
            after, upto = window.after, window.upto
            if low is None or high is None or ((after is None or low > after) and (upto is None or high <= upto)):
                total += chunk.rows
            elif (after is None or high > after) and (upto is None or low <= upto):
                across.setdefault(((str(chunk.database), str(chunk.table)), window), set()).add(chunk.folder)
    return total + sum(_across(store, folders, *one) for one, folders in across.items())


def _across(store: PendingStore, folders: Iterable[str], name: tuple[str, str], window: Window) -> int:
    from pyspark.sql import functions as F

    crosses = F.lit(False)
    for bound in (window.after, window.upto):
        if bound is not None:
            crosses = crosses | ((F.col("min_commit_ts") <= bound) & (F.col("max_commit_ts") > bound))
    return count(store.table(folders, name, window.after, window.upto).where(crosses), window)
