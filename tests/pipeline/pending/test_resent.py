"""Begins of sendings, and rows of tables without a key that count; equal rows of one transaction stay."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changefeed.frames.sent import LINES
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.pending.resent import sendings, still_needed, surplus
from tests.examples import TIMES
from tests.pipeline.kit.chunks import chunk


def row(
    offset: int, ts: int, value: int = 0, *, key: bool = False, index: int = 0, table: int = 1, **at: Any
) -> ChunkInfo:
    """A row of a table without a key, or the change of a key."""
    line = {
        "offset": offset, "index": index, "commit_ts": ts, "table": table, "same": 2 * value + key + 100 * table,
        "keyless": not key, "order": None, "time": 0, "gtid": None,
    }  # fmt: skip
    sent = pa.RecordBatch.from_pylist([line], schema=LINES)
    return chunk("sent", None, first=offset, last=offset, sent=sent, **at)


def mark(offset: int, ts: int, **values: Any) -> ChunkInfo:
    return chunk("resolved", ts, first=offset, last=offset, **values)


def begun(
    fresh: Iterable[ChunkInfo], pending: Iterable[ChunkInfo] = (), marks: int | None = None, barrier: int | None = None
) -> tuple[int, ...]:
    known = {} if marks is None else {"t": {0: marks}}
    numbers, _ = sendings({}, known, pending, fresh, barrier)
    return numbers.get("t", {}).get(0, ())


@pytest.mark.parametrize(
    "fresh, begins",
    [
        ([row(0, 5), row(1, 7), mark(2, 7), row(3, 8), row(4, 9), mark(5, 9)], ()),
        ([row(0, 5), row(1, 7), row(2, 5), row(3, 7)], (2,)),
        ([row(0, 5), mark(1, 6), row(2, 6), row(3, 7)], (2,)),
        ([mark(0, 6), row(1, 7), mark(2, 5), row(3, 7), mark(4, 6), mark(5, 7)], (2,)),
        ([mark(0, 6), mark(1, 6)], (1,)),
        ([row(0, 5), row(1, 7, partition=1), row(2, 6)], ()),
        ([row(0, 7), row(1, 5, key=True, table=2)], ()),
        ([row(0, 7, 1, key=True), row(1, 5, 2, key=True), row(2, 7, 3, key=True)], (1,)),
        ([row(0, 7), row(1, 7), mark(2, 8)], ()),
        ([row(0, 5), row(1, 7), row(2, 5), row(3, 7), row(4, 5)], (2, 4)),
        ([row(0, 7), row(1, 7, key=True), row(2, 7), row(3, 7, key=True)], (2,)),
        ([row(0, 7), row(1, 7), row(2, 7, key=True), row(3, 7), row(4, 7), row(5, 7, key=True)], (3,)),
        ([row(0, 4, key=True), row(1, 5), row(2, 5), row(3, 4, key=True), row(4, 5)], (3,)),
        ([row(0, 5, 1), row(1, 5, 2), row(2, 5, key=True), row(3, 5, 2), row(4, 5, key=True)], (3,)),
        ([row(0, 5, 1), row(1, 5, 2), row(2, 5, key=True), row(3, 5, 9), row(4, 5, key=True)], (4,)),
        ([row(0, 7), row(1, 7, key=True), row(2, 7, 9), row(2, 7, index=1), row(3, 7, key=True)], (3,)),
        ([row(0, 7), row(1, 7, key=True), row(2, 7), row(3, 7), row(3, 7, key=True, index=1)], (3,)),
        ([row(0, 7, key=True), row(1, 7, key=True, table=2)], ()),
    ],
    ids=[
        "forward", "rows go back", "a row below a mark", "a mark goes back", "a mark again", "another partition",
        "a table with a key", "rows with a key go back",
        "equal rows", "twice", "a key again, behind the last row before it", "equal rows, twice",
        "equal rows before a key", "from the middle of a transaction", "a row that is new", "a part of a record is new",
        "of two equal rows one was read before", "another table",
    ],
)  # fmt: skip
def test_a_sending_begins_where_all_was_read_before(fresh: list[ChunkInfo], begins: tuple[int, ...]) -> None:
    assert begun(fresh) == begins
    for cut in (i for i in range(1, len(fresh)) if fresh[i - 1].last != fresh[i].first):  # wherever a batch ends
        known, marks = sendings({}, {}, [], fresh[:cut], None)
        offsets, _ = sendings(known, marks, fresh[:cut], fresh[cut:], None)
        assert offsets.get("t", {}).get(0, ()) == begins, cut


def test_pending_rows_of_earlier_batches_show_a_new_sending_too() -> None:
    assert begun([row(9, 5)], pending=[row(3, 7)]) == (9,)
    assert begun([row(9, 5)], marks=6) == (9,)
    assert begun([mark(9, 6)], marks=6) == (9,)


def test_what_was_applied_has_been_read_before() -> None:
    again = [row(10, 4), row(11, 5), row(12, 8), row(13, 8, key=True)]
    pending = [row(8, 8), row(9, 8, key=True)]
    assert begun(again, pending, marks=6, barrier=6) == (10,)


def test_sendings_are_forgotten_with_the_last_row_before_them() -> None:
    def rows(offset: int) -> ChunkInfo:
        return chunk("rows", 7, first=offset, last=offset)

    known = {"t": {0: (4, 9), 1: (3,)}}
    assert still_needed(known, [rows(2), rows(5)]) == {"t": {0: (4, 9)}}
    assert still_needed(known, [rows(5)]) == {"t": {0: (9,)}}
    assert still_needed(known, [mark(2, 7)]) == {}


@settings(max_examples=max(20, round(30 * TIMES)), deadline=None)
@given(st.data())
def test_the_largest_count_of_any_sending_is_the_upstreams(data: st.DataObject) -> None:
    """Transactions with equal rows are sent again from some commit_ts on, any number of times."""
    history = [(ts, v) for ts in range(1, 8) for v in sorted(data.draw(st.lists(st.integers(0, 2), max_size=4)))]
    sent, offset, chunks = [], itertools.count(), list[ChunkInfo]()
    for _ in range(data.draw(st.integers(0, 3))):
        start, end = data.draw(st.integers(0, 6)), data.draw(st.integers(0, len(history)))
        sent.append([entry for entry in history[:end] if entry[0] > start])
    rows = dict[int, tuple[int, int]]()
    for part in [*sent, history]:
        chunks.append(mark(next(offset), 0))  # the producer's checkpoint, as it starts
        for ts, v in part:
            rows[next_offset := next(offset)] = (ts, v)
            chunks.append(row(next_offset, ts, v))
    known, _ = sendings({}, {}, [], chunks, None)
    left_out = surplus(known, chunks).get("t", {}).get(0, ())
    kept = [r for place, r in rows.items() if not any(first <= place <= last for first, _, last, _ in left_out)]
    assert Counter(kept) == Counter(history)
