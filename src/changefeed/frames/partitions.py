"""Rows divided by the partition that they come from: of one batch, or of the batches of a thousand tables at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.model.batch import TableBatch
from changefeed.model.shared_rows import column_of_tables

# Topic, partition, and rows or records of it.
Part = tuple[str, int, pa.RecordBatch]


class _Sliceable(Protocol):
    """A batch of records, or of rows of a table."""

    def __len__(self) -> int: ...
    def slice(self, start: int, length: int, /) -> Any: ...
    def take(self, order: pa.Array, /) -> Any: ...


_Rows = TypeVar("_Rows", bound=_Sliceable)


def by_partition(rows: pa.RecordBatch) -> list[Part]:
    """The rows of each (topic, partition), in the order of their first row."""
    return next(_divided([rows], rows.column("topic"), rows.column("partition")))


def by_partitions(tables: Sequence[TableBatch]) -> Iterator[list[tuple[str, int, TableBatch]]]:
    """The rows of each (topic, partition) of each of the tables, in the order of their first row.

    Where they begin is computed for all tables together, because each call of Arrow or NumPy costs as much as many rows.
    """
    return _divided(tables, column_of_tables(tables, "topic"), column_of_tables(tables, "partition"))


def _divided(
    batches: Sequence[_Rows], topics: pa.StringArray, partitions: pa.Int32Array
) -> Iterator[list[tuple[str, int, _Rows]]]:
    topics = pc.dictionary_encode(topics)
    places = topics.indices.to_numpy().astype(np.int64) << 32 | partitions.to_numpy()
    names = topics.dictionary.to_pylist()
    ends = np.fromiter(accumulate(map(len, batches), initial=0), np.int64)
    is_start = np.diff(places, prepend=-1) != 0
    is_start[ends[:-1][ends[:-1] < len(places)]] = True
    starts = np.flatnonzero(is_start)
    runs = np.searchsorted(starts, ends).tolist()
    for rows, (first, last), (start, end) in zip(batches, pairwise(runs), pairwise(ends.tolist()), strict=True):
        yield _parts(rows, places[start:end], (starts[first:last] - start).tolist(), names)


def _parts(
    rows: _Rows, places: npt.NDArray[np.int64], starts: list[int], names: list[str]
) -> list[tuple[str, int, _Rows]]:
    if len(starts) == 1:
        return [(*_named(int(places[0]), names), rows)]
    if len(starts) > len(np.unique(places[starts])):  # rows of partitions take turns
        _, first, number = np.unique(places, return_index=True, return_inverse=True)
        order = np.argsort(first[number], kind="stable")
        in_order = places[order]
        return _parts(
            rows.take(pa.array(order)), in_order, np.flatnonzero(np.diff(in_order, prepend=-1)).tolist(), names
        )
    runs = pairwise([*starts, len(places)])
    return [(*_named(int(places[start]), names), rows.slice(start, end - start)) for start, end in runs]


def _named(place: int, names: list[str]) -> tuple[str, int]:
    """Topic and partition of a place: the number of the topic's name, and 32 bits of the partition."""
    return names[place >> 32], place & (2**32 - 1)
