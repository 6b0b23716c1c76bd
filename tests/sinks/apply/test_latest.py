"""The last change of every key in columns, compared with the same computed one change after the other in Python."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from changefeed.sinks.apply.keys import Keys
from changefeed.sinks.apply.latest import latest, of_last_reading
from changefeed.stages.changes import schema
from tests.stages.random_changes import CASES, NAMES, TABLE, as_known, change, random_changes, reduced


def run(changes: list[dict[str, Any]], *, partial: bool) -> dict[int, dict[str, Any] | None]:
    rows = arrow(changes, *latest_of(changes, partial=partial))
    by_key = {row["c0"]: as_known(row, partial=partial) for row in rows}
    assert len(by_key) == len(rows), "a key twice"
    return by_key


def arrow(changes: list[dict[str, Any]], last: pa.Table) -> list[dict[str, Any]]:
    assert last.schema == typed(changes).schema
    return [row | {"_irregular": dict(row["_irregular"])} for row in last.to_pylist()]


def latest_of(changes: list[dict[str, Any]], *, partial: bool) -> tuple[pa.Table]:
    return (latest(typed(changes), NAMES, [0], partial=partial),)


def typed(changes: list[dict[str, Any]]) -> pa.Table:
    rows = [row | {"_irregular": list(row["_irregular"].items())} for row in changes]
    return pa.Table.from_pylist(rows, schema(TABLE))


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_many_changes_are_one_row_a_key(seed: int, partial: bool, shuffled: bool) -> None:
    changes = random_changes(seed, partial=partial)
    if shuffled:
        Random(seed).shuffle(changes)
    assert run(changes, partial=partial) == reduced(changes)


@pytest.mark.parametrize("partial", [False, True])
def test_the_result_does_not_depend_on_the_order_of_arrival(partial: bool) -> None:
    changes = random_changes(3, partial=partial)
    [first] = latest_of(changes, partial=partial)
    Random(1).shuffle(changes)
    [second] = latest_of(changes, partial=partial)
    assert first.to_pylist() == second.to_pylist()


@pytest.mark.parametrize("name", CASES)
def test_cases_by_hand(name: str) -> None:
    changes, wanted = CASES[name]
    assert run(changes, partial=True) == {1: wanted}


def test_without_commit_ts_the_order_is_the_partitions() -> None:
    changes = [change(None, 0, 1, None), change(None, 1, 1, (1, "x", 1)), change(None, 2, 1, None)]
    assert run(changes, partial=False) == {1: None}
    assert run(changes[:2], partial=False) == {
        1: {"id": (1, None), "a": (1, None), "it's": ("x", None), "b": (1, None)}
    }


def test_a_row_that_a_snapshot_has_read_comes_before_changes_at_its_commit_ts() -> None:
    changes = [change(5, 9, 1, (1, "read", 1), _op="read"), change(5, 2, 1, (2, "changed", 2))]
    assert run(changes, partial=False)[1] == {
        "id": (1, None),
        "a": (2, None),
        "it's": ("changed", None),
        "b": (2, None),
    }


def test_topics_are_ordered_by_their_bytes() -> None:
    changes = [change(5, 0, 1, (1, "é", 1), _topic="é"), change(5, 9, 1, (2, "z", 2), _topic="z")]
    assert (run(changes, partial=False)[1] or {})["it's"] == ("é", None)


def test_no_changes() -> None:
    assert run([], partial=True) == {}


def test_a_snapshot_without_a_key_that_was_taken_twice_counts_once() -> None:
    whole = datetime(2026, 1, 1, tzinfo=UTC)
    read = {"_op": "read", "_time": whole}
    changes = [
        change(1, 0, 1, (1, "first", 1), **read),
        change(1, 1, 1, (1, "last", 1), **read | {"_time": whole + timedelta(seconds=3)}),
        change(1, 2, 1, (1, "insert", 1)),
        change(2, 3, 1, (1, "incremental", 1), **read | {"_time": whole + timedelta(milliseconds=5)}),
        change(2, 4, 1, (1, "incremental too", 1), **read | {"_time": whole + timedelta(milliseconds=9)}),
    ]
    rows = typed(changes)
    kept = rows.filter(of_last_reading(rows)).column("c2").to_pylist()
    assert kept == ["last", "insert", "incremental", "incremental too"]


@pytest.mark.parametrize("seed", range(5))
def test_keys_of_several_columns_are_found(seed: int) -> None:
    random = Random(seed)
    wanted = list({(random.randint(0, 9), random.choice("abcé"), random.choice([0.0, 1.5])) for _ in range(40)})
    asked = [
        (random.choice([None, *range(12)]), random.choice("abcdé"), random.choice([-0.0, 1.5, 2.5])) for _ in range(300)
    ]

    def columns(rows: list[Any]) -> list[Any]:
        types = (pa.int64(), pa.string(), pa.float64())
        return [pa.chunked_array([pa.array(c, t)]) for c, t in zip(zip(*rows, strict=True), types, strict=True)]

    places = {key: i for i, key in enumerate(wanted)}
    assert Keys(columns(wanted)).find(columns(asked)).tolist() == [places.get(key, -1) for key in asked]
