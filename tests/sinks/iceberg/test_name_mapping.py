"""Files without field ids, which other programs add to a table: their columns are found by a mapping of names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from changefeed.errors import SinkError
from changefeed.sinks.writes import AddColumns, Create, Load, Restore, Rewrite, Upsert
from tests.sinks.contract import Row, table
from tests.sinks.iceberg.tables import ORDERS, PATH, Tables, kept

ONE: Row = {"id": 1, "note": "one"}
REMARKS = table("*id int", "remark varchar(20)")
KEPT = (kept("id"), kept("note"))


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """A table with a file of its own and one of others, without field ids."""
    (tmp_path / "lake").mkdir()
    made = Tables(tmp_path / "lake")
    made.write(made.sink(), Load, ONE)
    file = made.root / PATH / "data" / "theirs.parquet"
    pq.write_table(pa.table({"id": pa.array([9, 10], pa.int32()), "note": ["nine", "ten"]}), file)
    with made.opened() as opened:
        opened.add_files([f"file://{file}"])
    return made


def values(tables: Tables, column: str) -> dict[int, object]:
    """The values of a column by `id`."""
    return {row["id"]: row[column] for row in tables.rows()}


def test_a_renamed_column_keeps_its_values(tables: Tables) -> None:
    sink, ids = tables.sink(), tables.ids()
    tables.write(sink, Rewrite, of=REMARKS, expressions=KEPT)
    assert values(tables, "remark") == {1: "one", 9: "nine", 10: "ten"}
    assert tables.ids() == {"id": ids["id"], "remark": ids["note"]}
    tables.write(tables.sink(), Upsert, {"id": 10, "remark": "new"}, of=REMARKS)
    assert values(tables, "remark") == {1: "one", 9: "nine", 10: "new"}


def test_a_column_that_is_dropped_and_added_again_has_no_old_values(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Rewrite, of=table("*id int"), expressions=KEPT[:1])
    tables.write(sink, AddColumns, of=ORDERS)
    tables.write(sink, Upsert, {"id": 10, "note": "new"})
    assert values(tables, "note") == {1: None, 9: None, 10: "new"}


def test_a_widened_column_keeps_its_values(tables: Tables) -> None:
    wide = table("*id bigint", "note varchar(20)", "more int")
    tables.write(tables.sink(), Rewrite, of=table("*id bigint", "note varchar(20)"), expressions=KEPT)
    tables.write(tables.sink(), AddColumns, of=wide)
    tables.write(tables.sink(), Upsert, {"id": 10, "note": "new", "more": 1}, of=wide)
    assert values(tables, "note") == {1: "one", 9: "nine", 10: "new"}
    assert values(tables, "more") == {1: None, 9: None, 10: 1}


def test_the_mapping_follows_the_columns(tables: Tables) -> None:
    """Files that others add later are read by the new names, and an old snapshot by the old ones."""
    sink = tables.sink()
    there = sink.snapshot(PATH)
    assert there is not None
    tables.write(sink, Rewrite, of=REMARKS, expressions=KEPT)
    file = tables.root / PATH / "data" / "later.parquet"
    pq.write_table(pa.table({"id": pa.array([11], pa.int32()), "remark": ["later"]}), file)
    with tables.opened() as opened:
        old = opened.scan(snapshot_id=there.revision).to_arrow().to_pylist()
        opened.add_files([f"file://{file}"])
    assert {row["id"]: row["note"] for row in old} == {1: "one", 9: "nine", 10: "ten"}
    assert values(tables, "remark") == {1: "one", 9: "nine", 10: "ten", 11: "later"}
    tables.write(tables.sink(), Upsert, {"id": 11, "remark": "new"}, {"id": 9, "remark": "new"}, of=REMARKS)
    assert values(tables, "remark") == {1: "one", 9: "new", 10: "ten", 11: "new"}


def test_old_snapshots_keep_their_values_when_the_table_is_made_again(tables: Tables) -> None:
    sink = tables.sink()
    there = sink.snapshot(PATH)
    assert there is not None
    more = table("*id int", "note varchar(20)", "place point", "more int")
    tables.write(sink, Create, of=more)
    tables.write(
        sink, Load, {"id": 1, "note": "one", "place": None, "more": 1}, of=table("*id bigint", "note varchar(20)")
    )
    with tables.opened() as opened:
        old = opened.scan(snapshot_id=there.revision).to_arrow().to_pylist()
    assert {row["id"]: row["note"] for row in old} == {1: "one", 9: "nine", 10: "ten"}
    assert tables.rows() == [{"id": 1, "note": "one"}]


def test_the_mapping_returns_with_the_columns(tables: Tables) -> None:
    """A table that is made again, and one that is set back to an older snapshot."""
    sink = tables.sink()
    there = sink.snapshot(PATH)
    assert there is not None
    tables.write(sink, Create, of=REMARKS)
    tables.write(sink, Restore, revision=there.revision)
    assert values(tables, "note") == {1: "one", 9: "nine", 10: "ten"}
    tables.write(tables.sink(), Upsert, {"id": 10, "note": "new"})
    assert values(tables, "note") == {1: "one", 9: "nine", 10: "new"}


def test_a_column_that_others_renamed_is_not_read_by_its_new_name(tables: Tables) -> None:
    """The rows would lose its values."""
    with tables.opened() as opened, opened.update_schema() as update:
        update.rename_column("note", "remark")
    assert values(tables, "remark") == {1: "one", 9: "nine", 10: "ten"}
    with pytest.raises(
        SinkError, match=r"theirs.parquet: the file has no field ids, and column remark of the table is note in it"
    ):
        tables.write(tables.sink(), Upsert, {"id": 10, "remark": "new"}, of=REMARKS)
    tables.write(tables.sink(), Load, {"id": 1, "remark": "one"}, of=REMARKS)
    tables.write(tables.sink(), Upsert, {"id": 1, "remark": "new"}, of=REMARKS)
    assert values(tables, "remark") == {1: "new"}
