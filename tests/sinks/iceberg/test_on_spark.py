"""Iceberg's own implementation reads what the sink writes with partitions, delete files and row ids, and writes to it in turn."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from changefeed.sinks.apply.files import Limits
from changefeed.sinks.iceberg.options import TableOptions
from changefeed.sinks.iceberg.partition_fields import parsed
from changefeed.sinks.iceberg.sort_fields import parsed_sort_field
from changefeed.sinks.iceberg.transforms import result_type, transformed
from changefeed.sinks.writes import ConvertedFrom, Load, Rewrite, Upsert
from tests.services.iceberg_spark import results_of
from tests.sinks.contract import Row, sorted_rows, table
from tests.sinks.iceberg.tables import PATH, Tables

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("processes")]

VISITS = table("*id int", "place varchar(20)", "at datetime")
NAME = "changefeed.shop.orders"
DAYS = [datetime(1969, 12, 31, 23, 59, 59), datetime(2024, 2, 29, 18), None]


def visit(number: int, place: str | None = None) -> Row:
    return {"id": number, "place": place, "at": DAYS[number % 3]}


def tables_of(folder: Path, version: int, merges_on_read: bool) -> Tables:
    folder.mkdir()
    fields = tuple(map(parsed, ("bucket(2, id)", "days(at)")))
    options = TableOptions(lambda name: fields, 3 if version == 3 else 2, merges_on_read)
    return Tables(folder, options=options, limits=Limits(least_marked=0), catalog="changefeed")


@pytest.mark.parametrize("version, merges_on_read", list(product([2, 3], [False, True])))
def test_both_write_the_same_table(tmp_path: Path, version: int, merges_on_read: bool) -> None:
    tables = tables_of(tmp_path / "lake", version, merges_on_read)
    sink = tables.sink()
    wanted = {number: visit(number, "a") for number in range(30)}
    tables.write(sink, Load, *wanted.values(), of=VISITS)
    for changed in ({3, 4, 40}, {3, 5, 41}):
        tables.write(sink, Upsert, *(visit(number, f"of {min(changed)}") for number in changed), of=VISITS)
        wanted |= {number: visit(number, f"of {min(changed)}") for number in changed}
    tables.write(sink, Upsert, of=VISITS, deleted=(visit(6), visit(7)))
    wanted = {number: row for number, row in wanted.items() if number not in (6, 7)}
    mode = "merge-on-read"
    results = results_of(
        tables.root,
        [
            f"SELECT * FROM {NAME}",
            *(f"SELECT id FROM {NAME} WHERE {where}" for where in ("id = 40", "at < '1970-01-01'", "at IS NULL")),
            f"SELECT COUNT(*) AS n FROM {NAME}.all_data_files",
            f"ALTER TABLE {NAME} SET TBLPROPERTIES ('write.delete.mode' = '{mode}', 'write.update.mode' = '{mode}', "
            f"'write.delete.granularity' = 'partition')",
            f"DELETE FROM {NAME} WHERE id IN (8, 9, 10, 11)",
            f"UPDATE {NAME} SET place = 'by Spark' WHERE id IN (12, 40)",
            f"INSERT INTO {NAME} VALUES (50, 'by Spark', TIMESTAMP_NTZ '2024-02-29 18:00:00')",
            f"SELECT content, file_format FROM {NAME}.delete_files",
        ],
    )
    assert sorted_rows(results[0].to_pylist()) == sorted_rows(list(wanted.values()))
    of_day = [number for number in wanted if number % 3 == 0]
    assert results[1].to_pylist() == [{"id": 40}]
    assert sorted(results[2].column("id").to_pylist()) == sorted(of_day)
    assert sorted(results[3].column("id").to_pylist()) == sorted(number for number in wanted if number % 3 == 2)
    assert set(results[-1].column("file_format").to_pylist()) == {"PUFFIN" if version == 3 else "PARQUET"}
    for number in (8, 9, 10, 11):
        del wanted[number]
    for number in (12, 40):
        wanted[number] |= {"place": "by Spark"}
    wanted[50] = visit(50, "by Spark") | {"at": DAYS[1]}
    assert tables.rows() == sorted_rows(list(wanted.values()))
    tables.write(sink, Upsert, visit(9, "again"), visit(13, "new"), visit(50, "new"), of=VISITS, deleted=(visit(40),))
    wanted |= {9: visit(9, "again"), 13: visit(13, "new"), 50: visit(50, "new")}
    del wanted[40]
    [read] = results_of(tables.root, [f"SELECT * FROM {NAME}"])
    assert sorted_rows(read.to_pylist()) == sorted_rows(list(wanted.values())) == tables.rows()


@pytest.mark.parametrize("merges_on_read", [False, True])
def test_row_ids_stay(tmp_path: Path, merges_on_read: bool) -> None:
    """Also of rows that are updated, and when Spark rewrites all files."""
    tables = tables_of(tmp_path / "lake", 3, merges_on_read)
    sink = tables.sink()
    tables.write(sink, Load, *(visit(number, "a") for number in range(30)), of=VISITS)
    ids = f"SELECT id, _row_id, _last_updated_sequence_number AS updated FROM {NAME} ORDER BY id"
    [first] = results_of(tables.root, [ids])
    tables.write(sink, Upsert, visit(3, "b"), visit(31, "b"), of=VISITS)
    rewrite = "CALL changefeed.system.rewrite_data_files(table => 'shop.orders', options => map('rewrite-all', 'true'))"
    second, _, third = results_of(tables.root, [ids, rewrite, ids])
    tables.write(sink, Upsert, visit(4, "c"), of=VISITS)
    [fourth] = results_of(tables.root, [ids])
    before = {row["id"]: row for row in first.to_pylist()}
    for read, changed in ((second, {3}), (third, {3}), (fourth, {3, 4})):
        rows = {row["id"]: row for row in read.to_pylist()}
        assert len({row["_row_id"] for row in rows.values()}) == len(rows) == 31
        assert {number: row["_row_id"] for number, row in rows.items() if number != 31} == {
            number: row["_row_id"] for number, row in before.items()
        }
        assert {number for number, row in before.items() if rows[number]["updated"] != row["updated"]} == changed
    assert second.to_pylist() == third.to_pylist()
    assert fourth.to_pylist()[4]["updated"] > second.to_pylist()[3]["updated"] == 2


@pytest.mark.parametrize("version", [2, 3])
def test_both_sort_by_the_same_order(tmp_path: Path, version: int) -> None:
    """Spark sorts by the option's order, the sink by the one that Spark sets, and Spark opens the table without the column."""
    (tmp_path / "lake").mkdir()
    fields = tuple(map(parsed_sort_field, ("place desc", "days(at)", "id")))
    options = TableOptions(format_version=3 if version == 3 else 2, sort_fields=lambda name: fields)
    tables = Tables(tmp_path / "lake", options=options, catalog="changefeed")
    sink = tables.sink()
    rows = [visit(number, "ab"[number % 2] if number % 5 else None) for number in range(30)]
    tables.write(sink, Load, *rows, of=VISITS)
    wanted = [row["id"] for row in pq.read_table(*(tables.root / "shop" / "orders" / "data").iterdir()).to_pylist()]
    rewrite = (
        "CALL changefeed.system.rewrite_data_files(table => 'shop.orders', strategy => 'sort', "
        "options => map('rewrite-all', 'true'))"
    )
    files = f"SELECT file_path, sort_order_id FROM {NAME}.files"
    _, after, described, _ = results_of(
        tables.root,
        [rewrite, files, f"SHOW CREATE TABLE {NAME}", f"ALTER TABLE {NAME} WRITE ORDERED BY at DESC NULLS FIRST, id"],
    )
    [file] = after.to_pylist()
    assert pq.read_table(file["file_path"].removeprefix("file://")).column("id").to_pylist() == wanted
    assert "'sort-order' = 'place DESC NULLS LAST, days(at) ASC NULLS FIRST, id ASC NULLS FIRST'" in str(
        described[0][0]
    )
    assert sink.sort_order(PATH, VISITS) == ("at desc nulls first", "id")
    tables.write(sink, Upsert, visit(3, "z"), visit(2, "z"), visit(1, "z"), of=VISITS)
    [after] = results_of(tables.root, [files])
    [file] = after.to_pylist()
    places = {day: place for place, day in enumerate([None, DAYS[1], DAYS[0]])}
    stored = pq.read_table(file["file_path"].removeprefix("file://")).to_pylist()
    assert [(places[row["at"]], row["id"]) for row in stored] == sorted((places[DAYS[n % 3]], n) for n in range(30))
    assert file["sort_order_id"] == 2
    without = table("*id int", "place varchar(20)")
    values = tuple(ConvertedFrom(column.name, column.type) for column in without.columns)
    tables.write(sink, Rewrite, of=without, expressions=values)
    tables.write(sink, Upsert, {"id": 31, "place": "z"}, of=without)
    [read] = results_of(tables.root, [f"SELECT COUNT(*) AS n FROM {NAME} WHERE place = 'z'"])
    assert (read.to_pylist(), sink.sort_order(PATH, without)) == ([{"n": 4}], ("id",))


VALUES: dict[str, list[Any]] = {
    "int": [0, 1, -1, 34, -34, 2**31 - 1, -(2**31)],
    "bigint": [0, -1, 2**63 - 1, -(2**63), 2**40],
    "decimal(20,0)": [
        Decimal(0),
        Decimal(-1),
        Decimal(127),
        Decimal(128),
        Decimal(-128),
        Decimal(-129),
        Decimal(2**64 - 1),
    ],
    "decimal(38,5)": [Decimal("-0.00129"), Decimal("14.20000"), Decimal("-99999999999999999999999999999999.99999")],
    "varchar(30)": ["", "a", "abcd", "漢字かな", "😀😀", "iceberg"],
    "varbinary(20)": [b"", b"\x00\x01\x02\x03", b"\xff" * 17],
    "date": [date(1970, 1, 1), date(1969, 12, 31), date(1600, 2, 29), date(9999, 12, 31)],
    "datetime(6)": [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1), datetime(1000, 1, 1)],
    "timestamp(6)": [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(2024, 3, 31, 1, 30, tzinfo=UTC)],
}


def test_transforms_are_those_of_iceberg(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "lake", catalog="changefeed")
    tables.root.mkdir()
    sink, names = tables.sink(), [f"v{number}" for number in range(len(VALUES))]
    of = table("*id int", *(f"{name} {kind}" for name, kind in zip(names, VALUES, strict=True)))
    longest = max(map(len, VALUES.values())) + 1
    columns = dict(zip(names, VALUES.values(), strict=True))
    rows = [
        {"id": place} | {name: values[place] if place < len(values) else None for name, values in columns.items()}
        for place in range(longest)
    ]
    tables.write(sink, Load, *rows, of=of)
    with tables.opened() as opened:
        stored: pa.Table = opened.scan().to_arrow().sort_by("id")
    wanted = dict[str, list[Any]]()
    for name, transform in product(names, ["bucket[16]", "truncate[3]", "year", "month", "day", "hour"]):
        column = stored.column(name).combine_chunks()
        column = column.cast(pa.string()) if pa.types.is_large_string(column.type) else column
        column = column.cast(pa.binary()) if pa.types.is_large_binary(column.type) else column
        if result_type(transform, column.type) is not None:
            of_transform, _, number = transform.rstrip("]").partition("[")
            call = f"{of_transform}({number}, {name})" if number else f"{of_transform}s({name})"
            wanted[f"changefeed.system.{call}"] = transformed(column, transform).to_pylist()
    calls = ", ".join(f"{call} AS c{place}" for place, call in enumerate(wanted))
    [read] = results_of(tables.root, [f"SELECT {calls} FROM {NAME} ORDER BY id"])
    made = {call: read.column(f"c{place}").to_pylist() for place, call in enumerate(wanted)}
    assert made == wanted
