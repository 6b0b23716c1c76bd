"""Other programs write the tables, or look after them: rows are right, or the write names what is wrong."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import SetPropertiesUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import FloatType, IntegerType, NestedField, StringType

from changefeed.errors import SinkError
from changefeed.sinks.base import WriteRequest
from changefeed.sinks.iceberg.file_io import FolderIO
from changefeed.sinks.iceberg.sink import IcebergTables
from changefeed.sinks.writes import Load, Touch, Upsert, WriteId
from tests.sinks.contract import Given, Row
from tests.sinks.iceberg.tables import ORDERS, PATH, Tables

ONE: Row = {"id": 1, "note": "one"}
TWO: Row = {"id": 2, "note": "two"}
FOREIGN = pa.table({"id": pa.array([9], pa.int32()), "note": ["nine"]})
NINE: Row = {"id": 9, "note": "nine"}


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    (tmp_path / "lake").mkdir()
    return Tables(tmp_path / "lake")


def versions(tables: Tables) -> list[int]:
    """The snapshots, the oldest first."""
    with tables.opened() as table:
        return [snapshot.snapshot_id for snapshot in table.snapshots()]


def newest(sink: IcebergTables) -> int:
    there = sink.snapshot(PATH)
    assert there is not None
    return there.revision


def test_rows_that_others_append_are_seen_as_a_change_and_merged(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ONE)
    with tables.opened() as table:
        table.append(FOREIGN)
    [commit] = sink.commits(PATH, versions(tables)[0], newest(sink))
    assert (commit.operation, commit.write_id, commit.changes_table) == ("append", None, True)
    tables.write(sink, Upsert, TWO, {**NINE, "note": "new"})
    assert tables.rows() == [ONE, TWO, {**NINE, "note": "new"}]


def test_files_without_field_ids_are_read_by_name(tables: Tables, tmp_path: Path) -> None:
    """`add_files` keeps a mapping of names beside the table's columns."""
    sink = tables.sink()
    tables.write(sink, Load, ONE)
    file = tables.root / PATH / "data" / "foreign.parquet"
    pa.parquet.write_table(FOREIGN, file)
    with tables.opened() as table:
        table.add_files([f"file://{file}"])
    tables.write(sink, Upsert, {**NINE, "note": "new"}, {**ONE, "note": "newer"})
    assert tables.rows() == [{**ONE, "note": "newer"}, {**NINE, "note": "new"}]


def test_a_write_is_made_again_if_somebody_commits_between_its_files_and_its_commit(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ONE)
    request = WriteRequest(
        Upsert(path=PATH, number=1, table=ORDERS), Given(ORDERS, ({**ONE, "note": "new"},)), WriteId(1, 2, 1), "{}"
    )
    (prepared,) = sink.prepare([request])
    with tables.opened() as table:
        table.append(FOREIGN)
    sink.apply(prepared)
    assert tables.rows() == [{**ONE, "note": "new"}, NINE]


def test_a_rollback_is_detected_and_the_write_id_stays(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ONE)
    tables.write(sink, Upsert, TWO)
    first, second = versions(tables)
    with tables.opened() as table:
        table.manage_snapshots().set_current_snapshot(snapshot_id=first).commit()
    there = sink.snapshot(PATH)
    assert there is not None
    assert (there.revision, there.write_id) == (first, WriteId(1, 2, 1))
    assert (sink.is_newest(PATH, second), sink.distance(PATH, second, first)) == (False, None)
    with pytest.raises(SinkError, match=f"snapshot {second} did not lead to {first}: the table was rolled back"):
        list(sink.commits(PATH, second, first))
    with tables.opened() as table:
        table.append(FOREIGN)
    assert sink.distance(PATH, second, newest(sink)) is None


def test_write_ids_survive_the_expiry_of_snapshots(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ONE)
    tables.write(sink, Upsert, TWO)
    first, second = versions(tables)
    with tables.opened() as table:
        table.append(FOREIGN)
        table.maintenance.expire_snapshots().by_id(first).by_id(second).commit()  # forgets the parents of others, too
    there = sink.snapshot(PATH)
    assert there is not None
    assert (there.write_id, there.owners) == (WriteId(1, 2, 1), frozenset({"changefeed:test:1"}))
    assert sink.distance(PATH, second, there.revision) is None
    for version in (first, second):
        with pytest.raises(
            SinkError, match=f"snapshot {version} is not in the table's metadata. If it was expired, and"
        ):
            list(sink.commits(PATH, version, there.revision))
    with pytest.raises(SinkError, match=f"snapshot {first} is not in the table's metadata: it was expired"):
        sink.damaged_files(PATH, first)
    tables.write(sink, Upsert, {**ONE, "note": "new"})
    assert tables.rows() == [{**ONE, "note": "new"}, TWO, NINE]


def test_columns_of_others_stop_the_next_write(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ONE)
    with tables.opened() as table, table.update_schema() as update:
        update.add_column("extra", IntegerType())
    with pytest.raises(
        SinkError, match=r"its columns are not those that this pipeline gave it: extra \(int32, not None\)"
    ):
        tables.write(sink, Upsert, TWO)


def create_theirs(tables: Tables, schema: Schema, spec: PartitionSpec, **properties: str) -> None:
    """Makes the table as another program would."""
    catalog = load_catalog("test", type="sql", uri=tables.uri)
    catalog.create_table(
        ("shop", "orders"), schema, location=f"file://{tables.root}/{PATH}", partition_spec=spec, properties=properties
    )
    catalog.close()


def test_a_table_with_partitions_of_others_is_taken_over(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ONE, path="shop/other")
    schema = Schema(
        NestedField(1, "id", IntegerType(), required=False), NestedField(2, "note", StringType(), required=False)
    )
    create_theirs(tables, schema, PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "note")))
    there = sink.snapshot(PATH)
    assert there is not None
    assert (there.revision, there.write_id, sink.has_written(PATH)) == (0, None, False)
    tables.write(sink, Touch)
    tables.write(sink, Upsert, ONE, TWO)
    with tables.opened() as table:
        assert len(list(table.scan(row_filter="note = 'two'").plan_files())) == 1
    assert tables.rows() == [ONE, TWO]


def test_what_changefeed_does_not_write_is_refused_by_name(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ONE, path="shop/other")
    schema = Schema(
        NestedField(1, "id", IntegerType(), required=False), NestedField(2, "note", FloatType(), required=False)
    )
    create_theirs(tables, schema, PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "note")))
    for kind, rows in ((Touch, ()), (Upsert, (ONE,))):
        with pytest.raises(SinkError, match="partition field note: identity of float, which changefeed does not write"):
            tables.write(sink, kind, *rows)
    sink.delete(PATH)
    create_theirs(tables, schema, PartitionSpec(), **{"format-version": "1"})
    with pytest.raises(SinkError, match="format version 1, which changefeed does not write"):
        tables.write(sink, Touch)


def test_tables_of_others_in_the_same_catalog_are_left_alone(tables: Tables, tmp_path: Path) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ONE)
    catalog = load_catalog("test", type="sql", uri=tables.uri)
    catalog.create_table(("shop", "theirs"), FOREIGN.schema, location=f"file://{tmp_path}/theirs")
    catalog.create_table(("shop", "moved"), FOREIGN.schema, location=f"file://{tables.root}/moved").append(FOREIGN)
    catalog.close()
    assert sorted(sink.tables()) == ["shop/moved", "shop/orders"]
    with pytest.raises(
        SinkError, match=r"theirs/metadata/.* is outside of .* Give the pipeline another sink.namespace"
    ):
        sink.snapshot("shop/theirs")
    moved = sink.snapshot("shop/moved")
    assert moved is not None
    assert sink.damaged_files("shop/moved", moved.revision) == []


def test_an_empty_table_of_others_is_taken_over(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ONE, path="shop/other")
    schema = Schema(
        NestedField(1, "id", IntegerType(), required=False), NestedField(2, "note", StringType(), required=False)
    )
    catalog = load_catalog("test", type="sql", uri=tables.uri)
    catalog.create_table(("shop", "orders"), schema, location=f"file://{tables.root}/{PATH}")
    catalog.close()
    assert sink.differences(PATH, ORDERS) == []
    tables.write(sink, Touch)
    tables.write(sink, Upsert, ONE)
    assert tables.rows() == [ONE]
    assert sink.distance(PATH, 0, newest(sink)) == 2


def test_manifests_stay_few(tables: Tables) -> None:
    """The files of many writes are in one manifest, and those that were removed are in none but that of their commit."""
    sink = tables.sink()
    tables.write(sink, Load, *({"id": n, "note": "x"} for n in range(3)))
    for number in range(12):
        tables.write(sink, Upsert, {"id": number, "note": f"at {number}"})
    tables.write(sink, Touch)
    with tables.opened() as table:
        snapshot = table.current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        [manifest] = snapshot.manifests(table.io)
        assert len(manifest.fetch_manifest_entry(table.io)) == len(tables.files())
        assert snapshot.summary["total-records"] == "12"
        assert snapshot.summary["total-data-files"] == str(len(tables.files()))
        assert snapshot.summary.operation is Operation.APPEND
        assert snapshot.sequence_number == 14


def test_properties_of_a_table_do_not_choose_how_its_files_are_read(tables: Tables) -> None:
    """Otherwise, a user who may write the table could name a class that this process imports."""
    sink = tables.sink()
    tables.write(sink, Load, ONE)
    opened = sink.open(PATH)
    assert opened is not None
    harm = SetPropertiesUpdate(updates={"py-io-impl": "nowhere.Class", "s3.endpoint": "http://127.0.0.1:1"})
    sink.catalog.commit(opened.table, [], [harm])  # PyIceberg itself cannot open the table from now on
    for written in (sink, tables.sink()):
        tables.write(written, Upsert, TWO)
        opened = written.open(PATH)
        assert opened is not None
        assert isinstance(opened.table.io, FolderIO)
