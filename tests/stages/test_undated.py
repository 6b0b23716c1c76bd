"""A delete without commit_ts gets the position that the records around it in its partition allow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from changefeed.frames.chunks import Dated, pack_dated
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import Control, Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.pipeline.pending.chunk_info import chunk_info
from changefeed.stages.missing_ts import TimestampEstimator

SHAPE = TableShape("app", "t", (Column("id", ColumnType("int"), False, True),))

SHAPES = {"row": SHAPE, "other": replace(SHAPE, table="u")}


def decoded(*events: tuple[str, int | None], first: int = 0, partition: int = 0) -> Decoded:
    """A record each: `row`, `other` (a row of another table), `mark` or `ddl` with its commit_ts."""
    builder, control = BatchBuilder(), list[Control]()
    for record, (kind, ts) in enumerate(events):
        place = Place("t", partition, first + record, None, record)
        if kind in SHAPES:
            builder.add(SHAPES[kind], place, "upsert", before=None, after={"id": 1}, commit_ts=ts)
        elif ts is not None:
            control.append(
                Resolved(ts, place) if kind == "mark" else SchemaChange("other", "", "", "", place, None, ts)
            )
    return Decoded(builder.build(), control, [])


def dates(changes: Decoded, table: str = "") -> list[int | None]:
    tables = [batch for batch in changes.tables if not table or batch.shape.table == table]
    return [ts for batch in tables for ts in batch.rows.column("commit_ts").to_pylist()]


GONE = ("row", None)


@pytest.mark.parametrize(
    "events, before, wanted",
    [
        ([("row", 5), GONE, ("row", 9)], {}, [5, 6, 9]),
        ([("mark", 5), GONE, ("row", 9)], {}, [6, 9]),
        ([("row", 3), ("mark", 5), GONE, GONE, ("mark", 9)], {}, [3, 6, 6]),
        ([("ddl", 5), GONE], {}, [6]),
        ([GONE, ("row", 9)], {}, [0, 9]),
        ([GONE, ("row", 9)], {"t": {0: {"": (-1, 7)}}}, [8, 9]),
        ([GONE], {"t": {0: {"": (-1, 7)}}}, [8]),
        ([GONE], {"t": {1: {"": (-1, 7)}}}, [None]),
        ([("mark", 20), GONE, ("row", 9)], {}, [9, 9]),
        ([("mark", 20), ("row", 8), GONE, ("row", 9)], {}, [8, 9, 9]),
        ([("row", 5), GONE, ("mark", 5)], {}, [5, 5]),
        ([("mark", 5), GONE, ("mark", 5), ("row", 9)], {}, [6, 9]),
        ([("mark", 5), ("row", 7), GONE, ("mark", 5), ("row", 7)], {}, [7, 8, 7]),
    ],
    ids=[
        "row before", "mark before", "two behind a mark", "schema change before", "nothing before", "a mark before the batch",
        "nothing after", "another partition's mark", "sent again behind a mark", "sent again between rows",
        "a mark that has passed it", "a mark again", "a mark again behind a row",
    ],
)  # fmt: skip
def test_a_row_is_dated_by_those_around_it(
    events: list[tuple[str, int | None]], before: Dated, wanted: list[int | None]
) -> None:
    assert dates(TimestampEstimator(before).fill(decoded(*events))) == wanted


@pytest.mark.parametrize(
    "events, wanted",
    [
        ([("row", 10), ("other", 5), GONE, ("mark", 20)], [10, 11]),
        ([("row", 10), GONE, ("other", 5), ("mark", 20)], [10, 11]),
        ([("row", 10), ("other", 20), GONE, ("other", 22), ("row", 16)], [10, 11, 16]),
        ([("mark", 20), ("other", 12), GONE], [13]),
        ([("mark", 20), GONE, ("other", 12)], [12]),
        ([("mark", 20), GONE, ("other", 22), ("mark", 23)], [21]),
        ([("other", 5), GONE], [6]),
    ],
    ids=[
        "older before", "older after", "newer before", "sent again before", "sent again after", "a mark before", "nothing else",
    ],
)  # fmt: skip
def test_rows_of_another_table_date_it_only_where_the_producer_sends_again(
    events: list[tuple[str, int | None]], wanted: list[int]
) -> None:
    filled = TimestampEstimator({}).fill(decoded(*events))
    assert dates(filled, table="t") == wanted


PARTS = {
    "an older row of another table between": [("row", 10), ("other", 5), None, GONE, ("mark", 20)],
    "a newer row of another table between": [("row", 10), ("other", 15), None, GONE, ("mark", 20)],
    "deletes of one transaction": [("mark", 20), None, GONE, None, GONE, None, GONE, None, ("row", 22), ("mark", 30)],
    "sent again": [("row", 10), ("row", 12), ("mark", 12), ("row", 10), None, GONE, None, ("row", 12), ("mark", 14)],
    "another table is sent again": [("mark", 20), ("other", 12), None, GONE, ("other", 12)],
    "a mark goes back": [("row", 20), ("mark", 21), ("mark", 15), None, GONE, ("row", 17)],
    "the row is before two batches": [("row", 10), None, ("other", 5), None, ("other", 7), None, GONE, ("row", 30)],
}


@pytest.mark.parametrize("records", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("state", [False, True], ids=["one task", "the ledger between"])
def test_the_records_before_count_however_they_are_divided(
    records: list[tuple[str, int | None] | None], state: bool
) -> None:
    whole = [record for record in records if record is not None]
    wanted = dates(TimestampEstimator({}).fill(decoded(*whole)), table="t")
    estimator, actual, first, kept = TimestampEstimator({}), list[int | None](), 0, dict[int, Any]()
    for part in _divided(records):
        actual += dates(estimator.fill(decoded(*part, first=first)), table="t")
        first += len(part)
        if state:
            kept |= _kept(estimator.dated())
            estimator = TimestampEstimator({"t": kept})
    assert actual == wanted


def _divided(records: list[tuple[str, int | None] | None]) -> list[list[tuple[str, int | None]]]:
    parts: list[list[tuple[str, int | None]]] = [[]]
    for record in records:
        if record is None:
            parts.append([])
        else:
            parts[-1].append(record)
    return parts


def _kept(dated: Dated) -> dict[int, Any]:
    """The records of each partition, as the chunks of the batch carry them."""
    chunks = [chunk_info("", row) for row in pack_dated(dated).to_pylist()]
    return {chunk.partition: chunk.dated for chunk in chunks}


def test_a_task_keeps_nothing_of_partitions_that_it_does_not_read() -> None:
    estimator = TimestampEstimator({"t": {0: {"": (0, 1)}, 1: {"": (0, 2)}}})
    estimator.fill(decoded(("row", 5), partition=1, first=3))
    assert estimator.dated() == {"t": {1: {"": (0, 2), "app.t": (3, 5)}}}
    estimator.fill(decoded(("mark", 6), partition=1, first=4))
    assert estimator.dated() == {"t": {1: {"": (4, 6)}}}
