"""The topics of a batch of records: which are new, and in which order the kernel decodes their records.

Tables of a batch often take turns. Sorted by topic, or by table where a topic contains several, the rows of each table lie
one behind the other already when they are decoded.
"""

from __future__ import annotations

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
        numbers: of each record the number of its topic, or of its table.
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
        numbers = np.array([topics.setdefault(name, len(topics)) for name in names], np.int32)
        self._topics: Numbers = np.repeat(numbers, len(column)) if is_one else numbers[encoded.indices]
        self.numbers = pa.array(self._topics)
        self._all_known = len(topics) == self._known

    def first_rows(self, rows: pa.Int32Array) -> pa.Int32Array:
        """The first of these rows of each topic, in order."""
        return pa.array(_first(self._topics, rows.to_numpy()))

    def first_rows_of_new(self) -> pa.Int32Array:
        """The first row of each topic that was not seen before, in order."""
        if self._all_known:
            return pa.array([], pa.int32())
        first = _first(self._topics, np.arange(len(self._topics), dtype=np.int32))
        return pa.array(first[self._topics[first] >= self._known])

    def ordered(self, rows: pa.Int32Array | None) -> pa.Int32Array | None:
        """The rows in the order in which the kernel decodes them: sorted by their numbers. None means all, in their order."""
        numbers = self.numbers.to_numpy()
        chosen = np.arange(len(numbers), dtype=np.int32) if rows is None else rows.to_numpy()
        numbers = numbers[chosen]
        starts = starts_of_runs(numbers)
        if len(starts) <= 1 or len(starts) == len(np.unique(numbers[starts])):
            return rows
        return pa.array(chosen[_order(numbers)])

    def ends_of_runs(self) -> list[int]:
        """The ends of runs of records of one topic; a short run is in one with the next."""
        ends, start = list[int](), 0
        for end in starts_of_runs(self._topics)[1:].tolist():
            if end - start >= _LONG_RUN:
                start = end
                ends.append(end)
        return [*ends, len(self._topics)]


def _first(numbers: Numbers, rows: Numbers) -> Numbers:
    """The first of these rows with each number, in order."""
    by_number = rows[_order(numbers[rows])]
    return np.sort(by_number[starts_of_runs(numbers[by_number])])


def _order(numbers: Numbers) -> Numbers:
    """The order of numbers, which is stable; numpy sorts narrow ones faster."""
    return np.argsort(numbers.astype(np.min_scalar_type(numbers.max(initial=0))), kind="stable")


def starts_of_runs(numbers: Numbers) -> Numbers:
    """Returns the places where runs of equal numbers begin; no number is negative."""
    return np.flatnonzero(np.diff(numbers, prepend=-1))
