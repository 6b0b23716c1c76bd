"""Table filters: the tables that a list of patterns matches, with and without regard to case."""

from __future__ import annotations

import pytest

from changefeed.errors import ConfigError
from changefeed.ticdc.dispatch import TableFilter

# patterns -> the tables that are meant, and those that are not; a table is `schema table`
CASES = [
    ([], "", "shop orders"),
    (["*.*"], "shop orders", ""),
    (["shop.*"], "shop orders", "shop1 orders, xshop orders"),
    (["shop.orders"], "shop orders", "shop orders2, other orders"),
    (["shop.*", "!shop.tmp*"], "shop orders", "shop tmp, shop tmp1"),
    (["shop.*", "!shop.tmp*", "*.tmp_kept"], "shop tmp_kept, other tmp_kept", "shop tmp1, other tmp1"),
    (["!shop.*", "*.*"], "shop orders", ""),
    (["a?c.t"], "abc t, a中c t", "ac t, abbc t"),
    (["*a*.t"], "a t, bar t", "b t"),
    (["log_[0-9].*"], "log_3 t", "log_a t, log_33 t"),
    (["[!a-c]x.*"], "dx t, !x t", "ax t, bx t"),
    (["x[^a].*"], "x^ t, xa t", "xb t"),
    (["x[a-].*"], "x- t, xa t", "xb t"),
    ([r"x[\]\-].*"], "x] t, x- t", r"x\ t"),
    (["$a_1.表名"], "$a_1 表名", "$a_1 表"),
    ([r"my\-db.\*"], "my-db *", "my-db t"),
    (["`my-db`.`a``b`"], "my-db a`b", "my-db a``b"),
    (['"my.db"."a ""b"" c"'], 'my.db a "b" c', "my.db a b c"),
    (["`*`.`?`"], "* ?", "x y"),
    ([r"/^shop_\d+$/.*"], "shop_12 t", "shop_ t, shop_x t"),
    (["/op/./^o/"], "shop orders, opera o", "shop rows, sho orders"),
    ([r"/a\/b/.*"], "xa/b t", "ab t"),
    (["# no pattern", "  ", "\tshop.orders "], "shop orders", "no pattern"),
]


def _tables(text: str) -> list[tuple[str, str]]:
    return [(schema, table) for schema, _, table in (one.partition(" ") for one in text.split(", ") if one)]


@pytest.mark.parametrize("patterns, meant, others", CASES, ids=lambda v: str(v))
@pytest.mark.parametrize("case_sensitive", [True, False])
def test_meant(patterns: list[str], meant: str, others: str, case_sensitive: bool) -> None:
    tables = TableFilter(patterns, case_sensitive=case_sensitive)
    assert [name for name in _tables(meant) if not tables.matches(*name)] == []
    assert [name for name in _tables(others) if tables.matches(*name)] == []


@pytest.mark.parametrize("pattern", ["Shop.ORDERS", "SH*.*", "/^SHOP$/.*", "[R-T]hop.*", '"SHOP"."orders"', "shÖp.*"])
def test_case_counts_only_with_the_option(pattern: str) -> None:
    schema = "shöp" if "Ö" in pattern else "shop"
    assert TableFilter([pattern]).matches(schema, "orders")
    assert TableFilter([pattern.lower()]).matches(schema.upper(), "ORDERS")
    assert not TableFilter([pattern], case_sensitive=True).matches(schema, "orders")


HINT = "; quote a name with characters other than letters, digits, $ and _"
WRONG = [
    ("shop", "expected a dot and the table at character 4"),
    ("shop.", "expected a name at character 5"),
    (".t", "unquoted '.t' at character 0"),
    ("a.b.c", f"expected the end, found '.c' at character 3{HINT}"),
    ("my-db.*", f"expected a dot, found '-db.*' at character 2{HINT}"),
    (r"a\tb.c", f"expected a dot, found '\\\\tb.c' at character 1{HINT}"),
    ("`db`*.*", f"expected a dot, found '*.*' at character 4{HINT}"),
    ("a.[]", "a set of characters is not closed, or empty '[]' at character 2"),
    ("[!].*", "a set of characters is not closed, or empty '[!].*' at character 0"),
    ("[z-a].*", "bad character range z-a"),
    ("`db.*", "a quote is not closed '`db.*' at character 0"),
    ("/db.*", "a regular expression is not closed '/db.*' at character 0"),
    ("/a(/.*", "missing ), unterminated subpattern"),
    ("/^t(?!x)/.*", "(?! is not supported in Go's regular expressions, in '/^t(?!x)/.*' at character 0"),
    ("/[[:alpha:]]/.*", "[[: is not supported by changefeed, in '/[[:alpha:]]/.*' at character 0"),
    ("@tables.txt", "files of patterns are not supported; write the patterns into the option"),
]


@pytest.mark.parametrize("pattern, why", WRONG, ids=[p for p, _ in WRONG])
def test_a_wrong_filter_is_refused_with_the_place(pattern: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TableFilter(["*.*", pattern])
    assert str(caught.value) == f"pattern {pattern!r}: {why}"
