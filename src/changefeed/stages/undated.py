"""undated: rows to which their protocol gives no commit_ts, between others of their partition that have one.

A delete of TiCDC's Avro is a key without a value. The producer sends each table's rows in the order of their commits, so
the records around it in its partition bound when it happened:

    at offset   0      1        2        3        4
                row    delete   mark     delete   row
    commit_ts   5      (6)      9        (10)     12

Rule 1. It is one later than what comes before it. Nothing at or below a mark or a schema change follows it; and among
        changes of one commit_ts a row that is there wins over a delete, see `latest`: the row before may be the one that
        is deleted.
Rule 2. It is no later than what comes after it. So a delete that is sent again, after a mark that had passed it, stays
        below that mark with the rows that are sent again.
Rule 3. Where nothing is known before it, not even by an earlier batch, it is older than everything.
Rule 4. In a partition in which nothing at all has a commit_ts, nothing gets one.
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


class Dates:
    """Dates rows by what stands around them; to be fed whole partitions, in order.

    Args:
        latest: the highest commit_ts of each partition before the first batch.
    """

    def __init__(self, latest: Mapping[str, Mapping[int, int]]) -> None:
        self._floors = {(topic, number): ts + 1 for topic, of in latest.items() for number, ts in of.items()}

    def date(self, decoded: Decoded) -> Decoded:
        """The same, a commit_ts in each row that can have one."""
        known = _known(decoded)
        tables = [TableBatch(table.shape, _dated(table.rows, known, self._floors)) for table in decoded.tables]
        self._floors |= {partition: int(ts[-1]) + 1 for partition, (_, ts) in known.items()}
        return replace(decoded, tables=tables)


# Of a partition: offsets in their order, and the commit_ts at each.
_Known = tuple[np.ndarray, np.ndarray]


def _known(decoded: Decoded) -> dict[_Partition, _Known]:
    parts: dict[_Partition, list[_Known]] = {}
    for event in decoded.control:
        if isinstance(event, (Resolved, SchemaChange)) and event.commit_ts is not None:
            one = (np.array([event.place.offset]), np.array([event.commit_ts]))
            parts.setdefault((event.place.topic, event.place.partition), []).append(one)
    for table in decoded.tables:
        for topic, partition, rows in by_partition(_where(table.rows, pc.is_valid(table.rows.column("commit_ts")))):
            ts = rows.column("commit_ts").cast(pa.int64()).to_numpy()
            parts.setdefault((topic, partition), []).append((rows.column("offset").to_numpy(), ts))
    return {partition: _in_order(several) for partition, several in parts.items()}


def _in_order(several: list[_Known]) -> _Known:
    offsets, ts = (np.concatenate(columns) for columns in zip(*several, strict=True))
    order = np.argsort(offsets, kind="stable")
    return offsets[order], ts[order]


def _where(rows: pa.RecordBatch, dated: pa.BooleanArray) -> pa.RecordBatch:
    """Where these of the rows lie, their numbers and their commit_ts."""
    columns = {name: rows.column(name) for name in ("topic", "partition", "offset", "commit_ts")}
    return pa.RecordBatch.from_pydict({"row": pa.array(np.arange(len(rows))), **columns}).filter(dated)


def _dated(
    rows: pa.RecordBatch, known: Mapping[_Partition, _Known], floors: Mapping[_Partition, int]
) -> pa.RecordBatch:
    column = rows.column("commit_ts")
    if not column.null_count:
        return rows
    filled, still = np.zeros(len(rows), np.uint64), pc.is_null(column).to_numpy(zero_copy_only=False)
    for topic, partition, some in by_partition(_where(rows, pc.is_null(column))):
        dates = _dates(some.column("offset").to_numpy(), known.get((topic, partition)), floors.get((topic, partition)))
        if dates is not None:
            numbers = some.column("row").to_numpy()
            filled[numbers], still[numbers] = dates, False
    at = rows.schema.get_field_index("commit_ts")
    return rows.set_column(at, rows.schema.field(at), pc.coalesce(column, pa.array(filled, mask=still)))


def _dates(offsets: np.ndarray, known: _Known | None, floor: int | None) -> np.ndarray | None:
    if known is None:
        return None if floor is None else np.full(len(offsets), floor)
    places, ts = known
    following = np.searchsorted(places, offsets)
    before = np.concatenate([[floor or 0], ts + 1])[following]
    after = np.concatenate([ts, [_LAST]])[following]
    found: np.ndarray = np.minimum(before, after)
    return found
