"""Sort orders: of new tables by option, of tables as others change them, and after changes of columns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.transforms import IdentityTransform, TruncateTransform

from changefeed.model.definition import Table
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.iceberg.options import TableOptions
from changefeed.sinks.iceberg.section import IcebergSink
from changefeed.sinks.iceberg.sort_fields import SortField, parsed_sort_field
from changefeed.sinks.iceberg.sorting import sorted_rows
from changefeed.sinks.writes import ConvertedFrom, Create, Load, Restore, Rewrite, Upsert
from tests.sinks.contract import Row, table
from tests.sinks.contract import sorted_rows as in_any_order
from tests.sinks.iceberg.tables import PATH, Tables

ITEMS = table("*id int", "place varchar(20)", "price double")


def by(*texts: str, version: Any = 2, merges_on_read: bool = False) -> TableOptions:
    fields = tuple(map(parsed_sort_field, texts))
    return TableOptions(format_version=version, merges_on_read=merges_on_read, sort_fields=lambda name: fields)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    (tmp_path / "lake").mkdir()
    return Tables(tmp_path / "lake")


def item(number: int, place: str | None, price: float | None = 1.0) -> Row:
    return {"id": number, "place": place, "price": price}


def stored(tables: Tables, column: str = "id") -> list[list[Any]]:
    """The values of a column in each data file, in the order in which they are stored."""
    names = [file.file_path for file in data_files(tables)]
    return sorted(pq.read_table(name.removeprefix("file://")).column(column).to_pylist() for name in names)


def data_files(tables: Tables) -> list[DataFile]:
    """The data files of the newest snapshot, as PyIceberg plans them."""
    with tables.opened() as opened:
        return [task.file for task in opened.scan().plan_files()]


def order_ids(tables: Tables) -> list[int | None]:
    """The sort orders of the data files."""
    return [file.sort_order_id for file in data_files(tables)]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("merges_on_read", [False, True])
def test_new_files_are_sorted(tables: Tables, version: int, merges_on_read: bool) -> None:
    tables.options = by("place desc", "id", version=version, merges_on_read=merges_on_read)
    tables.limits = Limits(least_marked=0)
    sink = tables.sink()
    tables.write(sink, Load, item(1, "b"), item(3, "a"), item(2, "c"), item(5, None), item(4, "c"), of=ITEMS)
    assert stored(tables) == [[2, 4, 1, 3, 5]]
    with tables.opened() as opened:
        order = opened.sort_order()
        assert order.order_id == opened.metadata.default_sort_order_id == 1
        assert [(of.source_id, of.direction, of.null_order) for of in order.fields] == [
            (2, SortDirection.DESC, NullOrder.NULLS_LAST),
            (1, SortDirection.ASC, NullOrder.NULLS_FIRST),
        ]
    tables.write(sink, Upsert, item(3, "z"), item(7, "a"), item(6, "z"), of=ITEMS, deleted=(item(4, "c"),))
    assert stored(tables) == ([[2, 4, 1, 3, 5], [3, 6, 7]] if merges_on_read else [[3, 6, 2, 1, 7, 5]])
    assert set(order_ids(tables)) == {1}
    rows = [item(1, "b"), item(2, "c"), item(3, "z"), item(5, None), item(6, "z"), item(7, "a")]
    assert tables.rows() == in_any_order(rows)


def test_a_file_of_several_row_groups_is_sorted_in_each_and_names_no_order(tables: Tables) -> None:
    tables.options, tables.limits = by("id"), Limits(group_bytes=1, batch_rows=2)
    tables.write(tables.sink(), Load, *(item(number, "a") for number in (3, 1, 4, 2)), of=ITEMS)
    assert stored(tables) == [[1, 3, 2, 4]]
    assert order_ids(tables) == [0]


def test_the_order_that_others_give_the_table_counts(tables: Tables) -> None:
    """Also if it has a transform, and whatever the option has for the table."""
    sink = tables.sink()
    tables.write(sink, Load, item(3, "b"), of=ITEMS)
    with tables.opened() as opened, opened.update_sort_order() as update:
        update.desc("id", TruncateTransform(10))
        update.asc("place", IdentityTransform(), NullOrder.NULLS_LAST)
    tables.write(sink, Upsert, item(15, None), item(1, "z"), item(11, "x"), item(3, "b"), item(2, "y"), of=ITEMS)
    assert stored(tables) == [[11, 15, 3, 2, 1]]
    assert (sink.sort_order(PATH, ITEMS), order_ids(tables)) == (("truncate(10, id) desc", "place nulls last"), [1])
    tables.options = by("price")
    tables.write(tables.sink(), Upsert, item(12, "a"), item(3, "b"), of=ITEMS)
    assert stored(tables) == [[12, 11, 15, 3, 2, 1]]


def columns(*names: str) -> tuple[ConvertedFrom, ...]:
    kinds = {column.name: column.type for column in ITEMS.columns}
    return tuple(ConvertedFrom(name, kinds[name]) for name in names)


@pytest.mark.parametrize(
    "after, sources, wanted, values",
    [
        (table("*id int", "price double"), ("id", "price"), ("price desc",), [2, 1]),  # no row is rewritten
        (table("*id bigint", "spot varchar(20)", "price double"), ("id", "place", "price"), ("spot", "price desc"), [1, 2]),
        (table("*id int", "place varchar(20)"), ("id", "place"), ("place",), [1, 2]),
        (table("*id int"), ("id",), (), [1, 2]),
        (table("*id varchar(20)", "place varchar(20)", "price double"), ("id", "place", "price"), ("place", "price desc"),
         ["1", "2"]),
    ],
)  # fmt: skip
def test_the_order_loses_dropped_columns_and_keeps_the_others(
    tables: Tables, after: Table, sources: tuple[str, ...], wanted: tuple[str, ...], values: list[Any]
) -> None:
    tables.options = by("place", "price desc")
    sink = tables.sink()
    tables.write(sink, Load, item(1, "a"), of=ITEMS)
    tables.write(sink, Rewrite, of=after, expressions=columns(*sources))
    assert sink.sort_order(PATH, after) == wanted
    kind = type(values[0])
    full = [
        {"id": kind(number), "place": "ab"[number - 1], "spot": "ab"[number - 1], "price": number} for number in (1, 2)
    ]
    rows = [{column.name: row[column.name] for column in after.columns} for row in full]
    tables.write(sink, Upsert, *rows, of=after)
    assert stored(tables) == [values]
    with tables.opened() as opened:
        opened.sort_order().check_compatible(opened.schema())
        by_order = opened.metadata.sort_orders
        assert len({order.order_id for order in by_order}) == len(by_order)
    assert len(tables.rows()) == 2


def test_the_order_returns_with_the_columns(tables: Tables) -> None:
    """A table that is made again, and one that is set back to an older snapshot."""
    tables.options = by("place")
    sink = tables.sink()
    tables.write(sink, Load, item(1, "a"), of=ITEMS)
    snapshot = sink.snapshot(PATH)
    assert snapshot is not None
    tables.write(sink, Create, of=table("*id int", "place varchar(20)"))
    assert sink.sort_order(PATH, ITEMS) == ("place",)
    tables.write(sink, Restore, of=ITEMS, revision=snapshot.revision)
    assert sink.sort_order(PATH, ITEMS) == ("place",)
    tables.write(sink, Upsert, item(1, "a"), item(2, "b"), item(3, "0"), of=ITEMS)
    assert stored(tables) == [[3, 1, 2]]


def test_numbers_that_are_not_numbers_are_the_largest() -> None:
    low, nan = -math.inf, math.nan
    for kind in (pa.float32(), pa.float64()):
        numbers = pa.table({"n": pa.array([1.0, nan, None, -0.0, math.inf, 0.0, low, -1.5], kind)})
        up = sorted_rows(numbers, [parsed_sort_field("n")]).column("n").to_pylist()
        assert repr(up) == repr([None, low, -1.5, -0.0, 0.0, 1.0, math.inf, nan])
        down = sorted_rows(numbers, [parsed_sort_field("n desc")]).column("n").to_pylist()
        assert repr(down) == repr([nan, math.inf, 1.0, 0.0, -0.0, -1.5, low, None])


def test_rows_that_are_equal_keep_their_order() -> None:
    rows = pa.table({"flag": pa.array([True, False, None, True, False]), "n": pa.array([1, 2, 3, 4, 5])})
    assert sorted_rows(rows, [parsed_sort_field("flag nulls last")]).column("n").to_pylist() == [2, 5, 1, 4, 3]


@pytest.mark.parametrize(
    "text, shown",
    [
        ("created", "created"),
        ("Days( at )  DESC", "days(at) desc"),
        ("id asc nulls first", "id"),
        ("id NULLS LAST", "id nulls last"),
        ("bucket(4, id) desc nulls first", "bucket(4, id) desc nulls first"),
        ("descending", "descending"),
    ],
)
def test_the_words_are_those_of_spark(text: str, shown: str) -> None:
    assert str(parsed_sort_field(text)) == shown
    assert parsed_sort_field(shown) == parsed_sort_field(text)


@pytest.mark.parametrize("text", ["", "sqrt(id)", "bucket(id) desc", "days(at desc"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a column, bucket.* nulls last, not "):
        parsed_sort_field(text)


def test_fields_whose_columns_a_table_does_not_have_are_left_out(tables: Tables) -> None:
    tables.options = by("created", "place desc", "hours(place)", "price")
    sink = tables.sink()
    assert sink.refusal(ITEMS) is None
    assert sink.sort_order(PATH, ITEMS) == ("place desc", "price")
    tables.write(sink, Load, item(1, "b"), item(3, "a"), item(2, "c", 0.5), item(5, "c", 0.1), of=ITEMS)
    assert sink.sort_order(PATH, ITEMS) == ("place desc", "price")
    assert (stored(tables), order_ids(tables)) == ([[5, 2, 1, 3]], [1])


def test_the_first_pattern_that_matches_counts() -> None:
    sort_by = {"shop.orders": ["created", "id desc"], "shop.*": ["id"]}
    section = IcebergSink.model_validate({"type": "iceberg", "path": "lake", "sort-by": sort_by})
    assert [str(field) for field in section.sort_fields("shop.orders")] == ["created", "id desc"]
    assert section.sort_fields("shop.other") == (SortField(parsed_sort_field("id").term),)
    assert section.sort_fields("app.orders") == ()
