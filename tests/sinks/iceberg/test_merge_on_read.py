"""Merge on read: position deletes in format version 2, deletion vectors in version 3; deletes of other programs; compaction."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntry
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record

from changefeed.errors import SinkError
from changefeed.sinks.apply import bitmaps
from changefeed.sinks.apply.compaction import CompactionRules
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.iceberg.commit import _snapshot_updates
from changefeed.sinks.iceberg.delete_files import Deletes, VectorPlace, deleted_rows, position_deletes, puffin
from changefeed.sinks.iceberg.deletes import data_file_of, refusal
from changefeed.sinks.iceberg.manifest_files import read_list, read_manifest, referenced_data_file
from changefeed.sinks.iceberg.manifests import NewSnapshot, _Counts, _Writing
from changefeed.sinks.iceberg.opened import Opened
from changefeed.sinks.iceberg.options import TableOptions
from changefeed.sinks.iceberg.partition_fields import parsed
from changefeed.sinks.iceberg.sink import IcebergTables
from changefeed.sinks.writes import Copy, Create, Load, Restore, Touch, Upsert
from changefeed.storage.local import LocalFolder
from tests.sinks.contract import Row
from tests.sinks.iceberg.tables import PATH, Tables


@pytest.fixture(params=[2, 3])
def tables(tmp_path: Path, request: pytest.FixtureRequest) -> Tables:
    (tmp_path / "lake").mkdir()
    options = TableOptions(format_version=request.param, merges_on_read=True)
    return Tables(tmp_path / "lake", options=options, limits=Limits(least_marked=0))


def order(number: int, note: str | None = "old") -> Row:
    return {"id": number, "note": note}


def orders(*numbers: int) -> list[Row]:
    return [order(number) for number in numbers]


def entries(tables: Tables, content: ManifestContent) -> list[ManifestEntry]:
    """The live entries of the newest snapshot."""
    with tables.opened() as table:
        snapshot = table.current_snapshot()
        assert snapshot is not None
        manifests = [one for one in read_list(table.io, snapshot.manifest_list) if one.content == content]
        return [entry for manifest in manifests for entry in read_manifest(table.io, manifest)]


def deletes(tables: Tables) -> list[tuple[FileFormat, int]]:
    """Format and number of rows of each delete file."""
    files = [entry.data_file for entry in entries(tables, ManifestContent.DELETES)]
    assert all(file.content == DataFileContent.POSITION_DELETES for file in files)
    return sorted((file.file_format, file.record_count) for file in files)


def kind(tables: Tables) -> FileFormat:
    return FileFormat.PUFFIN if tables.options.format_version == 3 else FileFormat.PARQUET


def test_old_rows_are_marked_and_their_file_stays(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, *orders(*range(10)))
    [before] = tables.files()
    tables.write(sink, Upsert, order(3, "new"), order(77, "new"), deleted=(order(4),))
    assert before in tables.files()
    assert tables.rows() == [*orders(0, 1, 2), order(3, "new"), *orders(5, 6, 7), order(77, "new"), *orders(8, 9)]
    assert deletes(tables) == [(kind(tables), 2)]
    [entry] = entries(tables, ManifestContent.DELETES)
    assert data_file_of(entry.data_file) == before
    if tables.options.format_version == 3:
        assert referenced_data_file(entry.data_file) == before


def test_a_file_has_one_delete_file_however_often_its_rows_change(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, *orders(*range(10)))
    for number in (3, 3, 5, 9):
        tables.write(sink, Upsert, order(number, f"at {number}"))
    changed = {number: order(number, f"at {number}") for number in (3, 5, 9)}
    assert tables.rows() == [changed.get(number, order(number)) for number in range(10)]
    assert deletes(tables) == [(kind(tables), 3)]  # the file of 3's first change has no row left, and is gone
    with tables.opened() as table:
        snapshot = table.current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        assert (snapshot.summary["total-position-deletes"], snapshot.summary["total-delete-files"]) == ("3", "1")
        assert snapshot.summary["total-records"] == "13"
        assert snapshot.summary.operation is Operation.OVERWRITE


def test_a_delete_file_goes_with_its_data_file(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, *orders(*range(4)))
    tables.write(sink, Upsert, order(3, "new"))
    tables.write(sink, Upsert, deleted=orders(0, 1, 2))
    assert (tables.rows(), deletes(tables)) == ([order(3, "new")], [])
    tables.write(sink, Upsert, *orders(5, 6))
    tables.write(sink, Upsert, deleted=orders(6))
    assert len(deletes(tables)) == 1
    tables.write(sink, Create)
    assert (tables.rows(), deletes(tables)) == ([], [])


def test_deletes_alone_are_such_a_snapshot(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, *orders(1, 2))
    tables.write(sink, Upsert, deleted=orders(2))
    tables.write(sink, Touch)
    with tables.opened() as table:
        kinds = [snapshot.summary.operation for snapshot in table.snapshots() if snapshot.summary is not None]
    assert kinds == [Operation.APPEND, Operation.DELETE, Operation.APPEND]
    assert tables.rows() == orders(1)


def test_a_pipeline_that_copies_on_write_honours_delete_files(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, *orders(*range(6)))
    tables.write(sink, Upsert, deleted=orders(1, 2))
    tables.options = TableOptions()
    tables.write(tables.sink(), Upsert, order(2, "again"), order(3, "new"))
    assert tables.rows() == [order(0), order(2, "again"), order(3, "new"), *orders(4, 5)]
    assert deletes(tables) == []


def test_restore_brings_delete_files_back(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, *orders(*range(4)))
    tables.write(sink, Upsert, deleted=orders(1))
    there = sink.snapshot(PATH)
    assert there is not None
    tables.write(sink, Upsert, deleted=orders(2))
    tables.write(sink, Restore, revision=there.revision)
    assert (tables.rows(), deletes(tables)) == (orders(0, 2, 3), [(kind(tables), 1)])
    tables.write(sink, Upsert, order(3, "new"))
    assert tables.rows() == [order(0), order(2), order(3, "new")]


def test_small_files_are_written_again(tables: Tables) -> None:
    tables.limits = Limits()
    sink = tables.sink()
    tables.write(sink, Load, *orders(1, 2))
    tables.write(sink, Upsert, order(2, "new"))
    assert (tables.rows(), deletes(tables)) == ([order(1), order(2, "new")], [])


def test_a_missing_delete_file_is_named(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, *orders(*range(4)))
    tables.write(sink, Upsert, deleted=orders(1))
    there = sink.snapshot(PATH)
    assert there is not None
    [entry] = entries(tables, ManifestContent.DELETES)
    Path(entry.data_file.file_path.removeprefix("file://")).unlink()
    [name] = sink.damaged_files(PATH, there.revision)
    assert name.endswith("deletes.parquet" if tables.options.format_version == 2 else "deletes.puffin")
    with pytest.raises(SinkError, match=f"{name}: a .* of the table cannot be read"):
        tables.write(sink, Upsert, order(2, "new"))


def test_files_with_many_deleted_rows_are_compacted(tables: Tables) -> None:
    rules = CompactionRules(share=0.5, many=100, every=1)
    tables.options = TableOptions(
        lambda name: (parsed("truncate(100, id)"),), tables.options.format_version, True, rules
    )
    sink = tables.sink()
    tables.write(sink, Load, *orders(*range(4), *range(100, 104)))
    tables.write(sink, Upsert, deleted=orders(1, 101))
    assert len(deletes(tables)) == 2
    tables.write(sink, Upsert, deleted=orders(2))
    assert (tables.rows(), len(deletes(tables))) == (sorted(orders(0, 3, 100, 102, 103), key=repr), 1)
    newest = sink.snapshot(PATH)
    assert newest is not None
    first, second, *_ = sink.commits(PATH, -1, newest.revision)
    assert (first.operation, first.changes_table, first.write_id) == ("replace", False, None)
    assert (second.operation, second.write_id) == ("Upsert", newest.write_id)
    tables.write(sink, Upsert, order(3, "new"), order(103, "new"))
    assert tables.rows() == sorted([*orders(0, 100, 102), order(3, "new"), order(103, "new")], key=repr)


def test_small_files_of_a_partition_are_compacted_together(tables: Tables) -> None:
    rules = CompactionRules(many=3, every=1)
    tables.options = TableOptions(
        lambda name: (parsed("truncate(100, id)"),), tables.options.format_version, True, rules
    )
    sink = tables.sink()
    tables.write(sink, Load, *orders(1, 101))
    tables.write(sink, Upsert, *orders(2, 102))
    assert len(tables.files()) == 4
    tables.write(sink, Upsert, *orders(3))
    assert len(tables.files()) == 3
    assert tables.rows() == sorted(orders(1, 2, 3, 101, 102), key=repr)


def test_position_deletes_of_a_partition_belong_to_all_of_its_files(tmp_path: Path) -> None:
    """Such files are of other programs: one file for several data files, named by no bound."""
    root = "file:///lake/shop/orders"
    folder = LocalFolder(str(tmp_path))
    table = pa.table({"file_path": [f"{root}/a", f"{root}/b", f"{root}/b"], "pos": pa.array([7, 1, 5], pa.int64())})
    pq.write_table(table, tmp_path / "both.parquet")
    (tmp_path / "b.parquet").write_bytes(position_deletes(f"{root}/b", pa.array([3, 5]).to_numpy()))
    names = ("both.parquet", "b.parquet")
    rows = {name: deleted_rows(folder, Deletes(f"{root}/{name}", positions=names).to_text()).tolist() for name in "abc"}
    assert rows == {"a": [7], "b": [1, 3, 5], "c": []}


def delete_by_equality(tables: Tables, number: int) -> None:
    """Deletes a row by its key, as Flink does: in all partitions, by a file of the spec without any."""
    sink = tables.sink()
    opened = sink.open(PATH)
    assert opened is not None
    name = f"data/{number}-equality.parquet"
    schema = pa.schema([pa.field("id", pa.int32(), metadata={"PARQUET:field_id": "1"})])
    pq.write_table(pa.table([pa.array([number], pa.int32())], schema), tables.root / PATH / name)
    deletes = DataFile.from_args(
        3, content=DataFileContent.EQUALITY_DELETES, file_path=f"{opened.location}/{name}", equality_ids=[1],
        file_format=FileFormat.PARQUET, partition=Record(), record_count=1, file_size_in_bytes=1,
    )  # fmt: skip
    deletes.spec_id = 0
    writer = _Writing(_snapshot_after(sink, opened), _Counts(), [*opened.manifests()])
    writer.add(deletes, ManifestContent.DELETES)
    made = writer.snapshot.written(writer.manifests(), Operation.OVERWRITE, writer.counts, opened.snapshot, 0, {})
    sink.catalog.commit(opened.table, [], _snapshot_updates(made))


def _snapshot_after(sink: IcebergTables, opened: Opened) -> NewSnapshot:
    metadata = opened.metadata
    return NewSnapshot(
        sink.catalog, opened.table, opened.schema, metadata.new_snapshot_id(), metadata.next_sequence_number(),
        opened.version_of_format,
    )  # fmt: skip


def test_compaction_leaves_a_table_alone_to_which_others_have_added_equality_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Files that are written again are newer than the deletes: the deleted rows would be back."""
    (tmp_path / "lake").mkdir()
    tables = Tables(tmp_path / "lake", options=TableOptions(merges_on_read=True), limits=Limits(least_marked=0))
    sink = tables.sink()
    tables.write(sink, Load, *orders(*range(4)))
    with tables.opened() as table, table.update_spec() as update:
        update.add_identity("note")
    for number in range(4):
        tables.write(sink, Upsert, order(number, "new"))
    rules = CompactionRules(many=2, every=1)
    tables.options = TableOptions(merges_on_read=True, compaction=rules)
    compact = IcebergTables._compact

    def compact_after_deletes(sink: IcebergTables, path: str) -> None:
        delete_by_equality(tables, 2)
        compact(sink, path)

    monkeypatch.setattr(IcebergTables, "_compact", compact_after_deletes)
    tables.write(tables.sink(), Upsert, order(9, "new"))
    with tables.opened() as table:
        newest = table.current_snapshot()
        assert newest is not None
        assert newest.summary is not None
        assert newest.summary.operation is Operation.OVERWRITE
    assert "equality deletes, which changefeed does not write" in caplog.text


def test_a_table_with_equality_deletes_is_not_copied(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, *orders(1, 2))
    delete_by_equality(tables, 2)
    with pytest.raises(SinkError, match="equality deletes, which changefeed does not write"):
        tables.write(sink, Copy, path="shop/copy", source=PATH)


@pytest.mark.parametrize("damage", [{4: 0}, {-20: 0xFF}, {12: 0x7F}])
def test_a_damaged_vector_is_named(tmp_path: Path, damage: dict[int, int]) -> None:
    folder, vector = LocalFolder(str(tmp_path)), bitmaps.encoded(pa.array([1, 2**33]).to_numpy())
    content, [(offset, size)] = puffin([("file:///a", vector, 2)])
    place = VectorPlace("v.puffin", offset, size, 2)
    folder.put("v.puffin", content)
    assert deleted_rows(folder, Deletes("file:///a", place).to_text()).tolist() == [1, 2**33]
    blob = bytearray(content)
    for at, byte in damage.items():
        blob[offset + at % size] ^= byte or 0xFF
    folder.put("v.puffin", bytes(blob))
    with pytest.raises(SinkError, match=r"v\.puffin: a deletion vector of the table cannot be read: "):
        deleted_rows(folder, Deletes("file:///a", place).to_text())


@pytest.mark.parametrize(
    "content, file_format, wanted",
    [
        (DataFileContent.EQUALITY_DELETES, FileFormat.PARQUET, "equality deletes"),
        (DataFileContent.POSITION_DELETES, FileFormat.ORC, "delete files in ORC"),
        (DataFileContent.POSITION_DELETES, FileFormat.PARQUET, None),
        (DataFileContent.POSITION_DELETES, FileFormat.PUFFIN, None),
    ],
)
def test_delete_files_that_are_not_read_are_named(
    content: DataFileContent, file_format: FileFormat, wanted: str | None
) -> None:
    assert refusal(DataFile.from_args(3, content=content, file_format=file_format)) == wanted
