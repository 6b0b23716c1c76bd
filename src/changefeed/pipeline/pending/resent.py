"""Detects where a producer without places in a binlog began to send changes again.

After a restart TiCDC sends everything above its checkpoint again. Changes at or below the barrier have been applied by then, and
are recognized by their commit_ts. Of pending changes, tables with a key take the last image of each key; a table without a key
would get its rows twice:

    offset        1     2     3     4       5     6     7
    partition 0   r 7   r 7   k 7   | r 7   r 7   k 7   resolved 9          one sending ends before 4, another begins there

Rule 1. Within one sending, resolved events of a partition go forward, rows of a table are in the order of commit_ts, no row
follows a resolved event at or above it, and a key has one change of an op in a transaction. Where this does not hold, another
sending has begun: k 7 at offset 6 proves it.
Rule 2. It began with the first record of the longest run of records, up to the proof, that the sending before has had, in the
same order. It has had the changes at or below the barrier, too.
Rule 3. A change counts as often as in the sending that contains it most often: equal rows of one transaction are kept, and a
sending that stopped within a transaction does no harm.
Rule 4. A resolved event promises that its partition has had all rows up to it. A row that follows one at or above it, in any
sending, does not count if an equal one came before.
Rule 5. A row of a table without a key that comes again without such a proof cannot be distinguished from an equal row of the same
transaction, and is applied: the sending begins with the last rows of its partition, and nothing else of them is sent again.
Rule 6. Each partition counts for itself. TiCDC's dispatchers use the table, the commit_ts or the row's values, and put equal rows
into one partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.sent import LINES, combined
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.pending.places import stretches_of
from changefeed.pipeline.state import NOTHING, Positions, Sendings, State, Stretch, Stretches

_Partition = tuple[str, int]
_Numbers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


def sendings(
    begun: Sendings, marks: Positions, pending: Iterable[ChunkInfo], fresh: Iterable[ChunkInfo], barrier: int | None
) -> tuple[Sendings, Positions]:
    """The offsets at which sendings begin, after a batch.

    Args:
        begun: topic -> partition -> offsets at which a sending begins, as known before.
        marks: the last resolved commit_ts of each partition's sending, as known before.
        pending: the chunks that were pending before the batch.
        fresh: the chunks of the batch.
        barrier: the commit_ts up to which changes have been applied.

    Returns:
        Both, updated with the batch.
    """
    earlier, later = _by_partition(pending), _by_partition(fresh)
    offsets_of = {topic: dict(offsets) for topic, offsets in begun.items()}
    last = {topic: dict(offsets) for topic, offsets in marks.items()}
    for key, chunks in later.items():
        topic, partition = key
        records = _Records.of(earlier.get(key, []), chunks)
        begins_before = offsets_of.get(topic, {}).get(partition, ())
        scan = _Scan(
            records, begins_before, last.get(topic, {}).get(partition, NOTHING), NOTHING if barrier is None else barrier
        )
        if begins := scan.begins():
            offsets_of.setdefault(topic, {})[partition] = (*begins_before, *begins)
        if scan.mark > NOTHING:
            last.setdefault(topic, {})[partition] = scan.mark
        else:
            last.get(topic, {}).pop(partition, None)
    return offsets_of, last


def may_be_keyless(state: State, pending: Iterable[ChunkInfo]) -> bool:
    """Whether a batch may have rows of a table without a key: one is known, or tables are not known yet, or change."""
    if state.barrier is None or any(not known.table.keys for known in state.tables.values()):
        return True
    return any(
        chunk.kind == "schema" or (chunk.sent is not None and pc.any(chunk.sent.column("keyless")).as_py())
        for chunk in pending
    )


def below_marks(
    resolved: Positions, pending: Iterable[ChunkInfo], fresh: Iterable[ChunkInfo], barrier: int | None
) -> Stretches:
    """The positions of those rows of a batch, of tables without a key, that do not count: see Rule 4.

    Args:
        resolved: the highest resolved commit_ts of each partition before the batch.
        pending, fresh, barrier: as of `sendings`; rows up to the barrier do not count anyway.
    """
    positions: Stretches = {}
    earlier, later = _by_partition(pending), _by_partition(fresh)
    for (topic, partition), chunks in later.items():
        lines = _lines(chunks)
        if not len(lines) or not pc.any(lines.column("keyless")).as_py():
            continue
        offsets, ts = _column(lines, "offset"), _column(lines, "commit_ts")
        marks = sorted((c.first, c.max_ts) for c in chunks if c.kind == "resolved" and c.max_ts is not None)
        before = resolved.get(topic, {}).get(partition, NOTHING)
        passed = np.maximum.accumulate(np.array([before, *(mark for _, mark in marks)], np.int64))
        below = ts <= passed[np.searchsorted(np.array([at for at, _ in marks], np.int64), offsets)]
        below &= lines.column("keyless").to_numpy(zero_copy_only=False).astype(np.bool_)
        below &= ts > (NOTHING if barrier is None else barrier)
        if not below.any():
            continue
        known = _lines(earlier.get((topic, partition), []))
        ids = np.concatenate([combined(_column(of, "commit_ts"), _column(of, "same")) for of in (known, lines)])
        came_before = _is_not_first(ids)[len(known) :]
        if (repeated := below & came_before).any():
            positions.setdefault(topic, {})[partition] = _without_gaps(offsets, _column(lines, "index"), repeated)
    return positions


def _without_gaps(offsets: _Numbers, indexes: _Numbers, mask: _Mask) -> tuple[Stretch, ...]:
    """The stretches of these rows, with no offset between them: a row without a line may be there."""
    gap = np.concatenate([[False], np.diff(offsets) > 1])
    part = np.cumsum(gap)
    of_parts = (stretches_of(offsets[part == n], indexes[part == n], mask[part == n]) for n in np.unique(part[mask]))
    return tuple(stretch for stretches in of_parts for stretch in stretches)


def _is_not_first(ids: _Numbers) -> _Mask:
    """For each number, whether an equal one is before it."""
    mask = np.ones(len(ids), np.bool_)
    mask[np.unique(ids, return_index=True)[1]] = False
    return mask


def _going_back(tables: _Numbers, ts: _Numbers) -> _Numbers:
    """The places of rows with a lower commit_ts than an earlier row of their table, in ascending order."""
    if not len(ts):
        return np.zeros(0, np.int64)
    order = np.argsort(tables, kind="stable")
    of, rank = (np.unique(numbers[order], return_inverse=True)[1].astype(np.int64) for numbers in (tables, ts))
    value = of * len(ts) + rank  # of a later table, all are higher
    back = order[value < np.maximum.accumulate(value)]
    return np.sort(back[tables[back] != 0])


def still_needed(begun: Sendings, pending: Iterable[ChunkInfo]) -> Sendings:
    """The sendings that begin after a pending row; the others are not needed any more."""
    first: dict[_Partition, int] = {}
    for chunk in pending:
        if chunk.kind == "rows":
            key = (chunk.topic, chunk.partition)
            first[key] = min(chunk.first, first.get(key, chunk.first))
    needed: Sendings = {}
    for topic, offsets in begun.items():
        for partition, begins in offsets.items():
            rest = tuple(b for b in begins if (topic, partition) in first and b > first[topic, partition])
            if rest:
                needed.setdefault(topic, {})[partition] = rest
    return needed


def surplus(begun: Sendings, chunks: Iterable[ChunkInfo]) -> Stretches:
    """The positions of those rows of tables without a key that do not count, see Rule 3."""
    positions: Stretches = {}
    for (topic, partition), of_partition in _by_partition(chunks).items():
        begins = begun.get(topic, {}).get(partition, ())
        lines = _lines(of_partition) if begins else _no_lines()
        if not len(lines):
            continue
        offsets, indexes = _column(lines, "offset"), _column(lines, "index")
        sending = np.searchsorted(np.array(begins, np.int64), offsets, side="right")
        ids = combined(_column(lines, "commit_ts"), _column(lines, "same"))
        keyless = lines.column("keyless").to_numpy(zero_copy_only=False).astype(np.bool_)
        dropped = keyless & _comes_again(ids, sending)
        if dropped.any():
            positions.setdefault(topic, {})[partition] = stretches_of(offsets, indexes, dropped)
    return positions


def _comes_again(ids: _Numbers, sending: _Numbers) -> _Mask:
    """For each row, whether it is the nth equal one of its sending, and an earlier sending has n, too."""
    order = np.lexsort([sending, ids])
    group = np.concatenate([[True], (np.diff(ids[order]) != 0) | (np.diff(sending[order]) != 0)])
    places = np.arange(len(ids))
    nth = places - np.maximum.accumulate(np.where(group, places, 0))
    by_nth = np.lexsort([sending[order], nth, ids[order]])  # equal rows with the same n, by sending
    first = np.concatenate([[True], (np.diff(ids[order][by_nth]) != 0) | (np.diff(nth[by_nth]) != 0)])
    is_repeat = np.empty(len(ids), np.bool_)
    is_repeat[order[by_nth]] = ~first
    return is_repeat


def _by_partition(chunks: Iterable[ChunkInfo]) -> dict[_Partition, list[ChunkInfo]]:
    parts = defaultdict[_Partition, list[ChunkInfo]](list)
    for chunk in chunks:
        if chunk.sent is not None or (chunk.kind == "resolved" and chunk.max_ts is not None):
            parts[chunk.topic, chunk.partition].append(chunk)
    return parts


@cache
def _no_lines() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], LINES)


def _lines(chunks: Iterable[ChunkInfo]) -> pa.RecordBatch:
    """The lines of chunks of one partition, in order; many partitions have none."""
    parts = [chunk.sent for chunk in chunks if chunk.sent is not None]
    if not parts:
        return _no_lines()
    lines = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
    order = np.lexsort([_column(lines, "index"), _column(lines, "offset")])
    return lines.take(pa.array(order))


def _column(lines: pa.RecordBatch, name: str) -> _Numbers:
    numbers: _Numbers = lines.column(name).cast(pa.int64()).to_numpy()
    return numbers


@dataclass(frozen=True, slots=True)
class _Records:
    """The rows and resolved events of one partition, in order.

    Attributes:
        offsets: of their records.
        ts: their commit_ts.
        ids: equal for a row that is sent again, and for an equal resolved event.
        tables: hash of the table's name; 0 of resolved events.
        is_mark, is_keyed: whether it is a resolved event, or a row with a key.
        pending_count: how many of them were pending before the batch.
    """

    offsets: _Numbers
    ts: _Numbers
    ids: _Numbers
    tables: _Numbers
    is_mark: _Mask
    is_keyed: _Mask
    pending_count: int

    @classmethod
    def of(cls, pending: list[ChunkInfo], fresh: list[ChunkInfo]) -> _Records:
        """The records of the chunks; those of `fresh` are behind all of `pending`."""
        lines = _lines([*pending, *fresh])
        keyless = lines.column("keyless").to_numpy(zero_copy_only=False).astype(np.bool_)
        sent = [(c.first, c.max_ts or 0) for c in (*pending, *fresh) if c.kind == "resolved"]
        marks = np.array(sent, np.int64).reshape(-1, 2)
        mark_ids = combined(marks[:, 1], np.full(len(marks), NOTHING, np.int64))
        row_ids = combined(_column(lines, "commit_ts"), _column(lines, "same"))
        offsets = np.concatenate([_column(lines, "offset"), marks[:, 0]])
        order = np.argsort(offsets, kind="stable")
        first = min((c.first for c in fresh), default=0)
        return cls(
            offsets[order],
            np.concatenate([_column(lines, "commit_ts"), marks[:, 1]])[order],
            np.concatenate([row_ids, mark_ids])[order],
            np.concatenate([_column(lines, "table"), np.zeros(len(marks), np.int64)])[order],
            np.repeat([False, True], [len(lines), len(marks)])[order],
            np.concatenate([~keyless, np.zeros(len(marks), np.bool_)])[order],
            pending_count=int(np.searchsorted(offsets[order], first)),
        )

    def __len__(self) -> int:
        return len(self.offsets)


class _Scan:
    """Finds the sendings that begin in a batch.

    Attributes:
        mark: the last resolved commit_ts of the current sending.
    """

    def __init__(self, records: _Records, begun: tuple[int, ...], mark: int, barrier: int) -> None:
        self.records, self.mark, self._barrier = records, mark, barrier
        self._begin = int(np.searchsorted(records.offsets, begun[-1])) if begun else 0
        by_id = np.argsort(records.ids, kind="stable")
        self._by_id, self._sorted_ids = by_id, records.ids[by_id]

    def begins(self) -> list[int]:
        """The offsets of the first records of the sendings."""
        begins, start = list[int](), self.records.pending_count
        while (proof := self._proof(start)) is not None:
            self._begin = self._first_of_run(proof)
            begins.append(int(self.records.offsets[self._begin]))
            self.mark, start = self._last_mark(NOTHING, self._begin, proof + 1), proof + 1
        self.mark = self._last_mark(self.mark, start, len(self.records))
        return begins

    def _last_mark(self, mark: int, start: int, end: int) -> int:
        marks = self.records.ts[start:end][self.records.is_mark[start:end]]
        return max(mark, int(marks.max(initial=NOTHING)))

    def _proof(self, start: int) -> int | None:
        """The first record from `start` on that the current sending cannot contain, see Rule 1."""
        records = self.records
        ts = records.ts[start:]
        if not len(ts):
            return None
        marks = np.where(records.is_mark[start:], ts, NOTHING)
        passed = np.maximum.accumulate(np.concatenate([[self.mark], marks]))[:-1]
        proofs = [start + np.flatnonzero(ts <= passed)[:1]]
        sending = slice(self._begin, len(records))
        back = self._begin + _going_back(records.tables[sending], records.ts[sending])
        proofs.append(back[back >= start][:1])
        keyed = self._begin + np.flatnonzero(records.is_keyed[sending])
        order = keyed[np.argsort(records.ids[keyed], kind="stable")]
        twice = order[1:][records.ids[order][1:] == records.ids[order][:-1]]
        proofs.append(np.sort(twice[twice >= start])[:1])
        return min((int(place[0]) for place in proofs if len(place)), default=None)

    def _first_of_run(self, proof: int) -> int:
        """The first record of the sending that the record `proof` belongs to, see Rule 2."""
        records = self.records
        index, before = proof, self._read_before(proof, proof)
        while before is not None and index > self._begin:
            earlier = self._read_before(index - 1, before)
            if earlier is None:
                break
            index, before = index - 1, earlier
        offset = records.offsets[index]
        has_unread_part = index > self._begin and records.offsets[index - 1] == offset  # of that record
        if has_unread_part:
            index = int(np.searchsorted(records.offsets, offset, side="right"))
        return max(min(index, int(np.searchsorted(records.offsets, records.offsets[proof]))), self._begin)

    def _read_before(self, record: int, bound: int) -> int | None:
        """The last equal record of the current sending before `bound`; `NOTHING` if it was applied, None if there is none."""
        start = int(np.searchsorted(self._sorted_ids, self.records.ids[record]))
        end = int(np.searchsorted(self._sorted_ids, self.records.ids[record], side="right"))
        places = self._by_id[start:end]
        index = int(np.searchsorted(places, min(bound, record)))
        if index and places[index - 1] >= self._begin:
            return int(places[index - 1])
        return NOTHING if self.records.ts[record] <= self._barrier else None
