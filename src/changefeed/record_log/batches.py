"""What holds for the batches of any log: how large they are, and whose records are in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

BATCH_BYTES = 4 << 20  # a batch of large records ends with about so many, as they lie in the log

# Records, of which topic and partition are looked at -> a boolean for each: whether it is wanted.
Only = Callable[[pa.RecordBatch], pa.BooleanArray]


def wanted_of(batches: Iterable[pa.RecordBatch], only: Only) -> Iterator[pa.RecordBatch]:
    """The records that are wanted, in batches that have some."""
    for batch in batches:
        mine = only(batch)
        if count := mine.true_count:
            yield batch if count == len(batch) else batch.filter(mine)
