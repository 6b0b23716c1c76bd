"""Changes that a producer sends again above the barrier are applied once, in tables without a key too; equal rows stay."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.frames.payloads import write_shape
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.pending.resent import sendings, still_needed
from tests.pipeline.test_barrier import chunk

BIGINT = ColumnType.parse("bigint")
KEYLESS = write_shape(TableShape("app", "log", (Column("v", BIGINT, True, False),), None, None))
KEYED = write_shape(TableShape("app", "orders", (Column("id", BIGINT, False, True),), None, None))


def rows(offset: int, low: int, high: int | None = None, shape: str = KEYLESS, **values: Any) -> ChunkInfo:
    return chunk("rows", low, high, shape=shape, first=offset, last=offset, table="log", **values)


def mark(offset: int, ts: int, **values: Any) -> ChunkInfo:
    return chunk("resolved", ts, first=offset, last=offset, **values)


def begun(fresh: Iterable[ChunkInfo], pending: Iterable[ChunkInfo] = (), marks: int | None = None) -> tuple[int, ...]:
    known = {} if marks is None else {"t": {0: marks}}
    numbers, _ = sendings({}, known, pending, fresh)
    return numbers.get("t", {}).get(0, ())


@pytest.mark.parametrize(
    "fresh, wanted",
    [
        ([rows(0, 5), rows(1, 7), mark(2, 7), rows(3, 8, 9), mark(4, 9)], ()),
        ([rows(0, 5), rows(1, 7), rows(2, 5), rows(3, 7)], (2,)),
        ([rows(0, 5), mark(1, 6), rows(2, 6, 7)], (2,)),
        ([mark(0, 6), rows(1, 7), mark(2, 5), rows(3, 7), mark(4, 6), mark(5, 7)], (2,)),
        ([mark(0, 6), mark(1, 6)], (1,)),
        ([rows(0, 5), rows(1, 7, partition=1), rows(2, 6)], ()),
        ([rows(0, 7), rows(1, 5, shape=KEYED)], ()),
        ([rows(0, 7), rows(1, 7), mark(2, 8)], ()),
        ([rows(0, 5), rows(1, 7), rows(2, 5), rows(3, 7), rows(4, 5)], (2, 4)),
    ],
    ids=[
        "forward", "rows go back", "a row below a mark", "a mark goes back", "a mark again", "another partition",
        "a table with a key", "equal rows", "twice",
    ],
)  # fmt: skip
def test_a_sending_begins_where_the_order_goes_back(fresh: list[ChunkInfo], wanted: tuple[int, ...]) -> None:
    assert begun(fresh) == wanted


def test_pending_rows_of_earlier_batches_show_a_new_sending_too() -> None:
    assert begun([rows(9, 5)], pending=[rows(3, 7)]) == (9,)
    assert begun([rows(9, 5)], marks=6) == (9,)
    assert begun([mark(9, 6)], marks=6) == (9,)


def test_sendings_are_forgotten_with_the_last_row_before_them() -> None:
    known = {"t": {0: (4, 9), 1: (3,)}}
    assert still_needed(known, [rows(2, 7), rows(5, 7)]) == {"t": {0: (4, 9)}}
    assert still_needed(known, [rows(5, 7)]) == {"t": {0: (9,)}}
    assert still_needed(known, [mark(2, 7)]) == {}


@given(st.data())
def test_the_largest_count_of_any_sending_is_the_upstreams(data: st.DataObject) -> None:
    """Transactions with equal rows are sent again from some commit_ts on, any number of times."""
    history = [(ts, v) for ts in range(1, 8) for v in sorted(data.draw(st.lists(st.integers(0, 2), max_size=4)))]
    sent, offset, chunks, places = [], itertools.count(), list[ChunkInfo](), list[tuple[int, int, int]]()
    for _ in range(data.draw(st.integers(0, 3))):
        start, end = data.draw(st.integers(0, 6)), data.draw(st.integers(0, len(history)))
        sent.append([row for row in history[:end] if row[0] > start])
    for part in [*sent, history]:
        place = next(offset)
        chunks.append(mark(place, 0))  # the producer's checkpoint, as it starts
        for ts, v in part:
            places.append((next(offset), ts, v))
            chunks.append(rows(places[-1][0], ts))
    boundaries = begun(chunks)
    counts: dict[int, Counter[tuple[int, int]]] = {}
    for at, ts, v in places:
        counts.setdefault(sum(b <= at for b in boundaries), Counter())[ts, v] += 1
    most = Counter[tuple[int, int]]()
    for one in counts.values():
        most |= one
    assert most == Counter(history)
