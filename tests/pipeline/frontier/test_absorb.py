"""The state after a batch: which partitions may still bring rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from changefeed.frames.transactions import TRANSACTIONS
from changefeed.pipeline.absorb import absorbed
from changefeed.pipeline.frontier.ends import passed_by_all
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.state import NOTHING, FolderSum, State

END = pa.RecordBatch.from_pylist([{"id": "0-1-2", "events": 1, "mark": 0}], TRANSACTIONS)
DDL = pa.RecordBatch.from_pylist([{"id": "0-1-2", "events": 0, "commit_ts": 5}], TRANSACTIONS)


def chunk(kind: str, topic: str, **more: Any) -> ChunkInfo:
    known = ChunkInfo("1", kind, None, None, None, 1, None, None, topic, 0, 0, 0)
    return replace(known, **more)


def after(state: State, *fresh: ChunkInfo) -> State:
    return absorbed(state, list(fresh), ("1", FolderSum(1, 1, "")), "", 0, quarantine=False)


ROWS = [chunk("read", "rows"), chunk("rows", "rows", min_ts=5, max_ts=9)]
DEAD = [chunk("read", "other"), chunk("dead", "other")]
TOMBSTONES = [chunk("read", "other"), chunk("tombstones", "other")]


@pytest.mark.parametrize(
    "fresh, passed",
    [
        ([*ROWS], 9),
        ([*ROWS, chunk("read", "other")], 9),
        ([*ROWS, *DEAD], NOTHING),
        ([*ROWS, *DEAD, chunk("transactions", "other", transactions=END)], 9),
        ([*ROWS, *DEAD, chunk("transactions", "other", transactions=DDL)], NOTHING),
        ([*ROWS, *DEAD, chunk("rows", "other", min_ts=3, max_ts=4)], 4),
        ([*ROWS, *TOMBSTONES], NOTHING),
        ([*ROWS, *TOMBSTONES, chunk("rows", "other", min_ts=3, max_ts=4)], 4),
    ],
    ids=["rows", "no rows in another topic", "a dead letter", "one among ends", "one among schema changes", "one among rows",
         "tombstones", "tombstones and rows"],
)  # fmt: skip
def test_a_topic_that_began_with_a_dead_letter_or_tombstones_may_have_rows(fresh: list[ChunkInfo], passed: int) -> None:
    state = after(State(), *fresh)
    assert passed_by_all(state, [("rows", 0), *([("other", 0)] if "other" in state.positions else [])], {}) == passed


@pytest.mark.parametrize("late", [DEAD, TOMBSTONES], ids=["dead letter", "tombstones"])
def test_a_topic_without_rows_stays_one_without_rows(late: list[ChunkInfo]) -> None:
    state = after(after(State(), *ROWS, chunk("read", "other")), *late)
    assert passed_by_all(state, [("rows", 0), ("other", 0)], {}) == 9
