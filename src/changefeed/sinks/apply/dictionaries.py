"""Chooses the columns of a data file that get a dictionary.

A dictionary makes a column with repeated values small. For other columns it is built in vain, which takes longer than writing the
values, and unless it reaches Parquet's limit of a megabyte, the file becomes larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

_SAMPLE = 4_096  # rows
_REPEATED = 4  # times that each value is there on average


def repeating(batches: Sequence[pa.RecordBatch]) -> list[str]:
    """Returns the columns whose values repeat, judged by a random sample of the rows; nested columns are left out.

    With `n` of `N` rows in the sample, a column in which each value is there `k` times has about `N/k * (1 - (1 - n/N)^k)`
    different values in the sample. A column with more of them repeats its values less often.
    """
    total = sum(batch.num_rows for batch in batches)
    sample = pa.Table.from_batches(batches if total <= _SAMPLE else _sampled(batches, total))
    share = sample.num_rows / total
    different_at_most = (1 - (1 - share) ** _REPEATED) / (_REPEATED * share)  # of the values in the sample
    return [
        field.name
        for field, column in zip(sample.schema, sample.columns, strict=True)
        if not pa.types.is_nested(field.type)
        and len(column.unique()) - (column.null_count > 0) <= different_at_most * (len(column) - column.null_count)
    ]


def _sampled(batches: Sequence[pa.RecordBatch], total: int) -> Iterator[pa.RecordBatch]:
    rows = np.sort(np.random.default_rng(0).choice(total, _SAMPLE, replace=False, shuffle=False))
    ends = np.cumsum([batch.num_rows for batch in batches])
    for batch, end, part in zip(batches, ends, np.split(rows, np.searchsorted(rows, ends[:-1])), strict=True):
        yield batch.take(part - (end - batch.num_rows))
