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
        names: the topics, in the order of their first records; one may be NULL.
        numbers: of each record the number of its topic in `names`.
    """

    def __init__(self, records: pa.RecordBatch) -> None:
        self.records, topics = records, records.column("topic")
        if topics.slice(1).equals(topics.slice(0, max(len(topics) - 1, 0))):  # one topic, or none
            self.names: list[str | None] = topics[:1].to_pylist()
            self.numbers = pa.array(np.zeros(len(topics), np.int32))
        else:
            encoded = topics.dictionary_encode(null_encoding="encode")
            self.names = encoded.dictionary.to_numpy(zero_copy_only=False).tolist()
            self.numbers = encoded.indices
        self._numbers: Numbers = self.numbers.to_numpy()

    def first_rows(self, rows: pa.Int32Array | None = None) -> pa.Int32Array:
        """The first row of each topic, or the first among some rows, in order."""
        sorted_rows = self._by_topic if rows is None else self._sorted(rows.to_numpy())
        return pa.array(np.sort(sorted_rows[starts_of_runs(self._numbers[sorted_rows])]))

    def by_topic(self, rows: pa.Int32Array | None) -> pa.Int32Array | None:
        """The rows in the order in which the kernel decodes them: sorted by topic. None means all, in their order."""
        numbers = self._numbers if rows is None else self._numbers[rows.to_numpy()]
        if len(starts_of_runs(numbers)) <= len(self.names):  # they are, or nearly
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

    def _sorted(self, rows: Numbers) -> Numbers:
        numbers = self._numbers[rows].astype(np.min_scalar_type(len(self.names)))  # numpy sorts narrow numbers faster
        return rows[np.argsort(numbers, kind="stable")]


def starts_of_runs(numbers: Numbers) -> Numbers:
    """Where runs of equal numbers begin; no number is negative."""
    return np.flatnonzero(np.diff(numbers, prepend=-1))
