"""`database.table`: every two names have a text, which no other two have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.model.names import full_name, names_of

NAMES = {
    ("shop", "orders"): "shop.orders",
    ("a", "b.c"): "a.`b.c`",
    ("a.b", "c"): "`a.b`.c",
    ("a`b", "c"): "`a``b`.c",
    ("`a`", "."): "```a```.`.`",
    ("a", ""): "a.",
    ("", ""): ".",
    ("數據", "a b"): "數據.a b",
}
parts = st.text("ab.`", max_size=5) | st.text(max_size=5)


@pytest.mark.parametrize("names, text", NAMES.items(), ids=NAMES.values())
def test_a_dot_within_a_name_is_quoted(names: tuple[str, str], text: str) -> None:
    assert full_name(*names) == text
    assert names_of(text) == names


@given(parts, parts)
def test_names_are_read_from_their_text(database: str, table: str) -> None:
    assert names_of(full_name(database, table)) == (database, table)


def test_other_texts_end_at_their_first_dot() -> None:
    assert names_of("a.b.c") == ("a", "b.c")
