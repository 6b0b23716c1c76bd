"""The writes of a Delta sink that are native; they make the same tables as Spark's own writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable, write_deltalake

from changefeed.errors import SinkError
from changefeed.model.definition import Table
from changefeed.sinks.apply import step as files_step
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.base import WriteRequest, write_alone
from changefeed.sinks.delta.native import replay
from changefeed.sinks.delta.sink import DeltaTables
from changefeed.sinks.writes import METADATA_COLUMNS, Append, Create, Load, Touch, Upsert, WriteId
from changefeed.storage.local import LocalFolder
from tests.sinks.contract import Given, Row, table
from tests.sinks.delta_native.applying import read
from tests.sinks.delta_native.histories import all_types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS, LOG = table("*id int", "note varchar(20)"), table("at int", name="log")
ONE, TWO = {"id": 1, "note": "one"}, {"id": 2, "note": None}
PATH = "shop/orders"


@pytest.fixture
def sink(spark: SparkSession, tmp_path: Path) -> DeltaTables:
    return DeltaTables(str(tmp_path), (), spark, "changefeed:test:1")


def apply(sink: DeltaTables, kind: Any, number: int, *rows: Row, of: Any = ORDERS, **options: Any) -> None:
    write_id = WriteId(1, number, 1)
    write = kind(path=PATH, number=1, table=of, **options)
    write_alone(sink, WriteRequest(write, Given(of, rows) if rows else None, write_id, '{"n":1}'))


def writers(sink: DeltaTables) -> list[str]:
    """The writer of each commit: `delta-rs` or `Apache-Spark`."""
    names = []
    for file in sorted((Path(sink.location(PATH)) / "_delta_log").glob("*.json")):
        [info] = [
            action["commitInfo"]
            for line in file.read_text().splitlines()
            if "commitInfo" in (action := json.loads(line))
        ]
        assert info.get("userMetadata") == (None if info["operation"] == "SET TBLPROPERTIES" else '{"n":1}')
        names.append("Apache-Spark" if "Spark" in info.get("engineInfo", "") else "delta-rs")
    return names


def ids(sink: DeltaTables) -> list[int]:
    numbers: list[int] = read(sink.location(PATH), [ORDERS.keys[0]]).column(0).to_pylist()
    return sorted(numbers)


def test_rows_are_written_natively(sink: DeltaTables) -> None:
    apply(sink, Load, 1, ONE)
    apply(sink, Upsert, 2, TWO)
    apply(sink, Load, 3, TWO)
    assert (writers(sink), ids(sink)) == (["delta-rs"] * 3, [2])
    assert sink.fallback(PATH) is None


def test_appended_rows_are_written_natively(sink: DeltaTables) -> None:
    apply(sink, Create, 1, of=LOG)
    apply(sink, Append, 2, {"at": 1}, {"at": 1}, of=LOG)
    assert writers(sink) == ["delta-rs", "delta-rs"]
    assert read(sink.location(PATH)).column("at").to_pylist() == [1, 1]


def made_in_three_ways(
    spark: SparkSession, root: Path, table: Table, row: dict[str, Any], *, merges_on_read: bool = False
) -> Iterator[tuple[DeltaTables, str]]:
    """Three new tables: loaded natively, created natively without rows, and created by Spark without rows."""
    name = table.name
    for kind, native in (("load", True), ("create", True), ("create", False)):
        sink = DeltaTables(
            str(root), METADATA_COLUMNS, spark, "changefeed:test:1", native, merges_on_read=merges_on_read
        )
        path = f"{kind}_{native}/{name}"
        write = Load(path=path, number=1, table=table) if kind == "load" else Create(path=path, number=1, table=table)
        changes = Given(table, (row,)) if kind == "load" else None
        write_alone(sink, WriteRequest(write, changes, WriteId(1, 1, 1), "{}"))
        engine = DeltaTable(sink.location(path)).history()[0].get("engineInfo", "")
        assert engine.startswith("Apache-Spark") != native
        yield sink, path


def test_a_new_table_is_the_one_that_spark_makes(spark: SparkSession, tmp_path: Path) -> None:
    for name, of in (("types", all_types()), ("plain", ORDERS)):
        row = {**dict.fromkeys(c.name for c in of.columns), "id": 1}
        made_tables = []
        for sink, path in made_in_three_ways(spark, tmp_path / name, of, row):
            made = DeltaTable(sink.location(path))
            protocol = made.protocol()
            versions = (protocol.min_reader_version, protocol.min_writer_version, protocol.reader_features)
            made_tables.append((versions, json.loads(made.schema().to_json()), dict(made.metadata().configuration)))
            assert set(protocol.writer_features or ()) <= {"timestampNtz", "invariants", "appendOnly"}
        assert made_tables[0] == made_tables[1] == made_tables[2]


@pytest.mark.heavy
def test_a_new_table_with_vectors_is_the_one_that_spark_makes(spark: SparkSession, tmp_path: Path) -> None:
    for name, of in (("types", all_types()), ("plain", ORDERS), ("log", LOG)):
        row = {**dict.fromkeys(c.name for c in of.columns), "id": 1, "at": 1}
        made_tables = []
        for sink, path in made_in_three_ways(spark, tmp_path / name, of, row, merges_on_read=True):
            made = DeltaTable(sink.location(path))
            protocol, configuration = made.protocol(), dict(made.metadata().configuration)
            readers, writers = set(protocol.reader_features or ()), set(protocol.writer_features or ())
            versions = (protocol.min_reader_version, protocol.min_writer_version, readers)
            made_tables.append((versions, json.loads(made.schema().to_json()), configuration))
            assert ("deletionVectors" in readers, "deletionVectors" in writers) == (bool(of.keys), bool(of.keys))
            assert not of.keys or sink.write_mode(path) == "merge-on-read"
        assert made_tables[0] == made_tables[1] == made_tables[2]


@pytest.mark.heavy
@pytest.mark.parametrize("merges_on_read", [False, True])
def test_a_table_in_which_spark_has_marked_rows_is_written_natively(
    spark: SparkSession, tmp_path: Path, merges_on_read: bool
) -> None:
    """A file that is copied on write loses its vector; the rows that the vector marked are not in the copy."""
    own = DeltaTables(
        str(tmp_path), (), spark, "changefeed:test:1", merges_on_read=merges_on_read, limits=Limits(least_marked=0)
    )
    rows: list[Row] = [{"id": n, "note": "old"} for n in range(20)]
    apply(own, Load, 1, *rows)
    at = f"delta.`{own.location(PATH)}`"
    spark.sql(f"ALTER TABLE {at} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {at} WHERE id BETWEEN 3 AND 9")
    assert own.fallback(PATH) is None
    apply(own, Upsert, 2, {"id": 4, "note": "back"}, {"id": 15, "note": "new"})
    wanted = [{"id": n, "note": "old"} for n in range(20) if n not in (*range(3, 10), 15)]
    wanted += [{"id": 4, "note": "back"}, {"id": 15, "note": "new"}]
    for read_table in (spark.read.format("delta").load(own.location(PATH)).toArrow(), read(own.location(PATH))):
        assert sorted(read_table.to_pylist(), key=str) == sorted(wanted, key=str)
    assert bool(list(Path(own.location(PATH)).glob("deletion_vector_*.bin")))
    files = replay.state(LocalFolder(own.location(PATH))).files.values()
    assert any("deletionVector" in file for file in files) is merges_on_read


def test_a_file_of_vectors_that_is_gone_is_damage(spark: SparkSession, tmp_path: Path) -> None:
    own = DeltaTables(str(tmp_path), (), spark, "changefeed:test:1", merges_on_read=True)
    rows: list[Row] = [{"id": n, "note": "old"} for n in range(20)]
    apply(own, Load, 1, *rows)
    spark.sql(f"DELETE FROM delta.`{own.location(PATH)}` WHERE id = 3")
    assert own.damaged_files(PATH, 1) == []
    [file] = Path(own.location(PATH)).glob("deletion_vector_*.bin")
    file.unlink()
    assert own.damaged_files(PATH, 1) == [file.name]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "properties, why",
    [
        ({"delta.enableChangeDataFeed": "true"}, "table features changeDataFeed"),
        ({"delta.columnMapping.mode": "name"}, "table features columnMapping"),
    ],
)
def test_a_table_that_is_not_plain_is_written_by_spark(sink: DeltaTables, properties: dict[str, str], why: str) -> None:
    apply(sink, Load, 1, ONE)
    settings = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    sink.spark.sql(f"ALTER TABLE delta.`{sink.location(PATH)}` SET TBLPROPERTIES ({settings})")
    assert (sink.fallback(PATH) or "").startswith(why)
    apply(sink, Upsert, 2, TWO)
    assert writers(sink) == ["delta-rs", "Apache-Spark", "Apache-Spark"]
    assert sink.spark.read.format("delta").load(sink.location(PATH)).count() == 2


def test_more_rows_than_a_task_holds_are_written_by_spark(sink: DeltaTables, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(sink, Load, 1, ONE)
    monkeypatch.setattr(files_step, "_FEW_ROWS", 0)
    apply(sink, Upsert, 2, TWO)
    assert (writers(sink), ids(sink)) == (["delta-rs", "Apache-Spark"], [1, 2])


def test_properties_of_new_tables_are_left_to_spark(sink: DeltaTables) -> None:
    session = sink.spark.newSession()
    session.conf.set("spark.databricks.delta.properties.defaults.checkpointInterval", "2")
    own = DeltaTables(sink.root, (), session, sink.owner)
    apply(own, Load, 1, ONE)
    assert writers(own) == ["Apache-Spark"]
    assert DeltaTable(own.location(PATH)).metadata().configuration == {"delta.checkpointInterval": "2"}
    apply(own, Upsert, 2, TWO)
    apply(own, Upsert, 3, {"id": 3})
    assert writers(own) == ["Apache-Spark", "delta-rs", "delta-rs"]
    assert list((Path(own.location(PATH)) / "_delta_log").glob("*2.checkpoint.parquet"))


def test_another_column_stops_as_in_sql(sink: DeltaTables) -> None:
    apply(sink, Load, 1, ONE)
    with pytest.raises(SinkError, match="its columns are not those that this pipeline gave it"):
        apply(sink, Upsert, 2, {"id": 2, "more": 5}, of=table("*id int", "more int"))


def test_after_compaction_between_files_and_commit_the_files_are_written_again(sink: DeltaTables) -> None:
    apply(sink, Load, 1, ONE)
    apply(sink, Upsert, 2, TWO)
    three: Row = {"id": 3, "note": "three"}
    request = WriteRequest(
        Upsert(path=PATH, number=1, table=ORDERS), Given(ORDERS, (three,)), WriteId(1, 3, 1), '{"n":1}'
    )
    (prepared,) = sink.prepare([request])
    DeltaTable(sink.location(PATH)).optimize.compact()
    sink.apply(prepared)
    assert ids(sink) == [1, 2, 3]


def test_a_write_is_prepared_from_the_revision_that_was_looked_at(
    sink: DeltaTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(sink, Load, 1, ONE)
    seen, reads = sink.snapshot(PATH), list[str]()
    assert seen is not None
    real = replay.TableLog.read

    def read(log: replay.TableLog) -> Any:
        reads.append(log.folder.path)
        return real(log)

    monkeypatch.setattr(replay.TableLog, "read", read)
    request = WriteRequest(
        Upsert(path=PATH, number=1, table=ORDERS), Given(ORDERS, (TWO,)), WriteId(1, 2, 1), '{"n":1}', seen.revision
    )
    sink.apply(*sink.prepare([request]))
    assert reads == []
    assert ids(sink) == [1, 2]


def test_what_others_commit_after_the_table_was_looked_at_is_kept(sink: DeltaTables) -> None:
    """The second write names the revision before the first one, as an executor does."""
    apply(sink, Load, 1, ONE)
    seen = sink.snapshot(PATH)
    assert seen is not None
    write_deltalake(sink.location(PATH), read(sink.location(PATH)).slice(0, 0), mode="append")
    for number, row in ((1, TWO), (2, {"id": 3, "note": "three"})):
        write = Upsert(path=PATH, number=number, table=ORDERS)
        request = WriteRequest(write, Given(ORDERS, (row,)), WriteId(1, 2, number), '{"n":1}', seen.revision)
        sink.apply(*sink.prepare([request]))
    assert ids(sink) == [1, 2, 3]
    there = sink.snapshot(PATH)
    assert there is not None
    assert (there.revision, there.write_id) == (seen.revision + 3, WriteId(1, 2, 2))


def test_a_new_table_replaces_one_that_an_older_run_made_meanwhile(sink: DeltaTables) -> None:
    request = WriteRequest(Load(path=PATH, number=1, table=ORDERS), Given(ORDERS, (TWO,)), WriteId(2, 1, 1), '{"n":1}')
    (prepared,) = sink.prepare([request])
    apply(sink.owned_by(sink.owner), Load, 1, ONE)
    sink.apply(prepared)
    there = sink.snapshot(PATH)
    assert there is not None
    assert (ids(sink), there.revision, there.write_id) == ([2], 1, WriteId(2, 1, 1))


def test_without_spark_owners_are_read_from_a_checkpoint(sink: DeltaTables) -> None:
    apply(sink, Load, 1, ONE)
    other = sink.owned_by("changefeed:other:2")
    for number in range(2, 14):
        apply(other, Upsert, number, TWO)
    log = Path(sink.location(PATH)) / "_delta_log"
    assert (log / f"{10:020d}.checkpoint.parquet").exists()
    for version in range(10):
        (log / f"{version:020d}.json").unlink()
    there = sink.snapshot(PATH)
    assert there is not None
    assert (there.revision, there.owners) == (12, frozenset({"changefeed:test:1", "changefeed:other:2"}))
    assert there.write_id == WriteId(1, 1, 1)


def test_a_table_is_touched_without_spark(sink: DeltaTables) -> None:
    apply(sink, Load, 1, ONE)
    apply(sink, Touch, 2)
    apply(sink, Upsert, 3, TWO)
    assert (writers(sink), ids(sink)) == (["delta-rs"] * 3, [1, 2])
    assert [commit.changes_table for commit in sink.commits(PATH, -1, 2)] == [True, False, True]


def test_files_that_are_gone_or_cut_are_damaged(sink: DeltaTables) -> None:
    apply(sink, Load, 1, ONE)
    apply(sink, Load, 2, TWO)
    assert sink.damaged_files(PATH, 1) == []
    [file] = DeltaTable(sink.location(PATH)).file_uris()
    Path(file).write_bytes(b"PAR1")
    assert sink.damaged_files(PATH, 1) == [Path(file).name]
    assert sink.damaged_files(PATH, 0) == []
    Path(file).unlink()
    assert sink.damaged_files(PATH, 1) == [Path(file).name]


def test_files_prepared_by_one_pipeline_are_not_committed_by_another(sink: DeltaTables) -> None:
    apply(sink, Load, 1, ONE)
    sink.prepare(
        [WriteRequest(Upsert(path=PATH, number=1, table=ORDERS), Given(ORDERS, (TWO,)), WriteId(1, 2, 1), '{"n":1}')]
    )
    three: Row = {"id": 3, "note": "three"}
    apply(sink.owned_by("changefeed:other:2"), Upsert, 2, three)
    assert ids(sink) == [1, 3]
    there = sink.snapshot(PATH)
    assert there is not None
    assert there.write_id == WriteId(1, 1, 1)
