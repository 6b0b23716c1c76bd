"""Batches of any record log: their size, and the selection of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

BATCH_BYTES = 4 << 20  # approximate maximum size of a batch, in bytes of the log

# Records, of which topic and partition are read -> a boolean for each: whether it is selected.
Only = Callable[[pa.RecordBatch], pa.BooleanArray]


def wanted_of(batches: Iterable[pa.RecordBatch], only: Only) -> Iterator[pa.RecordBatch]:
    """The selected records, in batches that are not empty."""
    for batch in batches:
        mine = only(batch)
        if count := mine.true_count:
            yield batch if count == len(batch) else batch.filter(mine)
