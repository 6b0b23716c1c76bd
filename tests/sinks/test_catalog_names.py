"""Names of tables in a catalog: folded, patterned, refused where two are one or the catalog has none."""

from __future__ import annotations

import pytest

from changefeed.model.names import full_name
from changefeed.sinks.catalog import EntryName, check_pattern, entry_name, named

PLAIN = "{database}.{table}"


@pytest.mark.parametrize(
    "pattern, table, entry",
    [
        (PLAIN, "Shop.Orders", ("shop", "orders")),
        ("lake.{database}_{table}", "Shop.Orders", ("lake", "shop_orders")),
        ("Lake_{database}.{table}_cdc", "shop.orders", ("lake_shop", "orders_cdc")),
        ("lake.{table}", full_name("a.b", "{database}"), ("lake", "{database}")),
        (PLAIN, full_name("a.b", "c"), ("a.b", "c")),
    ],
)
def test_the_name_of_a_table(pattern: str, table: str, entry: tuple[str, str]) -> None:
    assert entry_name(table, check_pattern(pattern)) == EntryName(*entry)


@pytest.mark.parametrize(
    "pattern", ["", "{table}", "lake.orders", "a.b.{table}", "{database}.{tables}", "a b.{table}", ".{table}"]
)
def test_a_pattern_that_is_none(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"^expected `<database>\.<table>` of letters"):
        check_pattern(pattern)


@pytest.mark.parametrize("name", ["order-items", "we ird", "a`b", "a'b", "a/b", "订单", "é", "İ", "", "x" * 129])
def test_names_that_a_catalog_does_not_have(name: str) -> None:
    for table in (full_name("shop", name), full_name(name, "orders")):
        names = named([table, "shop.fine"], PLAIN)
        assert names.entries == {"shop.fine": EntryName("shop", "fine")}
        assert list(names.refused) == [table]
        assert names.refused[table].startswith(f"a catalog has no name {name!r}: ")


def test_reserved_words_digits_and_underscores_are_names() -> None:
    tables = ["shop.select", "shop._orders_gho", "shop.2024", "shop." + "x" * 128]
    assert list(named(tables, PLAIN).entries) == sorted(tables)


def test_of_two_tables_with_one_name_none_has_it_whatever_their_order() -> None:
    for tables in (["a.b", "a.B", "a.c"], ["a.B", "a.c", "a.b"]):
        names = named(tables, PLAIN)
        assert names.entries == {"a.c": EntryName("a", "c")}
        assert set(names.refused) == {"a.b", "a.B"}
    assert set(named(["a.t", "b.t"], "lake.{table}").refused) == {"a.t", "b.t"}
    assert set(named(["a_b.c", "a.b_c"], "lake.{database}_{table}").refused) == {"a_b.c", "a.b_c"}


def test_an_excluded_table_leaves_its_name_to_the_other() -> None:
    names = named(["a.b", "a.B"], PLAIN, lambda table: table == "a.b")
    assert (names.entries, names.refused) == ({"a.B": EntryName("a", "b")}, {})
    assert named(["a.b"], PLAIN, lambda table: True).entries == {"a.b": EntryName("a", "b")}
    both = named(["a.b", "a.B"], PLAIN, lambda table: True)
    assert (both.entries, both.refused) == ({}, {})
