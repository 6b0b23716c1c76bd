"""Rows divided by the partition that they come from: of one batch, or of the batches of a thousand tables at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.model.batch import end_to_end

# Topic, partition, and rows or records of it.
Part = tuple[str, int, pa.RecordBatch]


def by_partition(rows: pa.RecordBatch) -> list[Part]:
    """The rows of each (topic, partition), in the order of their first row."""
    return next(by_partitions([rows]))


def by_partitions(batches: Sequence[pa.RecordBatch]) -> Iterator[list[Part]]:
    """The parts of each of the batches, as `by_partition` returns them.

    Where they begin is computed for all batches together, because each call of Arrow or NumPy costs as much as many rows.
    """
    topics = pc.dictionary_encode(end_to_end(batches, "topic"))
    places = topics.indices.to_numpy().astype(np.int64) << 32 | end_to_end(batches, "partition").to_numpy()
    names = topics.dictionary.to_pylist()
    ends = np.fromiter(accumulate(map(len, batches), initial=0), np.int64)
    is_start = np.diff(places, prepend=-1) != 0
    is_start[ends[:-1][ends[:-1] < len(places)]] = True
    starts = np.flatnonzero(is_start)
    runs = np.searchsorted(starts, ends).tolist()
    for rows, (first, last), (start, end) in zip(batches, pairwise(runs), pairwise(ends.tolist()), strict=True):
        yield _parts(rows, places[start:end], (starts[first:last] - start).tolist(), names)


def _parts(rows: pa.RecordBatch, places: npt.NDArray[np.int64], starts: list[int], names: list[str]) -> list[Part]:
    if len(starts) == 1:
        return [(*_named(places[0], names), rows)]
    if len(starts) > len(np.unique(places[starts])):  # rows of partitions take turns
        _, first, number = np.unique(places, return_index=True, return_inverse=True)
        order = np.argsort(first[number], kind="stable")
        rows, places = rows.take(pa.array(order)), places[order]
        starts = np.flatnonzero(np.diff(places, prepend=-1)).tolist()
    runs = pairwise([*starts, len(places)])
    return [(*_named(places[start], names), rows.slice(start, end - start)) for start, end in runs]


def _named(place: np.int64, names: list[str]) -> tuple[str, int]:
    """Topic and partition of a place: the number of the topic's name, and 32 bits of the partition."""
    return names[int(place) >> 32], int(place) & (2**32 - 1)
