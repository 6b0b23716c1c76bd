"""Paths of tables: each name has a folder of its own, which every reader can open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from changefeed.model.names import full_name
from changefeed.pipeline.planning.table_path import names_in, table_path
from changefeed.pipeline.run import run
from tests.pipeline.kit.history import HistoryBuilder
from tests.pipeline.kit.running import definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDERS = {
    # as they are
    "orders": "orders",
    "_migrations": "_migrations",
    "$a-b+c'd&f(g)!,;@": "$a-b+c'd&f(g)!,;@",
    "we ird": "we~20ird",
    "a.b": "a.b",
    "x" * 200: "x" * 200,
    # escaped
    "ü数据😀": "~C3~BC~E6~95~B0~E6~8D~AE~F0~9F~98~80",
    "a/b": "a~2Fb",
    "..\\c": "~2E.~5Cc",
    ".": "~2E",
    "..": "~2E~2E",
    "a%b:c~": "a~25b~3Ac~7E",
    "_delta_log": "~5Fdelta_log",
    "_Delta_Log": "~5FDelta_Log",
    "_changefeed": "~5Fchangefeed",
    "_spark_metadata": "~5Fspark_metadata",
    "a\x7fb\0\n\x85": "a~7Fb~00~0A~C2~85",
    ".hidden": "~2Ehidden",
    "end.": "end~2E",
    " t ": "~20t~20",
    "day=1": "day~3D1",
    "emp#": "emp~23",
    "a`b^": "a~60b~5E",
    "a[1]{2}": "a~5B1~5D~7B2~7D",
    "\ud800": "~ED~A0~80",
    # shortened
    "": "~~e3b0c44298fc1c14",
    "x" * 201: "x" * 180 + "~~84a0678c90937f5d",
    "数" * 67: "~E6~95~B0" * 20 + "~~82e4041f61a8e9ae",
    "=" * 67: "~3D" * 60 + "~~a2af339721f6fdba",
}


@pytest.mark.parametrize("name, folder", FOLDERS.items(), ids=map(ascii, FOLDERS))
def test_a_name_is_a_folder(name: str, folder: str) -> None:
    expected = f"{folder}/{folder}"
    assert table_path(name, name) == expected
    assert names_in(expected) == (None if "~~" in folder else (name, name))


def test_no_two_names_have_one_folder() -> None:
    names = [*FOLDERS, *FOLDERS.values(), "x" * 202, "~", "~~", "~5Fdelta_log", "x" * 180]
    assert len({table_path("a", name) for name in names}) == len(set(names))
    assert all(len(part.encode()) <= 200 for name in names for part in table_path(name, name).split("/"))


@pytest.mark.parametrize("name", FOLDERS, ids=map(ascii, FOLDERS))
def test_a_reader_opens_a_table_of_any_name(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / table_path(name, name))
    write_deltalake(path, pa.table({"id": [7]}))
    assert Path(path, "_delta_log").is_dir()
    table = DeltaTable(path)
    assert table.to_pyarrow_table()["id"].to_pylist() == [7]
    asked = QueryBuilder().register("t", table).execute("SELECT id FROM t").read_all()
    assert pa.table(asked)["id"].to_pylist() == [7]


@pytest.mark.heavy
def test_tables_that_a_pipeline_writes_are_opened_by_another_reader(spark: SparkSession, tmp_path: Path) -> None:
    names = ["_delta_log", "a\x7fb", ".hidden", "day=1", "a[1]{2}#%20", " t.", "n" * 230]
    h = HistoryBuilder(partitions=1)
    h.rows(*((name, None, {"id": number, "note": name}) for number, name in enumerate(names)))
    h.resolved()
    pipeline = definition(h.write(tmp_path / "log.jsonl"), tmp_path / "lake")
    done = run(pipeline, spark, once=True)
    assert set(done.state.tables) == {full_name("app", name) for name in names}
    for number, name in enumerate(names):
        path = tmp_path / "lake" / table_path("app", name)
        assert DeltaTable(path).to_pyarrow_table().to_pylist() == [{"id": number, "note": name}]
        assert [row.asDict() for row in spark.read.format("delta").load(str(path)).collect()] == [
            {"id": number, "note": name}
        ]
