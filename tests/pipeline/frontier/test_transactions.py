"""The barrier by whole transactions: it passes no transaction that lacks an event, and none twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from changefeed.errors import UnsupportedError
from changefeed.frames.transactions import SIGNAL, TRANSACTIONS
from changefeed.model.event import SchemaChange
from changefeed.model.position import Place
from changefeed.pipeline.frontier.another_binlog import check_snapshots
from changefeed.pipeline.frontier.ends import is_waiting
from changefeed.pipeline.frontier.transactions import barrier, is_reached, reads_at, reads_below
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.state import Counts, State
from changefeed.protocols.origin import LAST

Line = dict[str, Any]


def row(number: int, order: int, place: int, source: str = "0-1") -> Line:
    return {"id": f"{source}-{number}", "order": order, "commit_ts": place}


def end(number: int, events: int, source: str = "0-1") -> Line:
    return {"id": f"{source}-{number}", "events": events, "mark": 2 * number}


def ddl(number: int | None, place: int) -> Line:
    return {"id": None if number is None else f"0-1-{number}", "events": 0, "commit_ts": place}


def loose(place: int) -> Line:
    return {"commit_ts": place}


def chunk(lines: list[Line]) -> ChunkInfo:
    known = pa.RecordBatch.from_pylist(lines, schema=TRANSACTIONS)
    return ChunkInfo("1", "transactions", None, None, None, 0, None, None, "t", 0, 0, 0, transactions=known)


def advanced(state: State, *lines: Line, until: int | str | None = None, idle: bool = False) -> State:
    return barrier(state, [chunk([line]) for line in lines], until, idle=idle)


BEGUN = State(barrier=5, mark="0-1-1", reached={"0": 1}, ends={"t": {0: 2}})


@pytest.mark.parametrize(
    "lines, idle, place, number",
    [
        ([row(2, 1, 10), row(2, 2, 12), end(2, 2)], False, 12, 2),
        ([row(2, 1, 10), end(2, 2)], True, 5, 1),
        ([row(2, 1, 10), row(2, 1, 10), end(2, 2)], True, 5, 1),
        ([row(2, 1, 10), row(2, 2, 12)], True, 5, 1),
        ([end(2, 1), row(3, 1, 20), end(3, 1)], True, 5, 1),
        ([row(2, 1, 10), end(2, 1), row(3, 1, 20), end(3, 1)], False, 20, 3),
        ([row(3, 1, 20), end(3, 1)], False, 5, 1),
        ([row(3, 1, 20), end(3, 1)], True, 20, 3),
        ([ddl(2, 10), row(3, 1, 20), end(3, 1)], False, 5, 1),
        ([ddl(2, 10), row(3, 1, 20), end(3, 1)], True, 20, 3),
        ([row(3, 1, 20), ddl(2, 10)], True, 10, 2),
        ([row(2, 1, 10), end(2, 1), ddl(3, 20), ddl(5, 30)], False, 10, 2),
        ([loose(7), row(2, 1, 10), end(2, 1)], False, 10, 2),
        ([loose(7)], False, 5, 1),
        ([loose(7)], True, 5, 1),
        ([loose(7), loose(8)], True, 7, 1),
        ([loose(7), row(2, 1, 10), end(2, 2)], True, 5, 1),
        ([loose(30), row(2, 1, 10), end(2, 2)], True, 5, 1),
        ([end(2, 0)], False, 5, 2),
    ],
    ids=[
        "whole",
        "an event is missing",
        "an event came twice and another is missing",
        "it has not ended",
        "one before it is missing",
        "two",
        "something between may be missing",
        "nothing more was there to read",
        "a schema change may have the name of a transaction that follows",
        "a schema change fills the gap",
        "a schema change before one that has not ended",
        "schema changes at the end",
        "rows without a name before",
        "rows without a name may go on",
        "the last ones, too, when nothing more was there to read",
        "all but the last ones",
        "what comes before one that is not whole waits with it",
        "a transaction that is not whole holds all that is later",
        "no event",
    ],
)
def test_the_barrier_is_at_the_last_whole_transaction(lines: list[Line], idle: bool, place: int, number: int) -> None:
    after = advanced(BEGUN, *lines, idle=idle)
    assert (after.barrier, after.reached) == (place, {"0": number})


def test_the_first_transaction_waits_for_silence() -> None:
    lines = [ddl(None, 3), ddl(4, 7), row(5, 1, 10), end(5, 1)]
    assert advanced(State(), *lines).barrier is None
    after = advanced(State(), *lines, idle=True)
    assert (after.barrier, after.mark, after.reached, after.ends) == (10, "0-1-5", {"0": 5}, {"t": {0: 10}})


@pytest.mark.parametrize("passed, place", [(None, 5), (19, 5), (20, 20)])
def test_names_of_one_source_do_not_show_what_is_missing_of_another(passed: int | None, place: int) -> None:
    begun = replace(BEGUN, reached={"0": 1, "1": 7})
    lines = [row(2, 1, 20), end(2, 1)]  # 8 of source 1 may still come, before or after it
    assert barrier(begun, [chunk([line]) for line in lines], None, idle=False, passed=passed).barrier == place
    assert barrier(begun, [chunk([line]) for line in lines], None, idle=True).barrier == 20
    other = [row(8, 1, 20, "1-1"), end(8, 1, "1-1")]
    assert barrier(BEGUN, [chunk([line]) for line in other], None, idle=False, passed=passed).barrier == place


def snapshot(place: int, mark: str = "true") -> Line:
    return {"commit_ts": place, "snapshot": mark}


@pytest.mark.parametrize(
    "lines, passed, place",
    [
        ([row(3, 1, 20), end(3, 1)], 19, 5),
        ([row(3, 1, 20), end(3, 1)], 20, 20),
        ([row(3, 1, 20), end(3, 2)], 20, 5),
        ([ddl(None, 15), row(7, 1, 20), end(7, 1)], 15, 5),
        ([ddl(None, 15), row(7, 1, 20), end(7, 1)], 16, 15),
        ([ddl(2, 15), row(3, 1, 20), end(3, 1)], 15, 5),
        ([ddl(2, 15), row(3, 1, 20), end(3, 1)], 16, 20),
        ([snapshot(30), snapshot(30, LAST)], 30, 5),
        ([snapshot(30), snapshot(30, LAST)], 31, 30),
        ([snapshot(30), row(9, 1, 40), end(9, 1)], 40, 40),
        ([{**row(3, 1, 20), "snapshot": SIGNAL}, end(3, 1)], 40, 5),
    ],
    ids=[
        "a schema change may still come",
        "every partition has passed it",
        "an event is missing",
        "more schema changes of the statement may still come",
        "a schema change",
        "the same, before the next transaction",
        "a schema change, and the next transaction",
        "rows of a snapshot may still come",
        "a whole snapshot",
        "a snapshot before a transaction",
        "a snapshot was requested",
    ],
)
def test_what_every_partition_has_passed_is_complete(lines: list[Line], passed: int, place: int) -> None:
    after = barrier(BEGUN, [chunk([line]) for line in lines], None, idle=False, passed=passed)
    assert after.barrier == place


def test_transactions_that_are_sent_again_are_skipped() -> None:
    first = advanced(BEGUN, row(2, 1, 10), row(2, 2, 12), end(2, 2))
    again = [row(2, 2, 12), {**end(2, 2), "mark": 9}]
    after = advanced(first, row(2, 1, 10), row(2, 2, 12), end(2, 2), *again, row(3, 1, 20), {**end(3, 1), "mark": 11})
    assert (after.barrier, after.reached, after.ends) == (20, {"0": 3}, {"t": {0: 11}})


@pytest.mark.parametrize("until, place", [("0-1-3", 20), ("0-9-3", 20), (20, 20), (25, 20), ("0-1-9", 40), (None, 40)])
def test_until_is_the_last_transaction_applied(until: int | str | None, place: int) -> None:
    lines = [row(2, 1, 10), end(2, 1), ddl(3, 20), row(4, 1, 30), row(4, 2, 40), end(4, 2)]
    after = advanced(BEGUN, *lines, until=until, idle=True)
    assert after.barrier == place
    if isinstance(until, str):
        assert is_reached(after, until) == (until != "0-1-9")


def test_another_binlog_is_refused() -> None:
    with pytest.raises(UnsupportedError) as error:
        advanced(replace(BEGUN, barrier=100), row(2, 1, 10), end(2, 1), idle=True)
    assert str(error.value) == (
        "transaction 0-1-2 is before what has been applied by its position in the binlog, but after it by its name: the "
        "upstream has begun another binlog (a failover, RESET MASTER), whose changes have no order relative to earlier ones. "
        "Start a new pipeline from a snapshot"
    )


def at_time(line: Line, time: int) -> Line:
    return {**line, "time": time}


def test_a_binlog_that_begins_again_with_the_same_names_is_recognized_by_its_times() -> None:
    begun = advanced(BEGUN, at_time(row(2, 1, 10), 9000), at_time(row(2, 2, 12), 8000), end(2, 2))
    assert (begun.barrier, begun.reached, begun.time) == (12, {"0": 2}, 9000)
    with pytest.raises(UnsupportedError) as error:
        advanced(begun, at_time(row(1, 1, 4), 9001), {**end(1, 1), "mark": 6})
    assert str(error.value) == (
        "transaction 0-1-1 is before what has been applied by its position in the binlog, but was committed after it: the "
        "upstream has begun another binlog (RESET MASTER), whose changes have no order relative to earlier ones. Start a new "
        "pipeline from a snapshot"
    )


def test_the_same_without_gtids() -> None:
    name, begun = "file=binlog.000001,pos=197", replace(BEGUN, barrier=12, reached={}, time=9000)
    with pytest.raises(UnsupportedError, match=r"^transaction file=binlog.000001,pos=197 is before"):
        advanced(begun, {**at_time(row(1, 1, 4), 9001), "id": name}, {**end(1, 1), "id": name, "mark": 6}, idle=True)


@pytest.mark.parametrize("time", [None, 1, 9000])
def test_transactions_committed_before_are_recognized_as_sent_again(time: int | None) -> None:
    begun = replace(BEGUN, barrier=12, reached={"0": 2}, time=9000)
    assert advanced(begun, {**row(1, 1, 4), "time": time}, end(1, 1), ddl(None, 3)).barrier == 12


@pytest.mark.parametrize("known", [None, 0])
def test_without_a_time_names_alone_decide(known: int | None) -> None:
    """Old connectors give rows of a snapshot the time 0."""
    begun = replace(BEGUN, barrier=12, reached={"0": 2}, time=known)
    assert advanced(begun, at_time(row(1, 1, 4), 9001), end(1, 1)).barrier == 12


def test_a_snapshot_has_a_time_too() -> None:
    assert advanced(State(), at_time(read(10), 7000), at_time(read(10, "last"), 6000), idle=True).time == 7000


def test_a_folder_is_kept_for_the_ends_in_it() -> None:
    assert is_waiting(chunk([end(2, 1)]), {"t": {0: 3}})
    assert is_waiting(chunk([end(2, 1)]), {"t": {1: 9}, "u": {0: 9}})
    assert not is_waiting(chunk([end(2, 1)]), {"t": {0: 4}})
    assert not is_waiting(chunk([row(2, 1, 10)]), {})


def test_ends_may_come_in_several_partitions() -> None:
    """The topic of transactions has several partitions if the broker creates topics with several."""

    def ends(partition: int, *lines: Line) -> ChunkInfo:
        return replace(chunk([{**line, "mark": offset} for offset, line in enumerate(lines)]), partition=partition)

    rows = [row(2, 1, 10), row(3, 1, 20), row(5, 1, 30), row(6, 1, 40)]
    both = [ends(0, end(2, 1), end(3, 1), end(4, 0)), ends(1, end(5, 1)), chunk(rows)]
    state = replace(BEGUN, ends={})
    after = barrier(state, both, None, idle=False)
    assert (after.barrier, after.reached, after.ends) == (30, {"0": 5}, {"t": {0: 2, 1: 0}})
    later = [*both, replace(ends(1, end(6, 1)), transactions=chunk([{**end(6, 1), "mark": 1}]).transactions)]
    assert barrier(after, later, None, idle=False).barrier == 40


def test_a_transaction_without_events_follows_those_before_it_in_another_partition() -> None:
    lines = [
        replace(chunk([{**end(4, 0), "mark": 0}]), partition=1),
        chunk([row(2, 1, 10), row(3, 1, 20), row(5, 1, 30)]),
    ]
    lines.append(chunk([end(2, 1), end(3, 1), end(5, 1)]))
    after = barrier(BEGUN, lines, None, idle=False)
    assert (after.barrier, after.reached) == (30, {"0": 5})


def read(place: int, mark: str = "true") -> Line:
    return {"commit_ts": place, "snapshot": mark}


def made(place: int, mark: str = "true") -> Line:
    """A schema change of the snapshot at this position."""
    return {"events": 0, "commit_ts": place - 1, "snapshot": mark}


def signal(number: int, place: int) -> Line:
    return {**row(number, 1, place), "snapshot": SIGNAL}


@pytest.mark.parametrize(
    "lines, idle, place",
    [
        ([made(10), read(10), read(10, "last")], True, 10),
        ([made(10), read(10), read(10, "last")], False, None),
        ([made(10), read(10)], True, None),
        ([made(10), made(10, "last")], True, 10),
        ([made(10)], True, None),
        ([made(10), read(10), ddl(None, 30)], True, 30),
        ([made(10), read(10), row(2, 1, 30), end(2, 1)], True, 30),
        ([made(10), read(10), row(2, 1, 30), end(2, 1)], False, None),
        ([made(10), read(10), row(2, 1, 30)], True, 10),
        ([made(10), read(10), made(20), read(20, "last")], True, 20),
        ([made(20), read(20), made(10), read(10, "last")], True, 10),
        ([row(2, 1, 7), end(2, 1), made(10), read(10)], True, 7),
    ],
    ids=[
        "a snapshot whose last row was read",
        "the same, with more to read",
        "rows without the last",
        "schema changes alone, with the last",
        "schema changes alone, without it",
        "a schema change behind it",
        "a transaction behind it",
        "a transaction behind it, with more to read",
        "an unfinished transaction behind it",
        "one that was begun again",
        "one that was begun again and has not ended",
        "a transaction before it",
    ],
)
def test_a_snapshot_is_applied_when_it_is_complete(lines: list[Line], idle: bool, place: int | None) -> None:
    assert advanced(State(), *lines, idle=idle).barrier == place


def test_a_transaction_with_a_signal_waits_for_rows_that_it_does_not_count() -> None:
    lines = [signal(2, 10), end(2, 1), row(3, 1, 20), end(3, 1)]
    assert advanced(BEGUN, *lines).barrier == 5
    assert advanced(BEGUN, *lines, read(10, "incremental"), idle=True).barrier == 20


def test_rows_that_are_read_again_at_the_barrier_are_noticed() -> None:
    assert reads_at([chunk([read(5, "incremental"), row(2, 1, 6)])], 5)
    assert not reads_at([chunk([made(6), signal(2, 5), row(2, 1, 5)])], 5)
    assert not reads_at([chunk([read(5)])], None)


def test_rows_that_are_read_again_below_the_barrier_are_counted() -> None:
    lines = [read(4, "incremental"), read(3, "incremental"), read(5, "incremental"), read(4), made(4), row(2, 1, 4)]
    assert reads_below([chunk(lines)], 5) == 2
    assert reads_below([chunk(lines)], None) == reads_below([chunk([])], 5) == 0


def test_an_applied_snapshot_may_come_again_and_an_older_one_is_refused() -> None:
    taken = advanced(State(), made(10), read(10, "last"), row(2, 1, 30), end(2, 1), idle=True)
    assert (taken.barrier, taken.snapshots) == (30, (10,))
    assert advanced(taken, made(10), read(10, "last"), idle=True).barrier == 30
    assert advanced(taken, made(8), idle=True).barrier == 30
    with pytest.raises(UnsupportedError) as error:
        advanced(taken, made(8), read(8, "last"), idle=True)
    assert str(error.value) == (
        "a snapshot at binlog 0 position 8 is before what has been applied, binlog 0 position 30: the upstream has begun "
        "another binlog (a failover, RESET MASTER), whose rows have no order relative to earlier changes. Start a new "
        "pipeline from a snapshot"
    )


def test_a_transaction_that_ends_again_with_fewer_events_still_needs_all_of_them() -> None:
    short = {**end(2, 0), "mark": 9}
    assert advanced(BEGUN, end(2, 1), short, idle=True).barrier == 5
    assert advanced(BEGUN, end(2, 1), short, row(2, 1, 10), idle=True).barrier == 10


def test_pending_lines_of_an_earlier_version_are_read() -> None:
    old = pa.RecordBatch.from_pylist([row(2, 1, 10), end(2, 1)], schema=pa.schema(list(TRANSACTIONS)[:5]))
    pending = [replace(chunk([]), transactions=old), chunk([row(3, 1, 20), end(3, 1)])]
    assert barrier(BEGUN, pending, None, idle=False).barrier == 20


def dead(count: int) -> ChunkInfo:
    """A chunk of dead letters that were read with what is pending."""
    return ChunkInfo("1", "dead", None, None, None, count, None, None, "t", 0, 0, 0)


@pytest.mark.parametrize(
    "lines, letters, before, idle, passed, place",
    [
        ([row(2, 1, 10), end(2, 2)], 1, 0, True, None, 10),
        ([row(2, 1, 10), end(2, 2)], 1, 0, False, None, 5),
        ([row(2, 1, 10), end(2, 3)], 1, 0, True, None, 5),
        ([row(2, 1, 10), end(2, 2), row(3, 1, 20), end(3, 2)], 1, 0, True, None, 10),
        ([row(2, 1, 10), end(2, 2), row(3, 1, 20), end(3, 2)], 2, 0, True, None, 20),
        ([row(2, 1, 10), end(2, 2)], 0, 1, True, None, 5),
        ([row(2, 1, 10), end(2, 2)], 0, 1, False, 10, 5),
        ([row(2, 1, 10), end(2, 2)], 0, 1, False, 11, 10),
        ([row(2, 1, 10), end(2, 2)], 0, 0, False, 11, 5),
        ([row(2, 1, 10)], 1, 0, True, None, 5),
        ([row(2, 1, 10), row(3, 1, 20), end(3, 1)], 1, 0, True, None, 20),
        ([{**row(2, 1, 10), "snapshot": SIGNAL}, end(2, 2)], 1, 0, False, 40, 5),
        ([end(2, 1), row(3, 1, 20), end(3, 1)], 0, 1, False, 19, 5),
        ([end(2, 1), row(3, 1, 20), end(3, 1)], 0, 1, False, 20, 20),
        ([end(2, 1), row(1, 1, 5), {**end(1, 1), "mark": 6}, row(3, 1, 20), end(3, 1)], 0, 1, False, 6, 5),
    ],
    ids=[
        "an event is a dead letter",
        "more may follow",
        "a dead letter too few",
        "one for two transactions",
        "one for each",
        "a dead letter of long ago",
        "more may follow at its last position",
        "every partition has passed it",
        "without a dead letter",
        "its end may follow",
        "its end is a dead letter",
        "rows of a snapshot may follow",
        "its only event may follow",
        "its only event is a dead letter of long ago",
        "one before it ends again",
    ],
)
def test_a_transaction_is_passed_without_its_dead_letters(
    lines: list[Line], letters: int, before: int, idle: bool, passed: int | None, place: int
) -> None:
    state = replace(BEGUN, counts=Counts(dead=letters + before))
    chunks = [chunk([line]) for line in lines] + ([dead(letters)] if letters else [])
    assert barrier(state, chunks, None, idle=idle, passed=passed).barrier == place


def test_a_transaction_that_is_passed_without_an_event_is_named(caplog: pytest.LogCaptureFixture) -> None:
    barrier(replace(BEGUN, counts=Counts(dead=1)), [chunk([row(2, 1, 10), end(2, 2)]), dead(1)], None, idle=True)
    assert caplog.messages == ["transaction 0-1-2 is applied without 1 of its records, which are dead letters"]


def defined(place: int, offset: int, mark: str | None = "true") -> ChunkInfo:
    """A schema change, of a snapshot if it has a mark."""
    origin = {} if mark is None else {"snapshot": mark}
    event = SchemaChange("query", "shop", "t", "", Place("srv", 0, offset), commit_ts=place, origin=origin)
    return ChunkInfo("1", "schema", "shop", "t", None, 1, place, place, "srv", 0, offset, offset, event=event)


def test_a_pending_snapshot_before_an_earlier_one_is_of_another_binlog() -> None:
    sent = [defined(30, 0), defined(30, 1), defined(20, 2, mark=None), defined(40, 3), defined(30, 4), defined(50, 5)]
    check_snapshots(reversed(sent))
    with pytest.raises(UnsupportedError) as error:
        check_snapshots([*sent, defined(45, 6)])
    assert str(error.value) == (
        "a snapshot at binlog 0 position 45 is before one that was sent earlier, at binlog 0 position 50: the upstream has begun "
        "another binlog (a failover, RESET MASTER), whose rows have no order relative to earlier changes. Start a new pipeline "
        "from a snapshot"
    )
