"""A delete without commit_ts gets the position that the records around it in its partition allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import Control, Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
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


def dates(changes: Decoded) -> list[int | None]:
    return [ts for table in changes.tables for ts in table.rows.column("commit_ts").to_pylist()]


GONE = ("row", None)


@pytest.mark.parametrize(
    "events, marks, wanted",
    [
        ([("row", 5), GONE, ("row", 9)], {}, [5, 6, 9]),
        ([("mark", 5), GONE, ("row", 9)], {}, [6, 9]),
        ([("row", 3), ("mark", 5), GONE, GONE, ("mark", 9)], {}, [3, 6, 6]),
        ([("ddl", 5), GONE], {}, [6]),
        ([GONE, ("row", 9)], {}, [0, 9]),
        ([GONE, ("row", 9)], {"t": {0: 7}}, [8, 9]),
        ([GONE], {"t": {0: 7}}, [8]),
        ([GONE], {"t": {1: 7}}, [None]),
        ([("mark", 20), GONE, ("row", 9)], {}, [9, 9]),
        ([("mark", 20), ("row", 8), GONE, ("row", 9)], {}, [8, 9, 9]),
        ([("row", 5), GONE, ("mark", 5)], {}, [5, 5]),
    ],
    ids=[
        "row before", "mark before", "two behind a mark", "schema change before", "nothing before", "a mark before the batch",
        "nothing after", "another partition's mark", "sent again behind a mark", "sent again between rows",
        "a mark that has passed it",
    ],
)  # fmt: skip
def test_a_row_is_dated_by_those_around_it(
    events: list[tuple[str, int | None]], marks: dict[str, dict[int, int]], wanted: list[int | None]
) -> None:
    assert dates(TimestampEstimator(marks).fill(decoded(*events))) == wanted


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
    own = [table for table in filled.tables if table.shape.table == "t"]
    assert [ts for table in own for ts in table.rows.column("commit_ts").to_pylist()] == wanted


def test_the_last_commit_ts_is_kept_from_batch_to_batch() -> None:
    estimator = TimestampEstimator({"t": {0: 1, 1: 2}})
    assert dates(estimator.fill(decoded(("row", 5), ("mark", 6)))) == [5]
    assert dates(estimator.fill(decoded(GONE, first=2))) == [7]
    assert dates(estimator.fill(decoded(GONE, partition=1))) == [3]
