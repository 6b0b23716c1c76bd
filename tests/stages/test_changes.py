"""Chunks to typed changes, as the worker does it: Arrow in, Arrow out, no Spark."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from changefeed.errors import ChangefeedError, SchemaError, UnsupportedError
from changefeed.model.definition import Table
from changefeed.model.event import SchemaChange
from changefeed.model.position import Place
from changefeed.stages.changes import Window, schema_ddl, worker
from tests.stages.chunks import chunks, shape, table

Image = dict[str, Any] | None


def typed(
    rows: list[tuple[Any, ...]], to: Table, window: Window | None = None, irregular: str = "null"
) -> list[dict[str, Any]]:
    made = chunks(rows)
    batch = pa.RecordBatch.from_pydict({"payload": pa.array([c["payload"] for c in made], pa.binary())})
    batches = worker(to, window or Window(), irregular)([batch])
    return [row for out in batches for row in out.to_pylist()]


def short(row: dict[str, Any]) -> tuple[Any, ...]:
    values = [row[f"c{i}"] for i in range(sum(name[0] == "c" for name in row))]
    return (row["_ts"], row["_half"], "gone" if row["_deleted"] else row["_has"], *values)


IDS = ("*id int", "a int", "s varchar")


def test_every_kind_of_change() -> None:
    full = shape(*IDS)
    rows = typed(
        [
            (full, 1, "insert", None, {"id": 1, "a": 5, "s": "x"}),
            (full, 2, "update", {"id": 1, "a": 5, "s": "x"}, {"id": 1, "a": None, "s": "y"}),
            (full, 3, "update", {"id": 1, "a": None, "s": "y"}, {"id": 2, "a": None, "s": "y"}),
            (full, 4, "delete", {"id": 2, "a": None, "s": "y"}, None),
            (full, 5, "upsert", None, {"id": 3, "a": 1, "s": None}),
        ],
        table(*IDS),
    )
    assert sorted(short(row) for row in rows) == [
        (1, 1, None, 1, 5, "x"),
        (2, 1, None, 1, None, "y"),
        (3, 0, "gone", 1, None, None),
        (3, 1, None, 2, None, "y"),
        (4, 0, "gone", 2, None, None),
        (5, 1, None, 3, 1, None),
    ]
    first = next(row for row in rows if row["_ts"] == 1)
    assert [first[n] for n in ("_topic", "_partition", "_offset", "_index", "_op", "_irregular")] == [
        "t", 0, 0, None, "insert", []
    ]  # fmt: skip


def test_the_columns_are_those_declared_to_spark() -> None:
    to = table(*IDS)
    batch = pa.RecordBatch.from_pydict(
        {"payload": pa.array([chunks([(shape(*IDS), 1, "insert", None, {"id": 1, "a": 1, "s": ""})])[0]["payload"]])}
    )
    [out] = worker(to, Window())([batch])
    assert out.schema.names == [part.split(" ")[0] for part in schema_ddl(to).split(", ")]


def test_absent_is_not_null() -> None:
    part = shape(*IDS, before=("id",), after=("id", "a"))
    rows = typed(
        [(part, 1, "update", {"id": 1}, {"id": 1, "a": None}), (part, 2, "update", None, {"id": 2, "a": 3})],
        table(*IDS),
    )
    assert [short(row) for row in rows] == [
        (1, 1, [True, True, False], 1, None, None),
        (2, 1, [True, True, False], 2, 3, None),
    ]


def test_columns_that_the_table_lacks_or_spells_otherwise() -> None:
    other = shape("*ID int", "S varchar", "gone int")
    rows = typed([(other, 1, "insert", None, {"ID": 1, "S": "x", "gone": 3})], table(*IDS))
    assert [short(row) for row in rows] == [(1, 1, [True, False, True], 1, None, "x")]


def test_a_key_of_several_columns_moves_when_one_of_them_does() -> None:
    to = table("*a int", "*b varchar", "c int")
    full = shape("*a int", "*b varchar", "c int")
    rows = typed([(full, 1, "update", {"a": 1, "b": "x", "c": 1}, {"a": 1, "b": "X", "c": 1})], to)
    assert sorted(short(row) for row in rows) == [(1, 0, "gone", 1, "x", None), (1, 1, None, 1, "X", 1)]


def test_a_partial_before_image_moves_what_it_names() -> None:
    made = shape("*a int", "*b int", "c int", before=("b",))
    rows = typed([(made, 1, "update", {"b": 1}, {"a": 7, "b": 2, "c": 3})], table("*a int", "*b int", "c int"))
    assert sorted(short(row) for row in rows) == [(1, 0, "gone", 7, 1, None), (1, 1, None, 7, 2, 3)]


@pytest.mark.parametrize(
    "window, wanted",
    [
        (Window(), [1, 2, 3, None]),
        (Window(1, None), [2, 3]),
        (Window(None, 2), [1, 2]),
        (Window(1, 2), [2]),
        (Window(3, 9), []),
    ],
)
def test_the_window_cuts_by_commit_ts(window: Window, wanted: list[int | None]) -> None:
    full = shape("*id int")
    inserts: list[Any] = [(full, ts, "insert", None, {"id": i}) for i, ts in enumerate([1, 2, 3])]
    builder_rows = [*inserts, (full, None, "insert", None, {"id": 9})]
    rows = typed([(s, ts, op, b, a) for s, ts, op, b, a in builder_rows], table("*id int"), window)
    assert [row["_ts"] for row in rows] == wanted


def test_values_are_in_the_tables_types() -> None:
    to = table("*id bigint unsigned", "d decimal(10,2)", "e enum('a','b')", "t timestamp")
    made = shape("*id bigint unsigned", "d decimal", "e enum", "t timestamp")
    [row] = typed([(made, 1, "insert", None, {"id": 2**64 - 1, "d": "1.5", "e": 2, "t": 0})], to)
    assert (int(row["c0"]), str(row["c1"]), row["c2"], row["c3"].isoformat()) == (
        2**64 - 1, "1.50", "b", "1970-01-01T00:00:00+00:00"
    )  # fmt: skip


# Irregular values.

DATED = ("*id int", "d date", "n decimal(4,1)")


def _irregular(policy: str) -> list[dict[str, Any]]:
    made = shape("*id int", "D date", "n decimal")
    return typed(
        [
            (made, 1, "insert", None, {"id": 1, "D": 3, "n": "1.5"}),
            (made, 2, "insert", None, {"id": 2, "D": None, "n": "12345.5"}, {"D": b"0000-00-00"}),
            (
                made,
                3,
                "update",
                {"id": 3, "D": None, "n": "1"},
                {"id": 3, "D": 3, "n": "2"},
                {"before.D": b"0000-00-00"},
            ),
        ],
        table(*DATED),
        irregular=policy,
    )


@pytest.mark.parametrize("policy", ["null", "keep"])
def test_irregular_values_are_null_and_kept_as_texts(policy: str) -> None:
    rows = _irregular(policy)
    assert [(row["c1"] is None, row["c2"] is None, dict(row["_irregular"])) for row in rows] == [
        (False, False, {}),
        (True, True, {"d": "0000-00-00", "n": "12345.5"}),
        (False, False, {}),
    ]


def test_irregular_fail_names_table_column_text_and_position() -> None:
    with pytest.raises(SchemaError) as error:
        _irregular("fail")
    assert str(error.value) == (
        "app.t.d holds '0000-00-00' at t:0:1, which date cannot hold downstream, and `irregular: fail` is set. Correct it "
        "upstream, or set sink.irregular to `keep` or `null`"
    )


# Changes that cannot be applied.


@pytest.mark.parametrize(
    "to, row, kind, message",
    [
        (
            table("a int"),
            (shape("a int"), 1, "delete", {"a": 1}, None),
            UnsupportedError,
            "app.t has no handle key, so the delete at t:0:0 cannot be applied: it does not identify a row. Set "
            "pipeline.keyless to `inserts` to skip updates and deletes, or name the table in pipeline.exclude to skip "
            "all of it; then run again",
        ),
        (
            table("*id int", "*b int"),
            (shape("*id int"), 1, "delete", {"id": 1}, None),
            UnsupportedError,
            "app.t: the change at t:0:0 does not carry its key column b",
        ),
        (
            table("*d date"),
            (shape("*d date"), 1, "insert", None, {"d": None}, {"d": b"0000-00-00"}),
            UnsupportedError,
            "app.t.d is in the key and holds '0000-00-00' at t:0:0, which date cannot hold: the row cannot be found again. "
            "Name the table in pipeline.exclude to skip it, and run again",
        ),
        (
            table("*d tinyint"),
            (shape("*d int"), 1, "delete", {"d": 300}, None),
            UnsupportedError,
            "app.t.d is in the key and holds '300' at t:0:0, which tinyint cannot hold: the row cannot be found again. "
            "Name the table in pipeline.exclude to skip it, and run again",
        ),
        (
            table("*id int", "g point"),
            (shape("*id int", "g int"), 1, "insert", None, {"id": 1, "g": 1}),
            SchemaError,
            "app.t.g: a column of type point cannot take values of type int (from t:0:0)",
        ),
        (
            table("*id int", "a int"),
            (shape("*id int", "a int", after=("id",)), 1, "update", {"id": 1, "a": 1}, {"id": 2}),
            UnsupportedError,
            "app.t: the update at t:0:0 changes the key and does not carry a, so these values of the row would be lost. "
            "Configure the producer to send whole rows, or name the table in pipeline.exclude to skip it; then run again",
        ),
    ],
    ids=["no key", "key not carried", "zero date in the key", "key out of range", "wrong type", "partial key change"],
)
def test_changes_that_cannot_be_applied_are_errors(
    to: Table, row: tuple[Any, ...], kind: type[ChangefeedError], message: str
) -> None:
    with pytest.raises(kind) as error:
        typed([row], to)
    assert str(error.value) == message


def test_a_table_without_a_key_takes_inserts() -> None:
    rows = typed([(shape("a int"), 1, "insert", None, {"a": 1})] * 2, table("a int"))
    assert [short(row) for row in rows] == [(1, 1, None, 1)] * 2


def test_without_rows_there_are_no_batches() -> None:
    assert (
        list(worker(table(*IDS), Window())([pa.RecordBatch.from_pydict({"payload": pa.array([], pa.binary())})])) == []
    )


def test_shipped_objects_can_be_pickled() -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    shipped = pickle.loads(cloudpickle.dumps(worker(table(*IDS), Window(1, 2), "fail")))
    assert list(shipped([])) == []


# Each chunk is on one side of every schema change.


def test_a_chunk_spans_no_schema_change() -> None:
    full = shape("*id int")
    rows = [(full, ts, "insert", None, {"id": ts}) for ts in (10, 30, 50, 70, 90)]
    cuts = [SchemaChange("other", "app", "t", f"at {ts}", Place("t", 0, 9), commit_ts=ts) for ts in (95, 60, 50, 20, 5)]
    made = chunks([*rows, (full, None, "insert", None, {"id": 1})], cuts)
    assert [(c["min_commit_ts"], c["max_commit_ts"], c["rows"]) for c in made] == [
        (10, 10, 1),
        (30, 50, 2),
        (70, 90, 3),
    ]
