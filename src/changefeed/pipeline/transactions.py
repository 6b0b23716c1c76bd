"""The barrier where no mark says what is still to come: whole transactions, in the order in which they ended.

The producer tells of every transaction in a topic of its own: that it ended, and how many events it had. Its events
come by the tables' topics, each with the transaction's name and its number in it.

Rule 1. A transaction is whole when it has ended and each of its events was read. A schema change is whole by itself.
Rule 2. The barrier stands behind the longest row of whole transactions, in the order of the binlog.
Rule 3. That none is missing among them is known where their names count up one by one. Elsewhere a schema change may be
        on its way, as its topic is another: the barrier then waits until the source had nothing more to read (*settled*).
Rule 4. What was sent again lies at or below the barrier and is passed over. A transaction that lies there by its place
        in the binlog, but not by its name, comes from another binlog: it has no order with the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import UnsupportedError
from changefeed.pipeline.pending import ChunkInfo
from changefeed.pipeline.state import State
from changefeed.wire import gtid


@dataclass(frozen=True, slots=True)
class _Item:
    """A transaction or a schema change.

    Attributes:
        first, last: its place in the order, as far as known.
        whole: nothing of it is missing.
        mark: offset of its end, -1 for none.
    """

    name: gtid.Name | None
    first: int | None
    last: int | None
    whole: bool
    mark: int = -1


def barrier(state: State, chunks: Iterable[ChunkInfo], until: int | str | None, *, settled: bool) -> State:
    """`state` with the barrier behind the last transaction that all tables can take in, and its name in `reached`.

    Args:
        state: it has the barrier of the step before.
        chunks: all that is pending.
        until: name of the last transaction to take in, or a place in the order.
        settled: the source had nothing more to read.

    Raises:
        UnsupportedError: a transaction comes from another binlog, see rule 4.
    """
    parts = [chunk.transactions for chunk in chunks if chunk.transactions is not None]
    if not parts:
        return state
    known = pa.Table.from_batches(parts)
    target = gtid.parse(until) if isinstance(until, str) else until
    at, mark, reached, ended = state.barrier, state.mark, dict(state.reached), state.ended
    for item in _items(known, state.ended):
        name = item.name
        if _is_repeated(item, state, settled=settled):
            ended = max(ended, item.mark)
            continue
        if not item.whole or not (settled or _follows(name, reached)) or _is_beyond(item, target):
            break
        if name is not None:
            mark, reached[name.source] = name.text, max(name.number, reached.get(name.source, 0))
        at, ended = _later(at, item.last), max(ended, item.mark)
    else:
        if settled:
            loose = _loose(known)
            at = _later(
                at, pc.max(loose if not isinstance(target, int) else loose.filter(pc.less_equal(loose, target))).as_py()
            )
    return replace(state, barrier=at, mark=mark, reached=reached, ended=ended)


def is_reached(state: State, until: str) -> bool:
    """Whether the transaction of this name is below the barrier."""
    name = gtid.parse(until)
    return name is not None and state.reached.get(name.source, -1) >= name.number


def is_waiting(chunk: ChunkInfo, ended: int) -> bool:
    """Whether the chunk knows an end of a transaction that the barrier has not passed."""
    if chunk.transactions is None:
        return False
    last = pc.max(chunk.transactions.column("mark")).as_py()
    return last is not None and last > ended


def _items(known: pa.Table, ended: int) -> Iterator[_Item]:
    """What is pending, in the order of the binlog. Transactions that have ended are in the order of their ends."""
    rows = known.filter(pc.is_valid(known.column("order"))).group_by("id")
    found = rows.aggregate([("order", "count_distinct"), ("commit_ts", "min"), ("commit_ts", "max")]).to_pylist()
    events = {row["id"]: (row["order_count_distinct"], row["commit_ts_min"], row["commit_ts_max"]) for row in found}
    ends = known.filter(pc.greater(known.column("mark"), ended)).sort_by("mark").to_pylist()
    keyed: list[tuple[int, _Item]] = []
    key = 0
    for name, end in {end["id"]: end for end in ends}.items():
        seen, first, last = events.pop(name, (0, None, None))
        key = max(key, first or 0)
        keyed.append((key, _Item(gtid.parse(name), first, last, seen >= end["events"], end["mark"])))
    keyed += [(first, _Item(gtid.parse(name), first, last, False)) for name, (_, first, last) in events.items()]
    changes = known.filter(pc.and_(pc.is_valid(known.column("events")), pc.is_null(known.column("mark")))).to_pylist()
    keyed += [(c["commit_ts"], _change(c)) for c in changes]
    keyed.sort(key=lambda pair: pair[0])
    return (item for _, item in keyed)


def _loose(known: pa.Table) -> pa.ChunkedArray:
    """The places of rows that belong to no transaction: those of a snapshot."""
    return known.filter(pc.and_(pc.is_null(known.column("id")), pc.is_null(known.column("events")))).column("commit_ts")


def _change(said: dict[str, Any]) -> _Item:
    return _Item(gtid.parse(said["id"] or ""), said["commit_ts"], said["commit_ts"], True)


def _is_repeated(item: _Item, state: State, *, settled: bool) -> bool:
    if state.barrier is None:
        return False
    number = state.reached.get(item.name.source) if item.name is not None else None
    if item.first is None:
        return settled and item.name is not None and number is not None and item.name.number <= number
    if item.first > state.barrier:
        return False
    if item.name is not None and state.reached and (number is None or item.name.number > number):
        raise UnsupportedError(
            f"transaction {item.name.text} lies before what has been applied by its place in the "
            "binlog, and after it by its name: the upstream has begun another binlog (a failover, RESET MASTER), and its "
            "changes have no order with those before. Start a new pipeline from a snapshot"
        )
    return True


def _follows(name: gtid.Name | None, reached: dict[str, int]) -> bool:
    """Whether nothing can be missing between what is reached and this name."""
    return name is not None and name.counted and reached.get(name.source, -1) + 1 == name.number


def _is_beyond(item: _Item, target: gtid.Name | int | None) -> bool:
    if isinstance(target, int):
        return item.last is not None and item.last > target
    name = item.name
    return name is not None and target is not None and name.source == target.source and name.number > target.number


def _later(at: int | None, place: int | None) -> int | None:
    return at if place is None else place if at is None else max(at, place)
