"""Tables of format version 3: row ids, their upgrade from version 2, and what of the version is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import FileFormat, ManifestContent
from pyiceberg.table.metadata import TableMetadataV3

from changefeed.sinks.apply.compaction import CompactionRules
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.iceberg.manifest_files import first_row_id
from changefeed.sinks.iceberg.options import TableOptions
from changefeed.sinks.iceberg.version_3 import UpgradeTo3
from changefeed.sinks.writes import AddColumns, Constant, ConvertedFrom, Create, Load, Rewrite, Touch, Upsert
from tests.sinks.contract import Row, table
from tests.sinks.iceberg.tables import PATH, Tables


@pytest.fixture(params=[False, True], ids=["copy-on-write", "merge-on-read"])
def tables(tmp_path: Path, request: pytest.FixtureRequest) -> Tables:
    (tmp_path / "lake").mkdir()
    options = TableOptions(format_version=3, merges_on_read=request.param)
    return Tables(tmp_path / "lake", options=options, limits=Limits(least_marked=0))


def order(number: int, note: str = "old") -> Row:
    return {"id": number, "note": note}


def orders(*numbers: int) -> list[Row]:
    return [order(number) for number in numbers]


def row_ids(tables: Tables) -> dict[int, tuple[int, int]]:
    """Column `id` -> row id and number of the snapshot of the last change, as the specification has readers find them."""
    opened = tables.sink()._existing(PATH)
    ids = dict[int, tuple[int, int]]()
    for entry in opened.entries():
        file, deletes = entry.data_file, opened.deletes.deletes_of(entry)
        gone = set() if deletes is None else set(opened.layout.deleted(deletes.to_text()).tolist())
        first = first_row_id(file)
        assert first is not None
        assert entry.sequence_number is not None
        for place, row in enumerate(pq.read_table(file.file_path.removeprefix("file://")).to_pylist()):
            if place not in gone:
                assert row["id"] not in ids
                number, updated = row.get("_row_id"), row.get("_last_updated_sequence_number")
                ids[row["id"]] = (
                    first + place if number is None else number,
                    entry.sequence_number if updated is None else updated,
                )
    assert len({number for number, _ in ids.values()}) == len(ids)
    return ids


def metadata(tables: Tables) -> TableMetadataV3:
    with tables.opened() as opened:
        assert isinstance(opened.metadata, TableMetadataV3)
        return opened.metadata


def test_a_row_has_one_id_for_life(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, *orders(*range(6)))
    wanted = {number: (number, 1) for number in range(6)}
    assert row_ids(tables) == wanted
    tables.write(sink, Upsert, order(2, "new"), order(9))
    ids = row_ids(tables)
    assert ids[9][1] == 2
    assert ids == wanted | {2: (2, 2), 9: ids[9]}
    tables.write(sink, Touch)
    tables.write(sink, Upsert, order(2, "newer"), order(4, "new"), deleted=orders(5))
    del wanted[5]
    assert row_ids(tables) == wanted | {2: (2, 4), 4: (4, 4), 9: ids[9]}


def test_ids_are_given_out_once(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, *orders(*range(6)))
    tables.write(sink, Upsert, deleted=orders(5))
    tables.write(sink, Upsert, order(5, "again"))
    tables.write(sink, Upsert, order(0, "new"))
    assert row_ids(tables)[5][0] >= 6
    known = metadata(tables)
    assert known.next_row_id is not None
    assert known.next_row_id > max(number for number, _ in row_ids(tables).values())
    ends = [((of.first_row_id or 0), (of.first_row_id or 0) + (of.added_rows or 0)) for of in known.snapshots]
    assert [start for start, _ in ends] == [0, *(end for _, end in ends[:-1])]
    assert known.next_row_id == ends[-1][1]


def test_compaction_and_rewritten_rows_keep_ids(tables: Tables) -> None:
    tables.options = replace(tables.options, compaction=CompactionRules(share=0.1, many=2, every=1))
    sink = tables.sink()
    tables.write(sink, Load, *orders(*range(6)))
    tables.write(sink, Upsert, order(1, "new"), deleted=orders(3))
    tables.write(sink, Upsert, order(9))
    before = row_ids(tables)
    assert {number: before[number] for number in (0, 1, 2)} == {0: (0, 1), 1: (1, 2), 2: (2, 1)}
    after = table("*id int", "note varchar(20)", "size int")
    tables.write(sink, AddColumns, of=after)
    kinds = {column.name: column.type for column in after.columns}
    values = (ConvertedFrom("id", kinds["id"]), ConvertedFrom("note", kinds["note"]), Constant("7"))
    tables.write(sink, Rewrite, of=after, expressions=values)
    assert {row["size"] for row in tables.rows()} == {7}
    assert row_ids(tables) == before


def test_a_table_of_version_2_is_upgraded_by_others(tmp_path: Path) -> None:
    """Rows get ids with the next snapshot, and position deletes become a part of the first deletion vector."""
    (tmp_path / "lake").mkdir()
    tables = Tables(tmp_path / "lake", options=TableOptions(merges_on_read=True), limits=Limits(least_marked=0))
    sink = tables.sink()
    tables.write(sink, Load, *orders(*range(6)))
    tables.write(sink, Upsert, order(1, "new"), deleted=orders(3))
    opened = sink._existing(PATH)
    sink.catalog.commit(opened.table, [], [UpgradeTo3(format_version=3)])  # type: ignore[call-arg]
    wanted = [order(0), order(1, "new"), *orders(2, 4, 5)]
    assert tables.rows() == wanted
    tables.write(sink, Upsert, order(1, "newer"), order(2, "new"))
    assert tables.rows() == [order(0), order(1, "newer"), order(2, "new"), *orders(4, 5)]
    opened = sink._existing(PATH)
    assert {entry.data_file.file_format for entry in opened.delete_entries()} == {FileFormat.PUFFIN}
    assert len(row_ids(tables)) == 5
    assert [m.content for m in opened.manifests()].count(ManifestContent.DELETES) == 1
    ids = row_ids(tables)
    tables.write(sink, Upsert, order(4, "new"))
    assert {number: of[0] for number, of in row_ids(tables).items()} == {number: of[0] for number, of in ids.items()}


def test_a_new_table_in_place_of_another_keeps_the_version(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, order(1))
    tables.options = TableOptions()
    tables.write(tables.sink(), Create)
    tables.write(tables.sink(), Upsert, order(2))
    assert tables.rows() == [order(2)]
    assert row_ids(tables) == {2: (row_ids(tables)[2][0], 3)}
    assert row_ids(tables)[2][0] >= 1


def test_columns_with_names_of_row_ids_are_refused(tables: Tables) -> None:
    assert tables.sink().refusal(table("*id int", "_ROW_ID int")) == (
        "column _row_id has the name of a column of format version 3. Set sink.format-version to 2"
    )
    tables.options = TableOptions()
    assert tables.sink().refusal(table("*id int", "_ROW_ID int")) is None


def test_types_of_version_3_are_refused_by_name(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, order(1))
    opened = sink._existing(PATH)
    text = opened.metadata.schema().model_dump_json().replace('"string"', '"timestamp_ns"')
    schema = type(opened.schema).model_validate_json(text)
    strange = opened.table.metadata.model_copy(update={"schemas": [schema]})
    opened.table.metadata = strange
    assert opened.refused() == "the type of column note"
