"""The barrier never goes back, waits for every partition, and everything above it stays pending."""

from __future__ import annotations

import pytest

from changefeed.model.event import SchemaChange
from changefeed.model.position import Place
from changefeed.pipeline.absorb import absorbed
from changefeed.pipeline.frontier.cut import still_pending
from changefeed.pipeline.frontier.marks import barrier
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.state import FolderSum, Hold, State
from tests.pipeline.kit.chunks import chunk

NOTHING = FolderSum(0, 0, "")
BOTH = {("t", 0), ("t", 1)}


@pytest.mark.parametrize(
    "marks, until, before, wanted",
    [
        ({0: 10, 1: 7}, None, None, 7),
        ({0: 10}, None, None, None),
        ({0: 10}, None, 5, 5),
        ({0: 10, 1: 7}, 6, None, 6),
        ({0: 10, 1: 7}, 8, None, 7),
        ({0: 10, 1: 3}, None, 5, 5),
        ({0: 10, 1: 9, 2: 4}, None, None, 4),
    ],
    ids=["smallest", "no mark yet", "no mark of a new partition", "until", "until later", "back", "partition gone"],
)
def test_the_barrier_is_the_smallest_mark(
    marks: dict[int, int], until: int | None, before: int | None, wanted: int | None
) -> None:
    state = State(barrier=before, resolved={"t": marks}, positions={"t": dict.fromkeys(marks, 1)})
    assert barrier(state, BOTH, until) == wanted


def test_without_partitions_there_is_no_barrier() -> None:
    assert barrier(State(), set(), None) is None


def test_a_batch_moves_positions_and_marks_and_counts_its_records() -> None:
    fresh = [
        chunk("read", rows=5, first=3, last=7),
        chunk("read", rows=2, first=0, last=1, partition=1),
        chunk("rows", 4, 9, rows=3),
        chunk("resolved", 9, partition=1),
        chunk("resolved", 6),
        chunk("dead"),
    ]
    state = State(resolved={"t": {0: 8}}, positions={"t": {0: 3}}, pending=("0",))
    state_after = absorbed(state, fresh, ("1", NOTHING), "token", 2, quarantine=False)
    assert state_after.positions == {"t": {0: 8, 1: 2}}
    assert state_after.resolved == {"t": {0: 8, 1: 9}}, "the mark of partition 0 went back: ignored"
    assert (state_after.pending, state_after.source, state_after.held) == (("0", "1"), "token", {})
    counts = state_after.counts
    assert (counts.records, counts.rows, counts.dead, counts.repeated, counts.pending) == (7, 3, 1, 2, 1)


def test_a_batch_of_marks_alone_leaves_nothing_pending() -> None:
    assert (
        absorbed(State(), [chunk("read"), chunk("resolved", 6)], ("1", NOTHING), "", 0, quarantine=False).pending == ()
    )


def test_quarantine_holds_the_table_of_a_dead_letter_where_it_is() -> None:
    state = State(barrier=7, held={"app.b": Hold(3)})
    fresh = [chunk("dead"), chunk("dead", table="b")]
    state_after = absorbed(state, fresh, ("1", NOTHING), "", 0, quarantine=True)
    assert state_after.held == {"app.a": Hold(7), "app.b": Hold(3)}


@pytest.mark.parametrize(
    "one, held, waits",
    [
        (chunk("rows", 3, 7), {}, False),
        (chunk("rows", 3, 8), {}, True),
        (chunk("rows", None), {}, True),
        (chunk("rows", 3, 7), {"app.a": Hold(2)}, True),
        (chunk("rows", 3, 7), {"app.b": Hold(2)}, False),
        (chunk("schema", 8), {}, True),
        (chunk("schema", 7), {}, False),
        (chunk("schema", 7, table=None), {"app.b": Hold(2)}, True),
        (chunk("resolved", 9), {"app.a": Hold(2)}, False),
    ],
)
def test_chunks_above_the_barrier_or_held_stay_pending(one: ChunkInfo, held: dict[str, Hold], waits: bool) -> None:
    folders = ("0", "1", "2")
    assert still_pending(State(barrier=7, pending=folders), [one], held) == (("1",) if waits else ())


def test_without_a_barrier_only_quarantine_waits() -> None:
    both = [chunk("rows", 3), chunk("rows", 4, folder="2", table="b")]
    assert still_pending(State(pending=("1", "2")), both, {"app.b": Hold(None)}) == ("2",)


def test_schema_changes_are_counted_in_chunks_with_their_event() -> None:
    event = SchemaChange("other", "app", None, "DROP DATABASE app", Place("t", 0, 1), commit_ts=7)
    assert chunk("schema", 7, table=None, event=event).name == "app.None"
