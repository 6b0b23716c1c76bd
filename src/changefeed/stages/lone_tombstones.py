"""Places tombstones that stand for deletes behind everything that their partition has sent in earlier batches.

A decoder places a tombstone by the rows around it (`protocols.debezium_mysql.tombstones`). Where it has read none of its
partition, the place is 0, before everything, or missing; here it becomes the highest commit_ts of the partition. Not more: more
rows of that commit_ts may follow, and a partition whose highest commit_ts is above theirs counts as having sent them all. If
that commit_ts has been applied, it becomes the first one above the barrier, because what is below counts as sent again.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from changefeed.frames.chunks import Dated
from changefeed.model.batch import Decoded, TableBatch
from changefeed.protocols.origin import is_tombstone

LATEST = ""  # in place of a table's name: the commit_ts of a tombstone of the partition


def latest_of(
    positions: Mapping[str, Mapping[int, int]], barrier: int | None
) -> dict[str, dict[int, dict[str, tuple[int, int]]]]:
    """Returns the commit_ts of a tombstone in each partition, in the form of `Dated`.

    Args:
        positions: topic -> partition -> its highest commit_ts.
        barrier: the commit_ts up to which changes have been applied; None before the first cut.
    """
    first = 0 if barrier is None else barrier + 1

    def place(ts: int) -> int:
        return max(ts, first) if ts >= 0 else ts

    return {
        topic: {partition: {LATEST: (0, place(ts))} for partition, ts in by_partition.items()}
        for topic, by_partition in positions.items()
    }


def placed(decoded: Decoded, latest: Dated) -> Decoded:
    """Returns the decoded records, with a commit_ts in each tombstone whose partition has sent something before."""
    tables = [_placed(t, latest) if latest and is_tombstone(t.shape) else t for t in decoded.tables]
    return Decoded(tables, decoded.control, decoded.dead)


def _placed(table: TableBatch, latest: Dated) -> TableBatch:
    rows = table.rows
    lines = rows.select(["topic", "partition", "commit_ts"]).to_pylist()
    known = [latest.get(line["topic"], {}).get(line["partition"], {}).get(LATEST, (0, -1))[1] for line in lines]
    placed_ts = [
        ts if ts >= 0 and not line["commit_ts"] else line["commit_ts"] for line, ts in zip(lines, known, strict=True)
    ]
    if placed_ts == [line["commit_ts"] for line in lines]:
        return table
    at = rows.schema.get_field_index("commit_ts")
    column = pa.array(placed_ts, rows.schema.field(at).type)
    return TableBatch(table.shape, rows.set_column(at, rows.schema.field(at), column))
