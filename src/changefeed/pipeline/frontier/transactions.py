"""The barrier without resolved events: the end of complete transactions, in the order in which they ended.

The producer reports the end of every transaction, and its number of events, in a separate topic. The events are in the tables'
topics, each with the transaction's name and its number in the transaction.

Rule 1. A transaction is complete when it has ended and each of its events was read. A schema change is complete by itself.
Rule 2. The barrier is at the end of the longest sequence of complete transactions, in the order of the binlog.
Rule 3. The sequence has no gap if the transactions' names count up one by one. Otherwise a schema change may still follow,
        because it is in another topic: the barrier waits until every partition has passed the transaction (`ends.py`), or
        until the source had nothing more to read (*idle*). It also waits where names come from several sources, because names of
        one do not show what is missing of another; and at every schema change, because those of a blocking snapshot have the
        name of the transaction before it, whose events may still follow.
        The schema changes of one statement (DROP TABLE a, b) are several, at one position: all partitions must have sent
        something after it, or the source must be idle. If the producer had sent only some of them by then, the others are
        applied when they come (`late_changes`), and no transaction follows before.
Rule 4. Changes that are sent again are at or below the barrier and are skipped. A transaction that is there by its position in
        the binlog, but not by its name or its commit time, comes from another binlog: it has no order with the rest.
Rule 5. Rows of a snapshot belong to no transaction. All have the position at which it was taken, and its last record is marked.
        The barrier waits before that position until the mark, or a change streamed after it, has been read, and every partition
        has passed the position or the source had nothing more to read: then one step applies the snapshot to all tables.
Rule 6. Rows that are read again while the binlog goes on (incremental and blocking snapshots) have the position of the last
        event, and its transaction does not count them. The signal for them is in a table: a transaction with such a signal is
        passed when the source had nothing more to read. If the signal came another way, the position may be the barrier's own:
        rows at the barrier are applied all the same, see `reads_at`.
Rule 7. An event or an end that could not be decoded is a dead letter, and will not come. A transaction that lacks events is
        passed if there are as many dead letters, and nothing of it can follow: every partition has sent something after it,
        or has been read to its end after something was sent after it; or the source had nothing more to read, and the dead
        letters were read with what is pending. If a transaction lacks its end, a later end must have been read.
Rule 8. A transaction that lacks events when the source had nothing more to read may lack them for ever: a transform, a filter or
        compaction has removed them. `State.incomplete` names it. It waits, or is passed with what was read of it:
        `incomplete-transactions`.
Rule 9. Rows without a transaction (the connector sends none, or an incremental snapshot has read them) have no end: at the
        newest position that was read, more of them may follow. So they wait until something later was read.
"""

from __future__ import annotations

import hashlib
import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.transactions import SIGNAL, TRANSACTIONS
from changefeed.model.event import SchemaChange
from changefeed.mysql import gtid
from changefeed.pipeline.absorb import highest
from changefeed.pipeline.frontier.another_binlog import check_snapshots, place_text, stop
from changefeed.pipeline.frontier.base import Reading, Until
from changefeed.pipeline.frontier.cut import CutFrontier, repeated
from changefeed.pipeline.frontier.ends import End, ends_after, passed_by_all
from changefeed.pipeline.frontier.heads import check_places
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.planning.schema_events import distinct_changes
from changefeed.pipeline.state import NOTHING, Incomplete, State
from changefeed.protocols.origin import LAST
from changefeed.stages.changes import Window

_log = logging.getLogger(__name__)

_INCREMENTAL = "incremental"
_KNOWN_SNAPSHOTS = 64  # remembered, to recognize snapshots that are sent again


@dataclass(frozen=True, slots=True)
class Transactions:
    """See `FrontierStrategy`.

    Attributes:
        applies_incomplete: transactions are applied without the events that the source does not have, see Rule 8.
    """

    applies_incomplete: bool = False

    drops_resent = True
    needs_ends = True

    def arrived(self, state: State, fresh: list[ChunkInfo]) -> State:
        """Warns of rows that an incremental snapshot has read below the barrier."""
        if passed := reads_below(fresh, state.barrier):
            _log.warning(
                "rows of an incremental snapshot that lie below the cut are skipped as if sent again: %s. If they were never "
                "sent before, the tables lack them: take the snapshot again through Debezium's signal table",
                passed,
            )
        return state

    def check(self, state: State, fresh: list[ChunkInfo], count: Callable[[ChunkInfo, Window], int]) -> None:
        """See `FrontierStrategy`."""
        check_places(state, fresh)

    def repeated(self, state: State, chunk: ChunkInfo) -> list[Window]:
        """See `FrontierStrategy`."""
        return repeated(state, chunk)

    def advance(self, reading: Reading) -> CutFrontier:
        """See `FrontierStrategy`."""
        state, chunks, ended = reading.state, reading.chunks, reading.ended
        check_snapshots(chunks)
        all_partitions = state.partitions().union(reading.partitions)
        if reading.idle:  # every partition has ended, and everything was read before
            newest = state.newest()
            ended = dict.fromkeys(all_partitions, newest) if newest is not None else {}
        passed = passed_by_all(state, all_partitions, ended)
        next_state = barrier(
            state, chunks, reading.until, idle=reading.idle, passed=passed, applies_incomplete=self.applies_incomplete
        )
        late = late_changes(state, chunks)
        applied = late if next_state.barrier == state.barrier else changes_at(chunks, next_state.barrier)
        known_changes = state.changes if next_state.barrier == state.barrier else ()
        next_state = replace(next_state, changes=(*known_changes, *map(_hash, applied)))
        return CutFrontier(next_state, state.barrier, reads_at(reading.fresh, state.barrier), late)

    def is_reached(self, state: State, until: Until) -> bool:
        """See `FrontierStrategy`."""
        if isinstance(until, int):
            return state.barrier is not None and state.barrier >= until
        return until is not None and is_reached(state, until)

    def waits(self, state: State) -> bool:
        """Whether a snapshot or a schema change may be complete once the source has nothing more to read."""
        return True


@dataclass(frozen=True, slots=True)
class _Item:
    """A transaction, a schema change or a snapshot.

    Attributes:
        first, last: its first and last position, as far as known.
        whole: whether it is complete.
        end: topic, partition and offset of its end; None if there is none.
        signal: whether it has a signal for a snapshot; rows that the transaction does not count may then have its position.
        is_change: whether it is a schema change.
        before: first position of the next transaction by number, or by the end after its own: for one without known events.
        rows: number of rows of a snapshot; None for everything else.
        lacks: number of its events, and of its end, that are missing.
        time: latest commit time in milliseconds, None if unknown.
        incomplete: what is known of it, if it lacks events or its end; also if that may still come.
    """

    name: gtid.Name | None
    first: int | None
    last: int | None
    whole: bool
    end: tuple[str, int, int] | None = None
    signal: bool = False
    is_change: bool = False
    before: int | None = None
    rows: int | None = None
    time: int | None = None
    lacks: int = 0
    incomplete: Incomplete | None = None


def barrier(
    state: State,
    chunks: Collection[ChunkInfo],
    until: int | str | None,
    *,
    idle: bool,
    passed: int | None = None,
    applies_incomplete: bool = False,
) -> State:
    """`state` with the barrier after the last transaction that all tables can apply, and its name in `reached`.

    Args:
        state: with the barrier of the step before.
        chunks: all pending chunks.
        until: name of the last transaction to apply, or a position.
        idle: the source had nothing more to read.
        passed: commit_ts that every partition has passed.
        applies_incomplete: as in `Transactions`.

    Raises:
        UnsupportedError: a transaction comes from another binlog, see Rule 4.
    """
    lines = _lines(chunks)
    if not len(lines):
        return replace(state, incomplete=None)
    target = gtid.parse(until) if isinstance(until, str) else until
    place, mark, last_numbers, passed_ends = (
        state.barrier,
        state.mark,
        dict(state.reached),
        list[tuple[str, int, int]](),
    )
    snapshots, time, incomplete = state.snapshots, state.time, None
    dead = sum(chunk.rows for chunk in chunks if chunk.kind == "dead") if idle else 0
    # more of the schema changes at the barrier may follow
    pending_changes = bool(state.changes) and (passed is None or place is None or passed <= place)
    for item in _items(lines, ends_after(chunks, state.ends), state.barrier):
        name = item.name
        if _is_repeated(item, state, idle=idle):
            passed_ends += [item.end] if item.end else []
            continue
        lost = 0 < item.lacks <= (state.counts.dead if _is_behind(item, passed) else dead)
        given_up = idle and applies_incomplete and item.lacks > 0 and not lost
        in_order = not item.is_change and not pending_changes and _follows(name, last_numbers)
        follows = not item.signal and (lost or in_order or _is_below(item, passed))
        if not (item.whole or lost or given_up) or not (idle or follows) or _is_beyond(item, target):
            if (idle or item.incomplete == state.incomplete) and not _is_beyond(item, target):
                incomplete = item.incomplete
            break
        if given_up:
            _log.warning("%s: it is applied with these (pipeline.incomplete-transactions)", item.incomplete)
        if lost:
            dead -= item.lacks
            _log.warning(
                "transaction %s is applied without %d of its records, which are dead letters",
                item.name.text if item.name else f"at {place_text(item.first or 0)}",
                item.lacks,
            )
        if item.rows is not None and item.last is not None:
            snapshots = (*snapshots, item.last)[-_KNOWN_SNAPSHOTS:]
        if name is not None:
            mark, last_numbers[name.source] = name.text, max(name.number, last_numbers.get(name.source, 0))
        passed_ends += [item.end] if item.end else []
        place, time = _later(place, item.last), _later(time, item.time)
    else:
        if idle:
            loose, waiting = _loose(lines, target, applies_all=applies_incomplete)
            place, incomplete = _later(place, loose), waiting
    ends = highest(state.ends, passed_ends)
    return replace(
        state,
        barrier=place,
        mark=mark,
        reached=last_numbers,
        ends=ends,
        snapshots=snapshots,
        time=time,
        incomplete=incomplete,
    )


def changes_at(chunks: Iterable[ChunkInfo], ts: int | None) -> list[SchemaChange]:
    """The schema changes at a position, each once."""
    return [] if ts is None else distinct_changes(chunks, ts - 1, ts)


def late_changes(state: State, chunks: Iterable[ChunkInfo]) -> list[SchemaChange]:
    """The schema changes at the position of the barrier that were not applied with the others of their statement."""
    if not state.changes:
        return []
    return [event for event in changes_at(chunks, state.barrier) if _hash(event) not in state.changes]


def reads_at(chunks: Iterable[ChunkInfo], barrier: int | None) -> bool:
    """Whether rows of a snapshot have the position of the barrier itself, see Rule 6."""
    if barrier is None:
        return False
    lines = _lines(chunks)
    return bool(pc.any(pc.and_(_is_read(lines), pc.equal(lines.column("commit_ts"), barrier))).as_py())


def reads_below(chunks: Iterable[ChunkInfo], barrier: int | None) -> int:
    """Number of rows of an incremental snapshot below the barrier: they were sent again, or come too late."""
    if barrier is None:
        return 0
    lines = _lines(chunks)
    incremental = pc.fill_null(pc.equal(lines.column("snapshot"), _INCREMENTAL), False)
    return int(
        pc.sum(pc.and_(pc.and_(_is_read(lines), incremental), pc.less(lines.column("commit_ts"), barrier))).as_py() or 0
    )


def _lines(chunks: Iterable[ChunkInfo]) -> pa.Table:
    """All lines of the `transactions` chunks; chunks of an earlier version have no column `snapshot`."""
    parts = [pa.Table.from_batches([chunk.transactions]) for chunk in chunks if chunk.transactions is not None]
    return pa.concat_tables([TRANSACTIONS.empty_table(), *parts], promote_options="default")


def is_reached(state: State, until: str) -> bool:
    """Whether the transaction of this name is below the barrier."""
    name = gtid.parse(until)
    return name is not None and state.reached.get(name.source, -1) >= name.number


def _items(lines: pa.Table, ends: list[End], barrier: int | None) -> Iterator[_Item]:
    """The pending items in the order of the binlog.

    Transactions of one partition are in the order of their ends: of one without events nothing else is known. Where the topic of
    ends has several partitions, it also follows the transactions with lower numbers.
    """
    rows = lines.filter(pc.is_valid(lines.column("order"))).group_by("id")
    aggregated = rows.aggregate(
        [("order", "count_distinct"), ("commit_ts", "min"), ("commit_ts", "max"), ("time", "max")]
    ).to_pylist()
    events = {
        row["id"]: (row["order_count_distinct"], row["commit_ts_min"], row["commit_ts_max"], row["time_max"])
        for row in aggregated
    }
    keyed: list[tuple[int, _Item]] = []
    signals = set(lines.filter(pc.equal(lines.column("snapshot"), SIGNAL)).column("id").to_pylist())
    most: dict[str, int] = {}
    for end in ends:  # a connector that restarts within a transaction ends it again, with fewer events
        most[end.id] = max(end.events, most.get(end.id, 0))
    changes = pc.and_(pc.is_valid(lines.column("events")), pc.is_null(lines.column("mark")))
    streamed = lines.filter(pc.and_(changes, pc.is_null(lines.column("snapshot")))).to_pylist()
    keys = dict[tuple[str, int], int]()
    firsts = [(name, first) for name, (_, first, _, _) in events.items()]
    numbers = _Numbers([*firsts, *((c["id"], c["commit_ts"]) for c in streamed if c["id"])])
    ended = {end.id: end for end in ends}
    following = _following({n: (end, events[n][1] if n in events else None) for n, end in ended.items()}, barrier)
    for name, end in ended.items():
        seen, first, last, time = events.pop(name, (0, None, None, None))
        topic, partition, _ = end.place
        number = gtid.parse(name)
        key = max(keys.get((topic, partition), 0), (numbers.lower(number) or 0) if first is None else first)
        keys[topic, partition] = key
        lacks = max(most[name] - seen, 0)
        before = min((p for p in (following[name], numbers.higher(number)) if p is not None), default=None)
        incomplete = Incomplete(name, seen, most[name], end.tables) if lacks else None
        item = _Item(
            number, first, last, not lacks, end.place, name in signals,
            before=before, time=time, lacks=lacks, incomplete=incomplete,
        )  # fmt: skip
        keyed.append((key, item))
    newest = max((key for key, _ in keyed), default=0)  # an end that comes before it will not follow
    for name, (seen, first, last, time) in events.items():
        lacks = int(first < newest)
        incomplete = Incomplete(name, seen, None, is_open=not lacks)
        item = _Item(
            gtid.parse(name), first, last, False, None, name in signals, time=time, lacks=lacks, incomplete=incomplete
        )
        keyed.append((first, item))
    keyed += [(c["commit_ts"], _change(c)) for c in streamed]
    keyed += [(item.first - 1, item) for item in _snapshots(lines) if item.first is not None]
    keyed.sort(key=lambda pair: (pair[0], pair[1].first is None))
    return (item for _, item in keyed)


class _Numbers:
    """The first positions of transactions and schema changes whose names count up, by source and number."""

    def __init__(self, firsts: Iterable[tuple[str, int]]) -> None:
        self._firsts: dict[str, list[tuple[int, int]]] = {}
        for text, first in firsts:
            name = gtid.parse(text)
            if name is not None and name.counted:
                self._firsts.setdefault(name.source, []).append((name.number, first))
        for pairs in self._firsts.values():
            pairs.sort()

    def lower(self, name: gtid.Name | None) -> int | None:
        """The first position of what has the next lower number of the same source."""
        pairs = self._firsts.get(name.source, []) if name is not None and name.counted else []
        index = bisect_left(pairs, (name.number, 0)) if name is not None else 0
        return pairs[index - 1][1] if index else None

    def higher(self, name: gtid.Name | None) -> int | None:
        """The same for the next higher number."""
        pairs = self._firsts.get(name.source, []) if name is not None and name.counted else []
        index = bisect_left(pairs, (name.number + 1, 0)) if name is not None else 0
        return pairs[index][1] if index < len(pairs) else None


def _following(ended: dict[str, tuple[End, int | None]], barrier: int | None) -> dict[str, int | None]:
    """Name of a transaction -> first position of the next one, above the barrier, that ended after it in the same partition."""
    following, after = dict[str, int | None](), dict[tuple[str, int], int]()
    for name, (end, first) in reversed(ended.items()):
        topic, partition, _ = end.place
        following[name] = after.get((topic, partition))
        if first is not None and first > (NOTHING if barrier is None else barrier):
            after[topic, partition] = first
    return following


def _snapshots(lines: pa.Table) -> Iterator[_Item]:
    """The snapshots, see Rule 5; their schema changes come immediately before their position."""
    mark = lines.column("snapshot")
    of_one = pc.fill_null(pc.invert(pc.is_in(mark, value_set=pa.array([SIGNAL, _INCREMENTAL]))), False)
    of_one = pc.and_(of_one, pc.is_valid(mark))
    rows, times, last = dict[int, int](), dict[int, int | None](), -1
    for line in (
        lines.filter(of_one)
        .group_by(["commit_ts", "events", "snapshot"])
        .aggregate([([], "count_all"), ("time", "max")])
        .to_pylist()
    ):
        if line["commit_ts"] is None:
            continue
        is_row = line["events"] is None
        place = line["commit_ts"] + (0 if is_row else 1)
        rows[place] = rows.get(place, 0) + (line["count_all"] if is_row else 0)
        times[place] = _later(times.get(place), line["time_max"])
        if line["snapshot"] == LAST:
            last = max(last, place)
    streamed = pc.max(lines.filter(pc.invert(of_one)).column("commit_ts")).as_py()
    for place, count in rows.items():
        whole = last >= place or (streamed is not None and streamed > place)
        yield _Item(None, place, place, whole, rows=count, time=times[place])


def _is_read(lines: pa.Table) -> pa.ChunkedArray:
    """For each line, whether it is a row that a snapshot has read."""
    mark = lines.column("snapshot")
    return pc.and_(
        pc.and_(pc.is_valid(mark), pc.fill_null(pc.not_equal(mark, SIGNAL), False)), pc.is_null(lines.column("events"))
    )


def _loose(lines: pa.Table, target: Any, *, applies_all: bool) -> tuple[int | None, Incomplete | None]:
    """The last position of rows that belong to no transaction and to no snapshot, and those that wait, see Rule 9."""
    mark, ts = lines.column("snapshot"), lines.column("commit_ts")
    alone = pc.and_(pc.is_null(lines.column("id")), pc.is_null(lines.column("events")))
    streamed = pc.or_(pc.is_null(mark), pc.fill_null(pc.is_in(mark, value_set=pa.array([SIGNAL, _INCREMENTAL])), False))
    loose = ts.filter(pc.and_(alone, streamed))
    if isinstance(target, int):
        loose = loose.filter(pc.less_equal(loose, target))
    newest = pc.max(ts).as_py()
    if applies_all or newest is None:
        return pc.max(loose).as_py(), None
    count = pc.sum(pc.equal(loose, newest)).as_py() or 0
    waiting = Incomplete("", count, None, place_text(newest)) if count else None
    return pc.max(loose.filter(pc.less(loose, newest))).as_py(), waiting


def _change(line: dict[str, Any]) -> _Item:
    return _Item(gtid.parse(line["id"] or ""), line["commit_ts"], line["commit_ts"], True, is_change=True)


def _hash(event: SchemaChange) -> str:
    named = repr((event.database, event.table, event.ddl)).encode()
    return hashlib.md5(named, usedforsecurity=False).hexdigest()


def _is_repeated(item: _Item, state: State, *, idle: bool) -> bool:
    if state.barrier is None:
        return False
    number = state.reached.get(item.name.source) if item.name is not None else None
    if item.first is None:
        return idle and item.name is not None and number is not None and item.name.number <= number
    if item.first > state.barrier:
        return False
    if item.rows and item.first < state.barrier and item.first not in state.snapshots:
        stop(f"a snapshot at {place_text(item.first)} is before what has been applied, {place_text(state.barrier)}")
    changes = "changes have no order relative to earlier ones"
    if item.name is not None and state.reached and (number is None or item.name.number > number):
        stop(
            f"transaction {item.name.text} is before what has been applied by its position in the binlog, but after it by its "
            "name",
            whose=changes,
        )
    if item.rows is None and item.time is not None and state.time and item.time > state.time:
        which = item.name.text if item.name else f"at {place_text(item.first)}"
        stop(
            f"transaction {which} is before what has been applied by its position in the binlog, but was committed after it",
            "RESET MASTER",
            changes,
        )
    return True


def _follows(name: gtid.Name | None, last_numbers: dict[str, int]) -> bool:
    """Whether no transaction can be missing between `last_numbers` and this name: only if the source is the same, see Rule 3."""
    if name is None or not name.counted or not last_numbers.keys() <= {name.source}:
        return False
    return last_numbers.get(name.source, -1) + 1 == name.number


def _is_behind(item: _Item, passed: int | None) -> bool:
    """Whether all partitions have sent something after an item; at its last position, more of it may follow."""
    if passed is None:
        return False
    return item.last < passed if item.last is not None else item.before is not None and item.before <= passed


def _is_below(item: _Item, passed: int | None) -> bool:
    """Whether all partitions have passed an item; of a snapshot or a schema change, more may follow at its position."""
    if item.rows is not None or item.is_change:
        return _is_behind(item, passed)
    return item.last is not None and passed is not None and item.last <= passed


def _is_beyond(item: _Item, target: gtid.Name | int | None) -> bool:
    if isinstance(target, int):
        return item.last is not None and item.last > target
    name = item.name
    return name is not None and target is not None and name.source == target.source and name.number > target.number


def _later(place: int | None, other: int | None) -> int | None:
    return place if other is None else other if place is None else max(place, other)
