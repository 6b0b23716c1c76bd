"""Other columns without Spark: the tables are those that Spark makes of the same writes."""

from __future__ import annotations

import json
import shutil
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from changefeed.errors import FencedError
from changefeed.model.definition import Table
from changefeed.model.types import ColumnType
from changefeed.sinks.base import WriteRequest, write_alone
from changefeed.sinks.delta.native import step
from changefeed.sinks.delta.sink import DeltaTables
from changefeed.sinks.writes import (
    METADATA_COLUMNS,
    AddColumns,
    Constant,
    ConvertedFrom,
    Copy,
    Create,
    IrregularUpdate,
    Load,
    Null,
    Rewrite,
    Upsert,
    WriteId,
)
from tests.examples import by_turns
from tests.sinks.contract import Given, Row, table
from tests.sinks.delta_native.applying import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATH = "shop/orders"
DATETIME = ColumnType("datetime")
OLD = table("*id int", "note varchar(20)", "at date")
_FIRST: dict[tuple[bool, tuple[str, ...], bool], Path] = {}  # how it is written -> a copy of the table in `by`
ROWS = ({"id": 1, "note": "one", "at": None}, {"id": 2, "note": None, "at": None})


def by(spark: SparkSession, root: Path, *, native: bool, metadata: Any = (), marks: bool = False) -> DeltaTables:
    """A table of two rows, one of them updated, in a folder of its own: a copy of the first such table of the tests."""
    folder, first = root / ("native" if native else "spark"), (native, tuple(metadata), marks)
    sink = DeltaTables(str(folder), metadata, spark, "changefeed:test:1", native, merges_on_read=marks)
    if first in _FIRST:
        shutil.copytree(_FIRST[first], folder / PATH)
        return sink
    apply(sink, Load, 1, OLD, *ROWS)
    apply(sink, Upsert, 2, OLD, {**ROWS[1], "note": "two"})
    _FIRST[first] = Path(shutil.copytree(folder / PATH, root / f"first-{native}"))
    return sink


def apply(sink: DeltaTables, kind: Any, number: int, of: Table, *rows: Row, path: str = PATH, **options: Any) -> None:
    write = kind(path=path, number=1, table=of, **options)
    changes = Given(of, rows) if rows else None
    write_alone(sink, WriteRequest(write, changes, WriteId(1, number, 1), '{"n":1}'))


def engine(sink: DeltaTables, path: str = PATH) -> str:
    """The writer of the last commit."""
    version = DeltaTable(sink.location(path)).version()
    lines = (Path(sink.location(path)) / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    [info] = [action["commitInfo"] for line in lines if "commitInfo" in (action := json.loads(line))]
    return "spark" if "Spark" in info.get("engineInfo", "") else "native"


def content(sink: DeltaTables, path: str = PATH) -> tuple[Any, Any]:
    """Columns and rows."""
    fields = json.loads(DeltaTable(sink.location(path)).schema().to_json())["fields"]
    return fields, sorted(read(sink.location(path)).to_pylist(), key=lambda row: int(row["id"]))


def kept(name: str, of: Table = OLD) -> ConvertedFrom:
    column = of.column(name)
    assert column is not None
    return ConvertedFrom(column=name, type=column.type)


CHANGES: dict[str, tuple[Any, Table, dict[str, Any]]] = {
    "added": (
        AddColumns,
        table("*id int", "sum bigint", "note varchar(20)", "at date", "on datetime", "day timestamp"),
        {},
    ),
    "dropped": (Rewrite, table("*id int", "at date"), {"expressions": (kept("id"), kept("at"))}),
    "renamed and moved": (
        Rewrite,
        table("*id int", "at date", "text varchar(20)"),
        {"expressions": (kept("id"), kept("at"), kept("note"))},
    ),
    "converted": (Rewrite, table("*id bigint", "note varchar(1)"), {"expressions": (kept("id"), kept("note"))}),
    "filled": (
        Rewrite,
        table("*id int", "sum decimal(9,2)", "n int", "day date", "note varchar(20)", "gone int"),
        {
            "expressions": (
                kept("id"),
                Constant(value="12.50"),
                Constant(value="7"),
                Constant(value="2024-02-29"),
                Constant(value="né'"),
                Null(),
            )
        },
    ),
    "emptied": (Create, table("*id int", "other int"), {}),
}


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name, marks", by_turns([*(pytest.param(name, False) for name in CHANGES), pytest.param("dropped", True)], 2)
)
def test_changed_columns_are_those_that_spark_makes(
    spark: SparkSession, tmp_path: Path, name: str, *, marks: bool
) -> None:
    kind, after, options = CHANGES[name]
    made = []
    for native in (True, False):
        sink = by(spark, tmp_path, native=native, metadata=METADATA_COLUMNS, marks=marks)
        apply(sink, kind, 3, after, **options)
        assert engine(sink) == ("native" if native else "spark")
        made.append(content(sink))
        apply(sink, Upsert, 4, after, {"id": 3})
        assert spark.read.format("delta").load(sink.location(PATH)).count() == len(made[-1][1]) + 1
        snapshot = sink.snapshot(PATH)
        assert snapshot is not None
        assert snapshot.write_id == WriteId(1, 4, 1)
    assert made[0] == made[1]


def test_irregular_texts_follow_their_columns_as_in_sql(spark: SparkSession, tmp_path: Path) -> None:
    after, expressions = table("*id int", "label varchar(20)"), (kept("id"), kept("note"))
    nulls, updates = {"label": "?"}, list[IrregularUpdate]()
    for dropped, renamed in (((), {"total": "sum"}), (("total",), {}), ((), {})):
        for added in ({}, {"new": "0000-00-00", "newer": ""}):
            updates.append(IrregularUpdate(dropped=dropped, renamed=renamed, added=added, nulls=nulls))
    for number, texts in enumerate(updates):
        made = []
        for native in (True, False):
            sink = by(spark, tmp_path / str(number), native=native, metadata=("_irregular",))
            apply(sink, Upsert, 3, OLD, {"id": 3, "note": None, "at": None})
            apply(sink, Rewrite, 4, after, expressions=expressions, texts=texts)
            assert engine(sink) == ("native" if native else "spark")
            made.append([{**row, "_irregular": dict(row["_irregular"])} for row in content(sink)[1]])
        assert made[0] == made[1]
        assert [row["_irregular"].get("label") for row in made[0]] == [None, None, "?"]


def test_large_tables_are_made_by_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "HERE_BYTES", 10)
    sink = by(spark, tmp_path, native=True)
    apply(sink, Rewrite, 3, table("*id int"), expressions=(kept("id"),))
    apply(sink, AddColumns, 4, table("*id int", "n int"))
    assert (engine(sink), content(sink)[1]) == ("native", [{"id": 1, "n": None}, {"id": 2, "n": None}])


@pytest.mark.parametrize("name", ["added", "dropped", "emptied"])
def test_a_change_that_was_made_is_not_made_again(spark: SparkSession, tmp_path: Path, name: str) -> None:
    kind, after, options = CHANGES[name]
    sink = by(spark, tmp_path, native=True)
    apply(sink, kind, 3, after, **options)
    before = DeltaTable(sink.location(PATH)).version()
    apply(sink, kind, 3, after, **options)
    assert DeltaTable(sink.location(PATH)).version() == before


@pytest.mark.parametrize("name", ["added", "dropped", "emptied"])
def test_an_older_run_changes_no_columns(spark: SparkSession, tmp_path: Path, name: str) -> None:
    kind, after, options = CHANGES[name]
    sink = by(spark, tmp_path, native=True)
    apply(sink, kind, 3, after, **options)
    write, changes = Upsert(path=PATH, number=1, table=after), Given(after, ({"id": 9},))
    write_alone(sink, WriteRequest(write, changes, WriteId(2, 3, 1), "{}"))
    with pytest.raises(FencedError):
        apply(sink, kind, 4, after, **options)


def test_a_column_that_is_dropped_and_added_again_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    sink = by(spark, tmp_path, native=True)
    apply(sink, Rewrite, 3, table("*id int"), expressions=(kept("id"),))
    apply(sink, AddColumns, 4, table("*id int", "note decimal(4,1)"))
    apply(sink, Upsert, 5, table("*id int", "note decimal(4,1)"), {"id": 2, "note": Decimal("1.5")})
    assert content(sink)[1] == [{"id": 1, "note": None}, {"id": 2, "note": Decimal("1.5")}]


COPIED = "shop/copied"


@pytest.mark.heavy
@pytest.mark.parametrize("marks", by_turns([False, True], 2))
def test_copies_are_those_that_spark_makes(spark: SparkSession, tmp_path: Path, *, marks: bool) -> None:
    """The first copy makes a table, the second replaces it by one with other columns, one of them without a time zone."""
    made = []
    for native in (True, False):
        sink = by(spark, tmp_path, native=native, metadata=METADATA_COLUMNS, marks=marks)
        apply(sink, Copy, 3, OLD, path=COPIED, source=PATH)
        apply(sink, Rewrite, 4, table("*id int", "on datetime"), expressions=(kept("id"), Null()))
        first = content(sink, COPIED), engine(sink, COPIED)
        apply(sink, Copy, 5, table("*id int", "on datetime"), path=COPIED, source=PATH)
        made.append((first[0], content(sink, COPIED), sink.snapshot(COPIED).write_id))  # type: ignore[union-attr]
        assert (first[1], engine(sink, COPIED)) == (("native",) * 2 if native else ("spark",) * 2)
        assert content(sink, COPIED) == content(sink)
        rows = spark.read.format("delta").load(sink.location(COPIED)).collect()
        assert [row["id"] for row in rows] in ([1, 2], [2, 1])
    assert made[0] == made[1]


def test_a_copy_of_a_large_table_is_made_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = by(spark, tmp_path, native=True)
    monkeypatch.setattr(step, "HERE_BYTES", 100)
    apply(sink, Copy, 3, OLD, path=COPIED, source=PATH)
    assert (engine(sink, COPIED), content(sink, COPIED)) == ("spark", content(sink))


def test_a_copy_of_an_older_run_is_fenced(spark: SparkSession, tmp_path: Path) -> None:
    sink = by(spark, tmp_path, native=True)
    apply(sink, Copy, 3, OLD, path=COPIED, source=PATH)
    newer = WriteId(2, 1, 1)
    write = Rewrite(path=COPIED, number=1, table=table("*id int"), expressions=(kept("id"),))
    write_alone(sink, WriteRequest(write, None, newer, "{}"))
    with pytest.raises(FencedError):
        apply(sink, Copy, 9, OLD, path=COPIED, source=PATH)
    assert [field["name"] for field in content(sink, COPIED)[0]] == ["id"]


@pytest.mark.heavy
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("marks", by_turns([True, False], 2))
def test_the_first_column_without_a_time_zone_may_be_converted(
    spark: SparkSession, tmp_path: Path, *, native: bool, marks: bool
) -> None:
    """Spark writes it, and the table, which other readers read, gets a table feature with it: in one commit."""
    sink = by(spark, tmp_path, native=native, marks=marks)
    apply(sink, Upsert, 3, OLD, {**ROWS[0], "at": date(2024, 2, 29)})
    before = sink.snapshot(PATH)
    apply(sink, Rewrite, 4, table("*id int", "at datetime"), expressions=(kept("id"), kept("at")))
    after = sink.snapshot(PATH)
    assert before is not None
    assert after is not None
    assert (after.revision, after.write_id) == (before.revision + 1, WriteId(1, 4, 1))
    assert content(sink)[1] == [{"id": 1, "at": datetime(2024, 2, 29)}, {"id": 2, "at": None}]
    assert spark.read.format("delta").load(sink.location(PATH)).count() == 2
    apply(
        sink,
        Rewrite,
        5,
        table("*id int", "on datetime"),
        expressions=(kept("id"), ConvertedFrom(column="at", type=DATETIME)),
    )
    apply(sink, Upsert, 6, table("*id int", "on datetime"), {"id": 3, "on": None})
    assert [row["id"] for row in content(sink)[1]] == [1, 2, 3]


@pytest.mark.parametrize("marks", [False, True], ids=["copy-on-write", "merge-on-read"])
def test_rows_with_other_columns_replace_a_table_without_spark(tmp_path: Path, marks: bool) -> None:
    """DROP, CREATE and INSERT in one step make such writes; the second was prepared when the table had other columns."""
    sink = DeltaTables(str(tmp_path), (), None, "test", merges_on_read=marks)
    apply(sink, Load, 1, OLD, *ROWS)
    other = table("*id int", "at datetime(6)")
    rows = [{"id": number, "at": datetime(2026, 1, number)} for number in (1, 2)]
    writes: list[Any] = [Load(path=PATH, number=1, table=other), Upsert(path=PATH, number=2, table=other)]
    requests = [
        WriteRequest(write, Given(other, (row,)), WriteId(1, 2, n), "{}")
        for n, (write, row) in enumerate(zip(writes, rows, strict=True), 1)
    ]
    for prepared in sink.prepare(requests):
        sink.apply(prepared)
    fields, rows_now = content(sink)
    assert [field["name"] for field in fields] == ["id", "at"]
    assert [row["id"] for row in rows_now] == [1, 2]
    assert engine(sink) == "native"
