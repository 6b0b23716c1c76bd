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
        together with the rows that are sent again. A mark at or below the last one does not bound it: with it the producer
        begins to send again.
Rule 3. If no commit_ts is known before it, not even from an earlier batch, it is older than everything.
Rule 4. In a partition in which no record has a commit_ts, no row gets one.
Rule 5. Rows of other tables may be older or newer, and bound it only if they show that the producer sends again: if the
        record before or after it is below the last mark.
Rule 6. What came before it is the same however the records are divided into batches: of each partition, the last mark or schema
        change is kept and, for each table, the last row behind it that has a commit_ts (`Dated`). An estimate is not kept, or
        estimates would run ahead of the producer.

What came after it is known within a batch only. So if a producer sends again, begins with such a delete, and a batch ends
behind the delete, the delete seems new: it is applied after the mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.chunks import Dated
from changefeed.frames.partitions import by_partition
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import Control, Resolved, SchemaChange

_Partition = tuple[str, int]
_LAST = 2**63 - 1
_CONTROLS = ""  # the name under which marks and schema changes are kept
# Records of a partition that have a commit_ts: offsets in ascending order, and the commit_ts of each.
_Known = tuple[np.ndarray, np.ndarray]


class TimestampEstimator:
    """Sets commit_ts of rows without one from their neighbours. Call `fill` with whole partitions, in order.

    Args:
        dated: the result of `dated` of the estimator of the batch before.
    """

    def __init__(self, dated: Dated) -> None:
        self._last: dict[str, dict[_Partition, _Known]] = {_CONTROLS: {}}
        self._read: set[_Partition] = set()
        for topic, partitions in dated.items():
            for number, records in partitions.items():
                for name, (offset, ts) in records.items():
                    self._last.setdefault(name, {})[topic, number] = (np.array([offset]), np.array([ts]))

    def fill(self, decoded: Decoded) -> Decoded:
        """Returns the decoded records with a commit_ts in each row for which one can be estimated."""
        fresh = {_CONTROLS: _controls(decoded.control)}
        for table in decoded.tables:
            fresh[table.name] = _joined(fresh.get(table.name, {}), _dated_rows(table))
        controls = _joined(self._last[_CONTROLS], fresh[_CONTROLS])
        missing = {table.name for table in decoded.tables if table.rows.column("commit_ts").null_count}
        known = _joined(*self._last.values(), *fresh.values()) if missing else {}
        own = {name: _joined(controls, self._last.get(name, {}), fresh[name]) for name in missing}
        tables = [
            TableBatch(table.shape, _filled(table.rows, known, own[table.name], controls))
            if table.name in missing
            else table
            for table in decoded.tables
        ]
        self._keep(fresh)
        return replace(decoded, tables=tables)

    def dated(self) -> Dated:
        """The records that bound the commit_ts of later rows, of the partitions where `fill` has met records with one."""
        dated: dict[str, dict[int, dict[str, tuple[int, int]]]] = {}
        for name, partitions in self._last.items():
            for topic, number in self._read.intersection(partitions):
                offsets, ts = partitions[topic, number]
                dated.setdefault(topic, {}).setdefault(number, {})[name] = (int(offsets[-1]), int(ts[-1]))
        return dated

    def _keep(self, fresh: Mapping[str, Mapping[_Partition, _Known]]) -> None:
        for name, partitions in fresh.items():
            self._read.update(partitions)
            for partition, (offsets, ts) in partitions.items():
                self._last.setdefault(name, {})[partition] = (offsets[-1:], ts[-1:])
        for partition, (marked, _) in fresh[_CONTROLS].items():  # rows before a mark bound nothing behind it
            for name, kept in self._last.items():
                if name != _CONTROLS and partition in kept and kept[partition][0][-1] < marked[-1]:
                    del kept[partition]


def _controls(events: Iterable[Control]) -> dict[_Partition, _Known]:
    """The marks and schema changes."""
    parts: dict[_Partition, list[_Known]] = {}
    for event in events:
        if isinstance(event, (Resolved, SchemaChange)) and event.commit_ts is not None:
            known = (np.array([event.place.offset]), np.array([event.commit_ts]))
            parts.setdefault((event.place.topic, event.place.partition), []).append(known)
    return {partition: _in_order(several) for partition, several in parts.items()}


def _dated_rows(table: TableBatch) -> dict[_Partition, _Known]:
    """The rows that have a commit_ts."""
    known = {}
    for topic, partition, rows in by_partition(_where(table.rows, pc.is_valid(table.rows.column("commit_ts")))):
        ts = rows.column("commit_ts").cast(pa.int64()).to_numpy()
        known[topic, partition] = _in_order([(rows.column("offset").to_numpy(), ts)])
    return known


def _joined(*several: Mapping[_Partition, _Known]) -> dict[_Partition, _Known]:
    parts: dict[_Partition, list[_Known]] = {}
    for one in several:
        for partition, known in one.items():
            parts.setdefault(partition, []).append(known)
    return {partition: known[0] if len(known) == 1 else _in_order(known) for partition, known in parts.items()}


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
) -> pa.RecordBatch:
    column = rows.column("commit_ts")
    filled, missing = np.zeros(len(rows), np.uint64), pc.is_null(column).to_numpy(zero_copy_only=False)
    for topic, partition, some in by_partition(_where(rows, pc.is_null(column))):
        at_partition = (topic, partition)
        if at_partition not in known:
            continue
        offsets = some.column("offset").to_numpy()
        estimates = _estimates(offsets, known[at_partition], controls.get(at_partition))
        if at_partition in own:
            again = _sent_again(offsets, known[at_partition], controls.get(at_partition))
            estimates = np.where(again, estimates, _estimates(offsets, own[at_partition], controls.get(at_partition)))
        numbers = some.column("row").to_numpy()
        filled[numbers], missing[numbers] = estimates, False
    at = rows.schema.get_field_index("commit_ts")
    return rows.set_column(at, rows.schema.field(at), pc.coalesce(column, pa.array(filled, mask=missing)))


def _estimates(offsets: np.ndarray, known: _Known, controls: _Known | None) -> np.ndarray:
    known_offsets, ts = known
    before = np.concatenate([[0], ts + 1])[np.searchsorted(known_offsets, offsets)]
    estimates: np.ndarray = np.minimum(before, _after(offsets, known, controls))
    return estimates


def _after(offsets: np.ndarray, known: _Known, controls: _Known | None) -> np.ndarray:
    """The commit_ts of the record after each offset; the highest if there is none, or it begins another sending: see Rule 2."""
    known_offsets, ts = known
    following = np.searchsorted(known_offsets, offsets)
    after: np.ndarray = np.concatenate([ts, [_LAST]])[following]
    if controls is None:
        return after
    control_offsets, _ = controls
    next_control = np.searchsorted(control_offsets, offsets)
    is_control = (
        np.concatenate([known_offsets, [-1]])[following] == np.concatenate([control_offsets, [-2]])[next_control]
    )
    return np.where(is_control & (after <= _last_mark(offsets, controls)), _LAST, after)


def _last_mark(offsets: np.ndarray, controls: _Known) -> np.ndarray:
    control_offsets, control_ts = controls
    marks: np.ndarray = np.concatenate([[-1], control_ts])[np.searchsorted(control_offsets, offsets)]
    return marks


def _sent_again(offsets: np.ndarray, known: _Known, controls: _Known | None) -> np.ndarray:
    """Whether the record before or after each offset is below the last mark or schema change: see Rule 5."""
    if controls is None:
        return np.zeros(len(offsets), np.bool_)
    mark, (known_offsets, ts) = _last_mark(offsets, controls), known
    before = np.concatenate([[_LAST], ts])[np.searchsorted(known_offsets, offsets)]
    lower: np.ndarray = (before < mark) | (_after(offsets, known, controls) <= mark)
    return lower
