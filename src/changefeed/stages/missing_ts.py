"""Estimates the commit_ts of rows whose protocol sends none, from the records around them in their partition.

A delete in TiCDC's Avro is a key without a value. The producer sends each table's rows in commit order, so the neighbouring
records of the partition bound the commit_ts of the delete:

    at offset   0      1        2        3        4
                row    delete   mark     delete   row
    commit_ts   5      (6)      9        (10)     12

Rule 1. It is one higher than that of the record before it. Nothing at or below a mark or a schema change follows that mark;
        and within one commit_ts a written row wins over a delete (see `latest`), while the row before may be the one that
        is deleted.
Rule 2. It is at most that of the record after it. So a delete that is sent again after a mark stays below that mark,
        together with the rows that are sent again.
Rule 3. If no commit_ts is known before it, not even from an earlier batch, it is older than everything.
Rule 4. In a partition in which no record has a commit_ts, no row gets one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.chunks import by_partition
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import Resolved, SchemaChange

_Partition = tuple[str, int]
_LAST = 2**63 - 1


class TimestampEstimator:
    """Sets commit_ts of rows without one from their neighbours. Call `fill` with whole partitions, in order.

    Args:
        latest: the highest commit_ts of each partition before the first batch.
    """

    def __init__(self, latest: Mapping[str, Mapping[int, int]]) -> None:
        self._floors = {(topic, number): ts + 1 for topic, of in latest.items() for number, ts in of.items()}

    def fill(self, decoded: Decoded) -> Decoded:
        """Returns the decoded records with a commit_ts in each row for which one can be estimated."""
        known = _known(decoded)
        tables = [TableBatch(table.shape, _filled(table.rows, known, self._floors)) for table in decoded.tables]
        self._floors |= {partition: int(ts[-1]) + 1 for partition, (_, ts) in known.items()}
        return replace(decoded, tables=tables)


# Records of a partition that have a commit_ts: offsets in ascending order, and the commit_ts of each.
_Known = tuple[np.ndarray, np.ndarray]


def _known(decoded: Decoded) -> dict[_Partition, _Known]:
    parts: dict[_Partition, list[_Known]] = {}
    for event in decoded.control:
        if isinstance(event, (Resolved, SchemaChange)) and event.commit_ts is not None:
            known = (np.array([event.place.offset]), np.array([event.commit_ts]))
            parts.setdefault((event.place.topic, event.place.partition), []).append(known)
    for table in decoded.tables:
        for topic, partition, rows in by_partition(_where(table.rows, pc.is_valid(table.rows.column("commit_ts")))):
            ts = rows.column("commit_ts").cast(pa.int64()).to_numpy()
            parts.setdefault((topic, partition), []).append((rows.column("offset").to_numpy(), ts))
    return {partition: _in_order(several) for partition, several in parts.items()}


def _in_order(several: list[_Known]) -> _Known:
    offsets, ts = (np.concatenate(columns) for columns in zip(*several, strict=True))
    order = np.argsort(offsets, kind="stable")
    return offsets[order], ts[order]


def _where(rows: pa.RecordBatch, selected: pa.BooleanArray) -> pa.RecordBatch:
    """Returns row number, topic, partition, offset and commit_ts of the rows that `selected` selects."""
    columns = {name: rows.column(name) for name in ("topic", "partition", "offset", "commit_ts")}
    return pa.RecordBatch.from_pydict({"row": pa.array(np.arange(len(rows))), **columns}).filter(selected)


def _filled(
    rows: pa.RecordBatch, known: Mapping[_Partition, _Known], floors: Mapping[_Partition, int]
) -> pa.RecordBatch:
    column = rows.column("commit_ts")
    if not column.null_count:
        return rows
    filled, missing = np.zeros(len(rows), np.uint64), pc.is_null(column).to_numpy(zero_copy_only=False)
    for topic, partition, some in by_partition(_where(rows, pc.is_null(column))):
        estimates = _estimates(
            some.column("offset").to_numpy(), known.get((topic, partition)), floors.get((topic, partition))
        )
        if estimates is not None:
            numbers = some.column("row").to_numpy()
            filled[numbers], missing[numbers] = estimates, False
    at = rows.schema.get_field_index("commit_ts")
    return rows.set_column(at, rows.schema.field(at), pc.coalesce(column, pa.array(filled, mask=missing)))


def _estimates(offsets: np.ndarray, known: _Known | None, floor: int | None) -> np.ndarray | None:
    if known is None:
        return None if floor is None else np.full(len(offsets), floor)
    known_offsets, ts = known
    following = np.searchsorted(known_offsets, offsets)
    before = np.concatenate([[floor or 0], ts + 1])[following]
    after = np.concatenate([ts, [_LAST]])[following]
    estimates: np.ndarray = np.minimum(before, after)
    return estimates
