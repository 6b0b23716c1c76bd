"""Tables with partitions: which files rows go to, which files a key is looked up in, and changes of the spec."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.transforms import BucketTransform, IdentityTransform

from changefeed.errors import SinkError
from changefeed.model.definition import Table
from changefeed.sinks.apply.files import DataFileReader, DataFileWriter, Limits
from changefeed.sinks.iceberg.layout import IcebergLayout
from changefeed.sinks.iceberg.options import TableOptions
from changefeed.sinks.iceberg.partition_fields import PartitionField, parsed
from changefeed.sinks.iceberg.section import IcebergSink
from changefeed.sinks.writes import AddColumns, Append, Constant, ConvertedFrom, Load, Null, Rewrite, Upsert
from changefeed.storage.local import LocalFolder
from tests.sinks.contract import Row, table
from tests.sinks.iceberg.tables import Tables

VISITS = table("*id int", "place varchar(20)", "at datetime")
OLD, EVENING = datetime(1969, 12, 31, 23, 59), datetime(2024, 2, 29, 18)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    (tmp_path / "lake").mkdir()
    return Tables(tmp_path / "lake")


def by(*fields: str) -> TableOptions:
    """Options with these partition fields for every table."""
    return TableOptions(lambda table: tuple(map(parsed, fields)))


def visit(number: int, place: str | None = None, at: datetime | None = EVENING) -> Row:
    return {"id": number, "place": place, "at": at}


def partitions(tables: Tables) -> list[tuple[Any, ...]]:
    """The partition of each data file, with its number of rows."""
    with tables.opened() as opened:
        files = opened.inspect.files().to_pylist()
    return sorted([(*file["partition"].values(), file["record_count"]) for file in files], key=repr)


def test_rows_go_to_the_files_of_their_partition(tables: Tables) -> None:
    tables.options = by("days(at)", "place")
    sink = tables.sink()
    rows = [visit(1, "a"), visit(2, "b"), visit(3, "a"), visit(4, None, OLD), visit(5, None, None)]
    tables.write(sink, Load, *rows, of=VISITS)
    assert partitions(tables) == [
        (None, None, 1), (date(1969, 12, 31), None, 1), (date(2024, 2, 29), "a", 2), (date(2024, 2, 29), "b", 1),
    ]  # fmt: skip
    with tables.opened() as opened:
        assert [field.name for field in opened.spec().fields] == ["at_day", "place"]
        [snapshot] = opened.snapshots()
        assert snapshot.summary is not None
        assert snapshot.summary["changed-partition-count"] == "4"
        assert opened.scan(row_filter="place = 'a'").to_arrow().column("id").to_pylist() == [1, 3]
        assert len(list(opened.scan(row_filter="at < '1970-01-01T00:00:00'").plan_files())) == 1
        assert opened.scan(row_filter="at is null").to_arrow().column("id").to_pylist() == [5]


def test_an_update_moves_a_row_to_another_partition(tables: Tables) -> None:
    tables.options = by("days(at)")
    sink = tables.sink()
    tables.write(sink, Load, visit(1), visit(2), visit(3, "x", OLD), of=VISITS)
    tables.write(sink, Upsert, visit(1, "moved", OLD), visit(2, "lost", None), of=VISITS)
    assert tables.rows() == [visit(1, "moved", OLD), visit(2, "lost", None), visit(3, "x", OLD)]
    assert [entry[0] for entry in partitions(tables)] == [None, date(1969, 12, 31), date(1969, 12, 31)]
    tables.write(sink, Upsert, of=VISITS, deleted=(visit(2),))
    assert tables.rows() == [visit(1, "moved", OLD), visit(3, "x", OLD)]


def test_a_key_is_looked_up_in_its_bucket_alone(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.options = by("bucket(8, id)")
    sink = tables.sink()
    tables.write(sink, Load, *(visit(number) for number in range(100)), of=VISITS)
    opened = list[str]()
    begin = DataFileReader.__init__

    def counted(reader: DataFileReader, layout: Any, file: Any, schema: pa.Schema) -> None:
        opened.append(file["path"])
        begin(reader, layout, file, schema)

    monkeypatch.setattr(DataFileReader, "__init__", counted)
    tables.write(sink, Upsert, visit(50, "new"), of=VISITS)
    assert len(opened) == 1
    tables.write(sink, Upsert, visit(-7, "in no file"), of=VISITS)
    assert len(opened) <= 2
    wanted = [visit(-7, "in no file"), visit(50, "new"), *(visit(n) for n in range(100) if n != 50)]
    assert tables.rows() == sorted(wanted, key=repr)


def test_a_table_without_a_key_is_appended_to(tables: Tables) -> None:
    log = table("at datetime", "note varchar(20)")
    tables.options = by("months(at)", "truncate(2, note)")
    sink = tables.sink()
    tables.write(sink, Load, {"at": OLD, "note": "abc"}, of=log)
    tables.write(sink, Append, {"at": OLD, "note": "abd"}, {"at": EVENING, "note": "ab"}, of=log)
    assert partitions(tables) == [(-1, "ab", 1), (-1, "ab", 1), (649, "ab", 1)]


def test_files_of_other_specs_stay_and_new_files_get_the_default(tables: Tables) -> None:
    sink = tables.sink()
    tables.write(sink, Load, visit(1, "a"), visit(2, "b"), of=VISITS)
    with tables.opened() as opened, opened.update_spec() as update:
        update.add_field("id", BucketTransform(4), "id_bucket")
    tables.write(sink, Upsert, visit(3, "c"), of=VISITS)
    with tables.opened() as opened, opened.update_spec() as update:
        update.add_field("place", IdentityTransform(), "place")
        update.remove_field("id_bucket")
    tables.write(sink, Upsert, visit(3, "d"), visit(4, "e"), of=VISITS)
    assert tables.rows() == [visit(1, "a"), visit(2, "b"), visit(3, "d"), visit(4, "e")]
    with tables.opened() as opened:
        files = opened.inspect.files().to_pylist()
    assert sorted((file["spec_id"], file["record_count"]) for file in files) == [(0, 2), (2, 1), (2, 1)]


IDENTITIES: dict[str, list[Any]] = {
    "int": [0, -(2**31)],
    "bigint": [2**63 - 1, -1],
    "decimal(10,2)": [Decimal("-0.01"), Decimal("99999999.99")],
    "varchar(20)": ["", "a/b=c, None"],
    "varbinary(9)": [b"", b"\xff\x00"],
    "date": [date(1969, 12, 31), date(2024, 2, 29)],
    "datetime(6)": [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29)],
    "timestamp(6)": [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)],
}


@pytest.mark.parametrize("kind", IDENTITIES)
def test_values_of_any_type_are_partitions(tables: Tables, kind: str) -> None:
    tables.options = by("v")
    sink, of = tables.sink(), table("*id int", f"v {kind}")
    rows = [{"id": number, "v": value} for number, value in enumerate([*IDENTITIES[kind], None])]
    tables.write(sink, Load, *rows, of=of)
    tables.write(sink, Upsert, {"id": 9, "v": rows[0]["v"]}, of=of)  # its manifest is read, and written again
    with tables.opened() as opened:
        files = opened.inspect.files().to_pylist()
        assert sorted((file["partition"]["v"] for file in files), key=repr) == sorted(
            [*(row["v"] for row in rows), rows[0]["v"]], key=repr
        )
        assert opened.scan(row_filter="v is null").to_arrow().column("id").to_pylist() == [2]
    assert tables.rows() == sorted([*rows, {"id": 9, "v": rows[0]["v"]}], key=repr)


@pytest.mark.parametrize("kind", IDENTITIES)
def test_files_may_leave_out_the_columns_of_their_partition(tables: Tables, kind: str) -> None:
    """Those of a table of Hive that became one of Iceberg do: the values are in the manifest alone."""
    tables.options = by("v")
    sink, of = tables.sink(), table("*id int", f"v {kind}")
    first, other = IDENTITIES[kind]
    tables.write(sink, Load, {"id": 1, "v": first}, of=of)
    place = tables.root / "shop/orders/data/v=first.parquet"
    schema = pa.schema([pa.field("id", pa.int32(), metadata={"PARQUET:field_id": "1"})])
    pyarrow.parquet.write_table(pa.table([pa.array([2, 3, 4], pa.int32())], schema), place)
    with tables.opened() as opened:
        (own,) = (task.file for task in opened.scan().plan_files())
        theirs = DataFile.from_args(
            content=DataFileContent.DATA, file_path=f"file://{place}", file_format=FileFormat.PARQUET,
            partition=own.partition, record_count=3, file_size_in_bytes=place.stat().st_size,
        )  # fmt: skip
        theirs.spec_id = own.spec_id
        with opened.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            append.append_data_file(theirs)
    tables.write(sink, Upsert, {"id": 3, "v": other}, of=of)
    values = {1: first, 2: first, 3: other, 4: first}
    assert {row["id"]: row["v"] for row in tables.rows()} == values
    tables.write(sink, Upsert, {"id": 4, "v": None}, of=of)
    tables.write(sink, Rewrite, of=table("*id int", f"v {kind}", "more int"), expressions=(
        ConvertedFrom("id", of.columns[0].type), ConvertedFrom("v", of.columns[1].type), Constant("7"),
    ))  # fmt: skip
    assert {row["id"]: (row["v"], row["more"]) for row in tables.rows()} == {
        number: (None if number == 4 else value, 7) for number, value in values.items()
    }


def test_a_column_of_a_partition_may_be_renamed_and_widened(tables: Tables) -> None:
    tables.options = by("bucket(4, id)", "place")
    sink = tables.sink()
    tables.write(sink, Load, visit(1, "a"), visit(2, "b"), of=VISITS)
    tables.write(sink, AddColumns, of=table("*id int", "place varchar(20)", "at datetime", "more int"))
    wide = table("*number bigint", "spot varchar(20)")
    names = ("id", "place")
    values = tuple(ConvertedFrom(name, VISITS.columns[place].type) for place, name in enumerate(names))
    tables.write(sink, Rewrite, of=wide, expressions=values)
    tables.write(sink, Upsert, {"number": 2, "spot": "c"}, {"number": 2**40, "spot": "a"}, of=wide)
    assert tables.rows() == [{"number": 1, "spot": "a"}, {"number": 2**40, "spot": "a"}, {"number": 2, "spot": "c"}]


@pytest.mark.parametrize(
    "after, values",
    [
        (table("*id int", "at datetime"), ("id", "at")),
        (table("*id int", "place int", "at datetime"), ("id", None, "at")),
    ],
)
def test_a_column_of_a_partition_that_is_dropped_or_retyped_is_named(
    tables: Tables, after: Table, values: tuple[str | None, ...]
) -> None:
    tables.options = by("place")
    sink = tables.sink()
    tables.write(sink, Load, visit(1, "a"), of=VISITS)
    kinds = {column.name: column.type for column in VISITS.columns}
    expressions = tuple(Null() if name is None else ConvertedFrom(name, kinds[name]) for name in values)
    with pytest.raises(
        SinkError, match=r"would leave the partition field place without its column place\. Take it out of"
    ):
        tables.write(sink, Rewrite, of=after, expressions=expressions)
    assert tables.rows() == [visit(1, "a")]
    with tables.opened() as opened, opened.update_spec() as update:
        update.remove_field("place")
    with tables.opened() as opened:
        opened.overwrite(opened.scan().to_arrow())
    tables.write(sink, Rewrite, of=after, expressions=expressions)
    tables.write(sink, Upsert, {"id": 2}, of=after)
    assert [row["id"] for row in tables.rows()] == [1, 2]


def test_the_option_refuses_tables_that_lack_its_columns(tables: Tables) -> None:
    sink = tables.sink()
    sink.options = by("days(created)")
    assert sink.refusal(VISITS) == "sink.partition-by: days(created): there is no column created"
    assert sink.refusal(VISITS, exists=True) is None
    sink.options = by("hours(place)")
    assert sink.refusal(VISITS) == "sink.partition-by: hours(place): not for a column of type string"
    sink.options = by("bucket(4, id)", "bucket(8, id)")
    assert sink.refusal(VISITS) == "sink.partition-by: bucket(8, id): there is another field id_bucket"
    sink.options = by("bucket(4, id)")
    assert sink.refusal(VISITS) is None


def test_a_number_that_cannot_be_truncated_is_named(tables: Tables) -> None:
    """The least numbers of a decimal, less the rest, have one more digit than its type."""
    tables.options = by("truncate(10, money)")
    sink, of = tables.sink(), table("*id int", "money decimal(4,2)")
    tables.write(sink, Load, {"id": 1, "money": Decimal("-99.90")}, of=of)
    with pytest.raises(
        SinkError, match=r"field truncate\(10, money\) has no value of type decimal128\(4, 2\) for a row"
    ):
        tables.write(sink, Upsert, {"id": 2, "money": Decimal("-99.99")}, of=of)
    assert [row["id"] for row in tables.rows()] == [1]


def test_the_first_pattern_that_matches_counts() -> None:
    section = IcebergSink.model_validate(
        {
            "type": "iceberg",
            "path": "lake",
            "partition-by": {"shop.orders": ["Bucket( 16 ,id )"], "shop.*": ["day(at)"]},
        }
    )
    assert section.partition_fields("shop.orders") == (PartitionField("id", "bucket[16]"),)
    assert [str(field) for field in section.partition_fields("shop.other")] == ["days(at)"]
    assert section.partition_fields("app.orders") == ()


@pytest.mark.parametrize("text", ["bucket(id)", "days(3, at)", "bucket(0, id)", "sqrt(id)", "", "days(at"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a column, bucket"):
        parsed(text)


def test_rows_of_many_partitions_are_not_all_in_memory(tmp_path: Path) -> None:
    """Row groups of all partitions share the limit, and files of the partitions that were not written lately are ended."""
    schema = pa.schema([pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    layout = IcebergLayout(LocalFolder(str(tmp_path)), schema, {0: (PartitionField("n", "truncate[10]"),)})
    writer = DataFileWriter(layout, schema, Limits(group_bytes=1 << 12))
    rows = [(7 * n) % 3000 for n in range(3000)]
    for start in range(0, 3000, 100):
        writer.write(pa.RecordBatch.from_arrays([pa.array(rows[start : start + 100])], schema=schema))
        assert sum(file.held_bytes for file in writer._open.values()) < 1 << 12
        assert sum(file.is_begun for file in writer._open.values()) <= 100
    added = writer.close()
    files = [pa.parquet.read_table(tmp_path / file.path).column("n").to_pylist() for file in added]
    assert all(len({n // 10 for n in file}) == 1 for file in files)
    assert sorted(n for file in files for n in file) == list(range(3000))
