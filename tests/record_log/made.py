"""Records to write into logs, and a reader for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from changefeed.model.batch import record_batch
from changefeed.record_log import read


def some_records(number: int) -> pa.RecordBatch:
    """Makes `number` records, with everything that a record may have."""
    return record_batch(
        {
            "key": None if n % 3 == 0 else bytes([n % 256, 0, 255]),
            "value": None if n % 5 == 0 else f"värde {n}".encode(),
            "topic": "shop" if n % 2 else "other",
            "partition": n % 3,
            "offset": 2**62 + n,
            "timestamp": None if n % 7 == 0 else 1767225600123000 + n * 1000,
            "headers": [("k", b"\x00"), ("k", None)] if n % 4 == 0 else [],
        }
        for n in range(number)
    )


def rows_of(path: Path, **options: Any) -> list[dict[str, Any]]:
    """The records of a log as dicts."""
    return [row for batch in read(path, **options) for row in batch.to_pylist()]
