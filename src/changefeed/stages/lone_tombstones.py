"""Places tombstones that stand for deletes among what their partition has sent in earlier batches.

    earlier batch   … insert 700, delete 800 │ tombstone …          follows its own delete: left out
                    … insert 700             │ tombstone …          a delete behind 700
                    … insert 900, insert 700 │ tombstone …          sent again, with 700: a delete behind 700, not behind 900

A decoder places a tombstone by the records around it in its batch (`protocols.debezium_mysql.tombstones`). What came before the
batch is known here: of each partition the highest commit_ts, and how the batch before has ended.

Rule 1. A tombstone right behind a delete is not a delete.
Rule 2. A tombstone that its partition begins with has the commit_ts of the last row of the partition. Not more: more rows of that
        commit_ts may follow, and a partition whose highest commit_ts is above theirs counts as having sent them all.
Rule 3. If that is the highest commit_ts of the partition, and has been applied, the tombstone has the first one above the
        barrier, because what is below counts as sent again. If it is lower than the highest, the producer sends again what it
        has sent before: the tombstone, too.
Rule 4. If the producer begins to send again with a tombstone whose delete is not there, and a batch has nothing else of the
        partition, the tombstone seems new. Only a transform that drops deletes leaves such records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.chunks import Dated
from changefeed.frames.sent import KEYLESS
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.shared_rows import adjacent, column_of_tables
from changefeed.protocols.origin import is_tombstone

# In place of a table's name in `Dated`:
LATEST = "*latest"
"""The first commit_ts above the barrier, and the highest of the partition."""
LAST = "*last"
"""The offset of the last record, and the commit_ts of the last row; it is kept while that is not the highest."""
DELETED = "*deleted"
"""The offset of the last record, which was a delete, and 0."""
_NAMES = frozenset({LATEST, LAST, DELETED, KEYLESS})
_Partition = tuple[str, int]
_Records = dict[str, dict[int, dict[str, tuple[int, int]]]]  # `Dated` as it is built


def with_latest(
    dated: Dated, positions: Mapping[str, Mapping[int, int]], barrier: int | None, *, keyless: bool = False
) -> Dated:
    """Returns the records of earlier batches with the highest commit_ts of each partition.

    Args:
        dated: those that are kept in the state.
        positions: topic -> partition -> its highest commit_ts, negative if it has sent none.
        barrier: the commit_ts up to which changes have been applied; None before the first cut.
        keyless: whether the pipeline may have a table without a key.
    """
    first = 0 if barrier is None else barrier + 1
    merged = {topic: {number: dict(named) for number, named in of.items()} for topic, of in dated.items()}
    for topic, of in positions.items():
        for number, ts in of.items():
            if ts >= 0:
                merged.setdefault(topic, {}).setdefault(number, {})[LATEST] = (first, ts)
    if keyless:
        merged.setdefault("", {})[0] = {KEYLESS: (0, 0)}  # of no partition
    return merged


def of_tables(dated: Dated) -> Dated:
    """Returns the records without those that are not of tables."""
    return _kept(dated, lambda topic, number, name, offset: name not in _NAMES)


def still_last(dated: Dated, positions: Mapping[str, Mapping[int, int]]) -> _Records:
    """Returns the records without those on the last record of a partition that has sent more since.

    Args:
        dated: those of the state and of the batch.
        positions: topic -> partition -> offset of the next record.
    """

    def is_last(topic: str, number: int, name: str, offset: int) -> bool:
        return name not in _NAMES or offset + 1 == positions.get(topic, {}).get(number)

    return _kept(dated, is_last)


def _kept(dated: Dated, keeps: Callable[[str, int, str, int], bool]) -> _Records:
    """The records for which `keeps` is true of topic, partition, name and offset."""
    kept: _Records = {}
    for topic, of in dated.items():
        for number, named in of.items():
            some = {name: record for name, record in named.items() if keeps(topic, number, name, record[0])}
            if some:
                kept.setdefault(topic, {})[number] = some
    return kept


class LoneTombstones:
    """Places the tombstones of batches of records, each partition in order."""

    def __init__(self, dated: Dated) -> None:
        """Begins behind the records of earlier batches; see `with_latest`."""
        self._first = dict[_Partition, int]()
        self._highest = dict[_Partition, int]()
        self._last = dict[_Partition, int]()  # commit_ts of the last row
        self._ends = dict[_Partition, int]()  # offset of the last record, of partitions that were read
        self._deleted = dict[_Partition, int]()  # offset of the last record, if it was a delete
        for topic, of in dated.items():
            for number, named in of.items():
                at = topic, number
                if LATEST in named:
                    self._first[at], self._highest[at] = named[LATEST]
                    self._last[at] = self._highest[at]
                if LAST in named:
                    self._last[at] = named[LAST][1]
                if DELETED in named:
                    self._deleted[at] = named[DELETED][0]

    def placed(self, decoded: Decoded, records: pa.RecordBatch) -> Decoded:
        """Returns the decoded records, with each tombstone in its place: see Rules 1 to 3."""
        lone = [table for table in decoded.tables if is_tombstone(table.shape)]
        if lone:
            tables = [self._placed(t) if is_tombstone(t.shape) else t for t in decoded.tables]
            placed = Decoded([t for t in tables if len(t)], decoded.control, decoded.dead)
        else:
            placed = decoded
        self._note([table for table in decoded.tables if not is_tombstone(table.shape)], records)
        return placed

    def dated(self) -> Dated:
        """Returns what the next batch must know of the partitions that were read, which may be nothing; see `Dated`."""
        dated: _Records = {}
        for at, offset in self._ends.items():
            named = dict[str, tuple[int, int]]()
            if at in self._deleted:
                named[DELETED] = offset, 0
            if at in self._last and self._last[at] < self._highest[at]:
                named[LAST] = offset, self._last[at]
            dated.setdefault(at[0], {})[at[1]] = named
        return dated

    def _placed(self, table: TableBatch) -> TableBatch:
        rows = table.rows
        lines = rows.select(["topic", "partition", "offset", "commit_ts"]).to_pylist()
        is_own = [self._deleted.get((line["topic"], line["partition"])) == line["offset"] - 1 for line in lines]
        places = [self._place((line["topic"], line["partition"]), line["commit_ts"]) for line in lines]
        if any(is_own) or places != [line["commit_ts"] for line in lines]:
            at = rows.schema.get_field_index("commit_ts")
            rows = rows.set_column(at, rows.schema.field(at), pa.array(places, rows.schema.field(at).type))
            return TableBatch(table.shape, rows.filter(pc.invert(pa.array(is_own))))
        return table

    def _place(self, at: _Partition, ts: int | None) -> int | None:
        """The commit_ts of a tombstone that has this one by the records around it; 0 or None if there are none."""
        place = ts or self._last.get(at)
        if place is None or at not in self._first or place != self._highest[at]:
            return ts if place is None else place
        return max(place, self._first[at])

    def _note(self, tables: list[TableBatch], records: pa.RecordBatch) -> None:
        """Notes how a batch ends."""
        if not len(records):
            return
        ts, is_delete = np.full(len(records), -1, np.int64), np.zeros(len(records), np.bool_)
        if tables:
            tables = adjacent(tables)
            numbers = column_of_tables(tables, "record").to_numpy()
            ts[numbers] = column_of_tables(tables, "commit_ts").cast(pa.int64()).fill_null(-1).to_numpy()
            is_delete[numbers] = pc.equal(column_of_tables(tables, "op"), "delete").to_numpy(zero_copy_only=False)
        for at, start, stop, offset in _runs(records):
            if offset < self._ends.get(at, -1):
                continue
            self._ends[at], of_run = offset, ts[start:stop]
            if (highest := int(of_run.max())) >= 0:
                last = of_run[-1] if of_run[-1] >= 0 else of_run[of_run >= 0][-1]
                self._last[at], self._highest[at] = int(last), max(self._highest.get(at, -1), highest)
            if is_delete[stop - 1]:
                self._deleted[at] = offset
            else:
                self._deleted.pop(at, None)


def _runs(records: pa.RecordBatch) -> Iterator[tuple[_Partition, int, int, int]]:
    """Yields each run of records of one partition, in order: the partition, start, stop, and the offset of the last record."""
    topics = pc.run_end_encode(records.column("topic"))
    ends = topics.run_ends.to_numpy()
    partition, offset = records.column("partition").to_numpy(), records.column("offset").to_numpy()
    changes = np.flatnonzero((np.diff(partition) != 0) | (np.diff(offset) < 0)) + 1
    starts = np.unique(np.concatenate([[0], ends[:-1], changes])).tolist()
    for start, stop in zip(starts, [*starts[1:], len(offset)], strict=True):
        topic = topics.values[int(np.searchsorted(ends, start, side="right"))].as_py()
        yield (topic, int(partition[start])), start, stop, int(offset[stop - 1])
