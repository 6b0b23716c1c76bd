"""Tables with partitions of another program: rows as in a table without, each in a file of its partition."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from changefeed.errors import SinkError
from changefeed.frames.types import sink_type
from changefeed.model.types import ColumnType
from changefeed.sinks.apply.compaction import CompactionRules, groups
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.apply.step import compact_files
from changefeed.sinks.base import WriteRequest, write_alone
from changefeed.sinks.delta.native.columns import changed, copied
from changefeed.sinks.delta.native.commit import compact
from changefeed.sinks.delta.native.delta_rs import location
from changefeed.sinks.delta.native.opened import open_table
from changefeed.sinks.delta.row import KeyReader
from changefeed.sinks.delta.sink import DeltaTables
from changefeed.sinks.writes import METADATA, Constant, ConvertedFrom, Load, Rewrite, Touch, Upsert, WriteId
from changefeed.storage.folders import folder_at
from changefeed.storage.local import LocalFolder
from changefeed.storage.objects import ObjectFolder
from tests.examples import by_turns
from tests.services.s3 import S3Server
from tests.sinks.contract import Given, table
from tests.sinks.delta_native import histories
from tests.sinks.delta_native.applying import SMALL, apply, create, opened, read
from tests.sinks.delta_native.histories import History, all_types, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = [("tiny",), ("yes", "short"), ("day",), ("medium", "name"), ("kind",), ("big",)]


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts without the empty one, which Delta cannot have in a partition, and without NUL, which Spark cannot."""
    for name in ("name", "kind"):
        kind, values = histories.VALUES[name]
        monkeypatch.setitem(histories.VALUES, name, (kind, [value for value in values if value and "\0" not in value]))


def partitioned(path: Path, history: History, columns: tuple[str, ...]) -> None:
    """Creates an empty table with partitions."""
    fields = [pa.field(c.name, sink_type(c.type).arrow) for c in history.table.columns]
    fields += [pa.field(name, METADATA[name].arrow) for name in METADATA]
    DeltaTable.create(str(path), schema=pa.schema(fields), partition_by=list(columns))


def check_files(path: Path, columns: tuple[str, ...]) -> int:
    """Each file lacks the columns of the partitions, which its entry in the log has; returns the number of partitions."""
    at = opened(path)
    for file in at.state.files.values():
        assert set(file["partitionValues"]) == set(columns)
        stored = pq.read_schema(path / unquote(file["path"])).names
        assert not {*stored} & {*columns}
        assert {*stored} | {*columns} == {field.name for field in at.schema()}
        assert not {*json.loads(file["stats"])["nullCount"]} & {*columns}
    return len({json.dumps(file["partitionValues"]) for file in at.state.files.values()})


@pytest.mark.usefixtures("texts")
@pytest.mark.parametrize("marks", [False, True], ids=["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("keys", [(), ("tiny", "name")], ids=["id", "several"])
@pytest.mark.parametrize("columns", by_turns(COLUMNS, 3), ids=",".join)
def test_rows_are_those_of_a_table_without_partitions(
    tmp_path: Path, columns: tuple[str, ...], keys: tuple[str, ...], marks: bool
) -> None:
    history = History(all_types(*keys), Random().randrange(10**6), partial=True, irregular=True)
    print("seed", history.seed)
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    create(plain, history.table)
    partitioned(ours, history, columns)
    for step in range(1, 6):
        chunks = history.step(60)
        for path in (plain, ours):
            apply(path, history.table, chunks, step, partial=True, marks=marks)
    assert check_files(ours, columns) > 1
    names = [field.name for field in opened(plain).schema()]
    expected = sorted_rows(read(plain, names))
    assert sorted_rows(read(ours, names)) == expected
    at = opened(ours)
    rewritten = copied(at, opened(plain).layout, SMALL)
    rows = pa.concat_tables([pq.read_table(plain / file.path) for file in rewritten])
    assert rows.num_rows == len(expected)
    compacted(ours)
    assert sorted_rows(read(ours, names)) == expected
    assert check_files(ours, columns) > 1


def compacted(path: Path) -> None:
    """Compacts the table, once for all."""
    for _ in range(2):
        at, rules = opened(path), CompactionRules(many=2)
        chosen = [group for stored in at.stored_files() for group in groups(stored, rules)]
        if chosen:
            compact(at, compact_files(None, at.target((), ()), at.files(), chosen, Limits()))
    assert not [group for stored in opened(path).stored_files() for group in groups(stored, rules)]


OF_ORDERS = table("*id int", "region varchar(20)", "v int")
ROWS = ({"id": 1, "region": "New York", "v": 1}, {"id": 2, "region": None, "v": 2}, {"id": 3, "region": "ö=/%", "v": 3})


BY_REGION = pa.table({
    "id": pa.array([1, 2, 3], pa.int32()), "region": ["New York", None, "ö=/%"], "v": pa.array([1, 2, 3], pa.int32()),
})  # fmt: skip


def made_by_another(path: Path) -> None:
    """A table of another program, in folders of its partitions, whose names are encoded."""
    write_deltalake(str(path), BY_REGION, partition_by=["region"])


def write(
    sink: DeltaTables, kind: Any, number: int, *rows: dict[str, Any], of: Any = OF_ORDERS, **options: Any
) -> None:
    changes = Given(of, rows) if rows else None
    write_alone(
        sink,
        WriteRequest(kind(path="shop/orders", number=1, table=of, **options), changes, WriteId(1, number, 1), "{}"),
    )


def content(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read(path, ["id", "region", "v"]).to_pylist()
    return sorted(rows, key=lambda row: int(row["id"]))


@pytest.mark.parametrize("marks", [False, True], ids=["copy-on-write", "merge-on-read"])
def test_a_table_of_another_program_is_written(tmp_path: Path, marks: bool) -> None:
    path = tmp_path / "shop" / "orders"
    made_by_another(path)
    assert any("%" in file for file in opened(path).state.files)
    sink = DeltaTables(str(tmp_path), (), None, "test", merges_on_read=marks)
    assert sink.fallback("shop/orders") is None
    assert sink.partitions("shop/orders", OF_ORDERS) == ("region",)
    write(sink, Touch, 1)
    changed_rows = [{"id": 1, "region": "Boston", "v": 10}, {"id": 3, "region": "ö=/%", "v": 30}]
    write(sink, Upsert, 2, *changed_rows, {"id": 4, "region": None, "v": 4})
    expected = [
        {"id": 1, "region": "Boston", "v": 10}, {"id": 2, "region": None, "v": 2},
        {"id": 3, "region": "ö=/%", "v": 30}, {"id": 4, "region": None, "v": 4},
    ]  # fmt: skip
    assert content(path) == expected
    if not marks:
        assert polars.read_delta(str(path)).sort("id").to_dicts() == expected
    assert KeyReader(LocalFolder(str(path)), {"id": "3"}).at(opened(path).version) == [expected[2]]
    assert KeyReader(LocalFolder(str(path)), {"region": "Boston"}).at(opened(path).version) == expected[:1]
    write(sink, Load, 3, {"id": 9, "region": "Oslo", "v": 9})
    assert content(path) == [{"id": 9, "region": "Oslo", "v": 9}]


@pytest.mark.parametrize("marks", [False, True], ids=["copy-on-write", "merge-on-read"])
def test_a_table_of_another_program_in_an_object_store(s3: S3Server, marks: bool) -> None:
    root = f"s3://lake/{uuid.uuid4().hex}"
    folder = folder_at(root, s3.storage(s3.url))
    assert isinstance(folder, ObjectFolder)
    url, options = location(folder.subfolder("shop/orders"))
    write_deltalake(url, BY_REGION, partition_by=["region"], storage_options=options)
    sink = DeltaTables(root, (), None, "test", merges_on_read=marks, folder=folder)
    write(sink, Touch, 1)
    write(sink, Upsert, 2, {"id": 1, "region": "Boston%", "v": 10}, {"id": 3, "region": "ö=/%", "v": 30})
    at = open_table(folder.subfolder("shop/orders"), "test")
    assert at is not None
    assert at.refused() is None
    assert sink.damaged_files("shop/orders", at.version) == []
    rows = QueryBuilder().register("t", DeltaTable(url, storage_options=options))
    read_back = pa.table(rows.execute("select id, region, v from t order by id").read_all()).to_pylist()
    assert read_back == [
        {"id": 1, "region": "Boston%", "v": 10}, {"id": 2, "region": None, "v": 2}, {"id": 3, "region": "ö=/%", "v": 30},
    ]  # fmt: skip
    names = {info.name for info in folder.subfolder("shop/orders").files_below() if not info.name.startswith("_delta")}
    assert names >= {unquote(path) for path in at.state.files}


def test_columns_change(tmp_path: Path) -> None:
    path = tmp_path / "shop" / "orders"
    made_by_another(path)
    sink = DeltaTables(str(tmp_path), (), None, "test")
    write(sink, Touch, 1)
    wider = table("*id int", "region varchar(20)", "w varchar(3)")
    kept: list[Any] = [
        ConvertedFrom(name, ColumnType.parse(kind)) for name, kind in (("id", "int"), ("region", "varchar(20)"))
    ]
    values = (*kept, Constant("new"))
    write(sink, Rewrite, 2, of=wider, expressions=values)
    rows = sorted(read(path, ["id", "region", "w"]).to_pylist(), key=lambda row: int(row["id"]))
    assert rows == [{"id": row["id"], "region": row["region"], "w": "new"} for row in ROWS]
    assert DeltaTable(str(path)).metadata().partition_columns == ["region"]
    without = table("*id int", "w varchar(3)")
    at = opened(path)
    write_of = Rewrite(path="shop/orders", number=1, table=without, expressions=values[::2])
    columns = pa.schema([("id", pa.int32()), ("w", pa.string())])
    assert not changed(at, write_of, columns, Limits(), WriteId(1, 3, 1), "{}")


def test_the_empty_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop" / "orders"
    made_by_another(path)
    sink = DeltaTables(str(tmp_path), (), None, "test")
    with pytest.raises(SinkError, match="column region, by which the table is partitioned, has the empty text"):
        write(sink, Upsert, 1, {"id": 5, "region": "", "v": 5})
    assert len(content(path)) == 3


@pytest.mark.parametrize("kind", [pa.float64(), pa.timestamp("us"), pa.decimal128(9, 2), pa.binary()])
def test_partitions_of_other_types_are_refused(tmp_path: Path, kind: pa.DataType) -> None:
    DeltaTable.create(str(tmp_path / "t"), schema=pa.schema([("id", pa.int32()), ("p", kind)]), partition_by=["p"])
    at = open_table(LocalFolder(str(tmp_path / "t")), "test")
    assert at is not None
    assert "partitions by p, of type" in (at.refused() or "")


def test_an_entry_without_its_partition_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "shop" / "orders"
    made_by_another(path)
    log = path / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace('"partitionValues":{"region":"New York"}', '"partitionValues":{}'))
    sink = DeltaTables(str(tmp_path), (), None, "test")
    with pytest.raises(SinkError, match=r"its partition cannot be read: KeyError.*Restore the table"):
        write(sink, Upsert, 1, {"id": 1, "region": "Oslo", "v": 5})


@pytest.mark.heavy
@pytest.mark.usefixtures("texts")
@pytest.mark.parametrize("columns", by_turns(COLUMNS, 6), ids=",".join)
def test_spark_reads_the_same_rows(spark: SparkSession, tmp_path: Path, columns: tuple[str, ...]) -> None:
    """Spark makes the table, in folders of its partitions; its rows and those of native writes are read by Spark."""
    from pyspark.sql.functions import lit

    history = History(all_types(), Random().randrange(10**6), irregular=True)
    print("seed", history.seed)
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    create(plain, history.table)
    apply(plain, history.table, history.step(60), 1)
    frame = spark.read.format("delta").load(str(plain))
    frame.write.format("delta").partitionBy(*columns).save(str(ours))
    for step in range(2, 4):
        chunks = history.step(60)
        apply(plain, history.table, chunks, step)
        apply(ours, history.table, chunks, step)
    mine, others = (spark.read.format("delta").load(str(path)).toArrow() for path in (ours, plain))
    assert sorted_rows(mine.select(others.column_names)) == sorted_rows(others)
    whole, other = (spark.read.format("delta").load(str(path)) for path in (ours, plain))
    for column in columns:
        for (value,) in frame.selectExpr(f"CAST({column} AS STRING)").distinct().limit(3).collect():
            counts = [
                f.where(f[column].eqNullSafe(lit(value).cast(f.schema[column].dataType))).count()
                for f in (whole, other)
            ]
            assert counts[0] == counts[1] > 0
