"""The topics of a batch of records: which are new, and in which order the kernel decodes their records.

Topics of a batch often take turns, and most topics contain one table. Sorted by topic, the rows of each table lie one
behind the other already when they are decoded.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_LONG_RUN = 64  # records; shorter runs are joined with the next

Numbers = npt.NDArray[np.signedinteger[Any]]


class TopicBatch:
    """A batch of records and its topics.

    Attributes:
        records: the records.
        numbers: of each record the number of its topic.
    """

    def __init__(self, records: pa.RecordBatch, topics: dict[str | None, int]) -> None:
        """Numbers the topics.

        Args:
            topics: the number of each topic seen before, which may be NULL; new ones are added.
        """
        self.records, column, self._known = records, records.column("topic"), len(topics)
        is_one = column.slice(1).equals(column.slice(0, max(len(column) - 1, 0)))  # or none
        encoded = (column[:1] if is_one else column).dictionary_encode(null_encoding="encode")
        names = encoded.dictionary.to_numpy(zero_copy_only=False).tolist()
        known = np.array([topics.setdefault(name, len(topics)) for name in names], np.int32)
        self._count, self._largest = len(names), len(topics)
        self._numbers: Numbers = np.repeat(known, len(column)) if is_one else known[encoded.indices]
        self.numbers = pa.array(self._numbers)

    def first_rows(self, rows: pa.Int32Array | None = None) -> pa.Int32Array:
        """The first row of each topic, or the first among some rows, in order."""
        return pa.array(np.sort(self._first(self._by_topic if rows is None else self._sorted(rows.to_numpy()))))

    def first_rows_of_new(self) -> pa.Int32Array:
        """The first row of each topic that was not seen before, in order."""
        if self._known == self._largest:
            return pa.array([], pa.int32())
        first = self._first(self._by_topic)
        return pa.array(np.sort(first[self._numbers[first] >= self._known]))

    def by_topic(self, rows: pa.Int32Array | None) -> pa.Int32Array | None:
        """The rows in the order in which the kernel decodes them: sorted by topic. None means all, in their order."""
        numbers = self._numbers if rows is None else self._numbers[rows.to_numpy()]
        if len(starts_of_runs(numbers)) <= self._count:  # they are, or nearly
            return rows
        return pa.array(self._by_topic if rows is None else self._sorted(rows.to_numpy()))

    def ends_of_runs(self) -> list[int]:
        """The ends of runs of records of one topic; a short run is in one with the next."""
        ends, start = list[int](), 0
        for end in starts_of_runs(self._numbers)[1:].tolist():
            if end - start >= _LONG_RUN:
                start = end
                ends.append(end)
        return [*ends, len(self._numbers)]

    @cached_property
    def _by_topic(self) -> Numbers:
        return self._sorted(np.arange(len(self._numbers), dtype=np.int32))

    def _first(self, sorted_rows: Numbers) -> Numbers:
        return sorted_rows[starts_of_runs(self._numbers[sorted_rows])]

    def _sorted(self, rows: Numbers) -> Numbers:
        numbers = self._numbers[rows].astype(np.min_scalar_type(self._largest))  # numpy sorts narrow numbers faster
        return rows[np.argsort(numbers, kind="stable")]


def starts_of_runs(numbers: Numbers) -> Numbers:
    """Returns the places where runs of equal numbers begin; no number is negative."""
    return np.flatnonzero(np.diff(numbers, prepend=-1))
