"""A recorded history whose partitions are read unevenly: each falls behind the others, and comes forward again."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa

from changefeed import record_log


def uneven(log: Path, to: Path, seed: int, stretch: int) -> Path:
    """Writes the records of `log` in stretches of one partition at a time; each partition keeps its order."""
    records = pa.Table.from_batches(record_log.read(log)).combine_chunks().to_batches()[0]
    places: dict[tuple[str, int], list[int]] = {}
    for row, at in enumerate(zip(*(records.column(n).to_pylist() for n in ("topic", "partition")), strict=True)):
        places.setdefault(at, []).append(row)
    random, order = Random(seed), list[int]()
    while places:
        at = random.choice(sorted(places))
        order += places[at][:stretch]
        del places[at][:stretch]
        if not places[at]:
            del places[at]
    record_log.write(to, [records.take(pa.array(order))])
    return to
