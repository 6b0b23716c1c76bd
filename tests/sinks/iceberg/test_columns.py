"""Changes of columns: by field id, without new files, wherever the rows may stay."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from changefeed.sinks.writes import (
    AddColumns,
    Constant,
    ConvertedFrom,
    Create,
    Expression,
    IrregularUpdate,
    Load,
    Null,
    Restore,
    Rewrite,
    Upsert,
)
from tests.sinks.contract import Row, table
from tests.sinks.iceberg.tables import PATH, WIDE, Tables, kept

ROW: Row = {"id": 1, "note": "one", "total": Decimal("1.00"), "size": -7, "weight": 0.5}


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    (tmp_path / "lake").mkdir()
    return Tables(tmp_path / "lake")


@pytest.mark.parametrize(
    "columns, expressions, row",
    [
        pytest.param(("*id int", "note varchar(20)"), (kept("id"), kept("note")), {"id": 1, "note": "one"}, id="drop"),
        pytest.param(("*id int", "memo varchar(20)"), (kept("id"), kept("note")), {"id": 1, "memo": "one"}, id="rename"),
        pytest.param(("note varchar(20)", "*id int"), (kept("note"), kept("id")), {"note": "one", "id": 1}, id="move"),
        pytest.param(
            ("*id int", "note smallint", "size varchar(20)"), (kept("id"), kept("size"), kept("note")),
            {"id": 1, "note": -7, "size": "one"}, id="swap",
        ),
        pytest.param(("*id int", "note date"), (kept("id"), Null()), {"id": 1, "note": None}, id="drop and add"),
        pytest.param(
            ("*id bigint", "total decimal(14,2)", "size int", "weight double"),
            (kept("id"), kept("total"), kept("size"), kept("weight")),
            {"id": 1, "total": Decimal("1.00"), "size": -7, "weight": 0.5}, id="widen",
        ),
    ],
)  # fmt: skip
def test_rows_stay_where_they_are(
    tables: Tables, columns: tuple[str, ...], expressions: tuple[Expression, ...], row: Row
) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ROW, of=WIDE)
    files, ids = tables.files(), tables.ids()
    after = table(*columns)
    tables.write(sink, Rewrite, of=after, expressions=expressions)
    assert (tables.rows(), tables.files()) == ([row], files)
    assert list(tables.rows()[0]) == list(row)
    for column, expression in zip(after.columns, expressions, strict=True):
        if isinstance(expression, ConvertedFrom):
            assert tables.ids()[column.name] == ids[expression.column]
        else:
            assert tables.ids()[column.name] > max(ids.values())
    assert sink.differences(PATH, after) == []
    # rows of both kinds of files are merged
    tables.write(sink, Upsert, {**row, "id": 2}, of=after)
    tables.write(sink, Upsert, {**row, "id": 1}, {**row, "id": 3}, of=after)
    assert sorted(tables.rows(), key=lambda each: int(each["id"])) == [{**row, "id": n} for n in (1, 2, 3)]


def test_a_column_that_is_dropped_and_added_again_has_a_new_id_and_no_old_values(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ROW, of=WIDE)
    before = tables.ids()
    tables.write(sink, Rewrite, of=table("*id int"), expressions=(kept("id"),))
    again = table("*id int", "note varchar(20)")
    tables.write(sink, AddColumns, of=again)
    assert (tables.rows(), tables.ids()["note"] in before.values()) == ([{"id": 1, "note": None}], False)
    tables.write(sink, Upsert, {"id": 2, "note": "two"}, of=again)
    assert tables.rows() == [{"id": 1, "note": None}, {"id": 2, "note": "two"}]


@pytest.mark.parametrize(
    "columns, column",
    [
        (("place point", "place.srid int"), "place"), (("place.wkb blob", "place point"), "place"),
        (("vec vector(2)", "vec.element int"), "vec"), (("a.b int", "a int"), None), (("vec vector(2)", "vec.x int"), None),
    ],
)  # fmt: skip
def test_a_column_with_the_name_of_a_part_of_another_is_refused(
    tables: Tables, columns: tuple[str, ...], column: str | None
) -> None:
    reason = tables.sink().refusal(table("*id int", *columns))
    assert (reason is None) == (column is None)
    assert reason is None or reason.endswith(f" has the name that Iceberg gives to a part of column {column}")


def test_columns_keep_the_comments_of_others(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, {"id": 1, "note": "one"}, of=table("*id int", "note varchar(20)"))
    with tables.opened() as opened, opened.update_schema() as update:
        update.update_column("note", doc="by phone")
    tables.write(sink, AddColumns, of=table("*id int", "note varchar(20)", "more int"))
    renamed = (kept("id"), kept("note"))
    tables.write(sink, Rewrite, of=table("*id int", "memo varchar(20)"), expressions=renamed)
    with tables.opened() as opened:
        assert opened.schema().find_field("memo").doc == "by phone"


@pytest.mark.parametrize(
    "kind, expression, value",
    [
        ("varchar(20)", Constant(value="x"), "x"),
        ("tinyint", Constant(value="3"), 3),
        ("varchar(20)", kept("size"), "-7"),
        ("tinyint", kept("size"), -7),
        ("smallint", kept("size", null="5"), -7),
    ],
)
def test_values_that_must_be_computed_are_written_again(
    tables: Tables, kind: str, expression: Expression, value: Any
) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ROW, of=WIDE)
    files = tables.files()
    tables.write(sink, Rewrite, of=table("*id int", f"new {kind}"), expressions=(kept("id"), expression))
    assert tables.rows() == [{"id": 1, "new": value}]
    assert not tables.files() & files


def test_texts_of_irregular_values_are_written_again(tables: Tables) -> None:
    sink, narrow = tables.sink(("_irregular",)), table("*id int", "total decimal(10,2)")
    tables.write(sink, Load, {"id": 1, "total": None}, of=narrow)
    after, texts = table("*id int", "sum decimal(10,2)"), IrregularUpdate(renamed={"total": "sum"})
    expressions = (kept("id", narrow), kept("total", narrow))
    tables.write(sink, Rewrite, of=after, expressions=expressions, texts=texts)
    with tables.opened() as opened:
        [row] = opened.scan().to_arrow().to_pylist()
    assert row == {"id": 1, "sum": None, "_irregular": [("sum", "x")]}


def test_a_restored_version_has_its_columns_and_files(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ROW, of=WIDE)
    there, files, ids = sink.snapshot(PATH), tables.files(), tables.ids()
    assert there is not None
    tables.write(sink, Create, of=table("*x int"))
    tables.write(sink, Restore, revision=there.revision)
    assert (tables.rows(), tables.files(), tables.ids()) == ([ROW], files, ids)
    tables.write(sink, AddColumns, of=table(*[f"{c.name} int" for c in WIDE.columns], "x int"))
    assert tables.ids()["x"] > max(ids.values()) + 1, "ids are given once"
