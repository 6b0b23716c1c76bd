"""Estimates the commit_ts of rows whose protocol sends none, from the records around them in their partition.

A delete in TiCDC's Avro is a key without a value. The producer sends each table's rows in commit order, so the neighbouring
rows of the table, marks and schema changes in the partition bound the commit_ts of the delete:

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
Rule 5. Rows of other tables may be older or newer, and bound it only if they show that the producer sends again: if the
        record before or after it is below the last mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.chunks import by_partition
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import Control, Resolved, SchemaChange

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
        controls = _controls(decoded.control)
        known = _known(decoded.tables, controls)
        tables = []
        for table in decoded.tables:
            mine = [one for one in decoded.tables if one.name == table.name]
            alone = len(mine) == len(decoded.tables) or not table.rows.column("commit_ts").null_count
            own = known if alone else _known(mine, controls)
            tables.append(TableBatch(table.shape, _filled(table.rows, known, own, controls, self._floors)))
        self._floors |= {partition: int(ts[-1]) + 1 for partition, (_, ts) in known.items()}
        return replace(decoded, tables=tables)


# Records of a partition that have a commit_ts: offsets in ascending order, and the commit_ts of each.
_Known = tuple[np.ndarray, np.ndarray]


def _controls(events: Iterable[Control]) -> dict[_Partition, _Known]:
    """The marks and schema changes."""
    parts: dict[_Partition, list[_Known]] = {}
    for event in events:
        if isinstance(event, (Resolved, SchemaChange)) and event.commit_ts is not None:
            known = (np.array([event.place.offset]), np.array([event.commit_ts]))
            parts.setdefault((event.place.topic, event.place.partition), []).append(known)
    return {partition: _in_order(several) for partition, several in parts.items()}


def _known(tables: Iterable[TableBatch], controls: Mapping[_Partition, _Known]) -> dict[_Partition, _Known]:
    """The rows of the tables with the marks and schema changes."""
    parts = {partition: [known] for partition, known in controls.items()}
    for table in tables:
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
    rows: pa.RecordBatch,
    known: Mapping[_Partition, _Known],
    own: Mapping[_Partition, _Known],
    controls: Mapping[_Partition, _Known],
    floors: Mapping[_Partition, int],
) -> pa.RecordBatch:
    column = rows.column("commit_ts")
    if not column.null_count:
        return rows
    filled, missing = np.zeros(len(rows), np.uint64), pc.is_null(column).to_numpy(zero_copy_only=False)
    for topic, partition, some in by_partition(_where(rows, pc.is_null(column))):
        at_partition = (topic, partition)
        offsets, floor = some.column("offset").to_numpy(), floors.get(at_partition)
        estimates = _estimates(offsets, known.get(at_partition), floor)
        if own is not known and at_partition in own:
            of_table = _estimates(offsets, own[at_partition], floor)
            again = _sent_again(offsets, known[at_partition], controls.get(at_partition))
            estimates = of_table if of_table is None or estimates is None else np.where(again, estimates, of_table)
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


def _sent_again(offsets: np.ndarray, known: _Known, controls: _Known | None) -> np.ndarray:
    """Whether the record before or after each offset is below the last mark or schema change: see Rule 5."""
    if controls is None:
        return np.zeros(len(offsets), np.bool_)
    control_offsets, control_ts = controls
    mark = np.concatenate([[-1], control_ts])[np.searchsorted(control_offsets, offsets)]
    known_offsets, ts = known
    following = np.searchsorted(known_offsets, offsets)
    before, after = np.concatenate([[_LAST], ts])[following], np.concatenate([ts, [_LAST]])[following]
    lower: np.ndarray = (before < mark) | (after <= mark)
    return lower
