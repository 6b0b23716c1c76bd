"""`include` and `exclude` take the patterns of TiCDC's table filter and of Debezium's lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from changefeed import record_log
from changefeed.errors import ConfigError
from changefeed.model.batch import record_batch
from changefeed.model.names import full_name
from changefeed.pipeline.config.definition import Behaviour, Definition
from changefeed.pipeline.config.load import read
from changefeed.pipeline.operations.check import checks
from tests.pipeline.kit.connector import Connector
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.running import definition

SELECTED: dict[str, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {
    # TiCDC's table filter
    "shop.orders": ([("shop", "orders"), ("SHOP", "Orders")], [("shop", "orders2"), ("shop2", "orders")]),
    "shop.*": ([("shop", "orders"), ("shop", "a.b")], [("shop2", "orders")]),
    "*.audit": ([("a", "audit")], [("a", "audit2")]),
    "log_?[0-9].[!a-c]*": ([("log_a1", "dx")], [("log_a1", "ax"), ("log_aa", "dx")]),
    '`a db`."t.x"': ([("a db", "t.x")], [("a db", "tax")]),
    r"/^shop_\d+$/.*": ([("shop_12", "t")], [("shop_", "t"), ("shop", "t")]),
    "/^(a|b)$/./^t/": ([("a", "t1"), ("b", "t")], [("c", "t"), ("a", "u")]),
    # Debezium's lists of tables and databases
    r"shop\.orders": ([("shop", "orders"), ("SHOP", "ORDERS")], [("shop", "orders2"), ("shopx", "orders")]),
    r"shop\.(orders|items)": ([("shop", "items")], [("shop", "item"), ("shop", "orders_items")]),
    "shop.(orders|items)": ([("shop", "items")], [("shop", "item")]),
    r"[^.]+\.audit_.*": ([("a", "audit_1")], [("a", "audit")]),
    ".*": ([("a", "b"), ("a.b", "c")], []),
    r".*\.tmp\d{2}": ([("a", "tmp12")], [("a", "tmp1")]),
    # names that TiCDC's filter wants in quotes
    "my-db.*": ([("my-db", "t")], [("my-db2", "t")]),
    "*audit*": ([("a", "my_audit"), ("audits", "b")], [("a", "b")]),
}


@pytest.mark.parametrize("pattern", SELECTED)
def test_a_pattern_selects_tables(pattern: str) -> None:
    inside, outside = SELECTED[pattern]
    include, exclude = Behaviour(include=[pattern]), Behaviour(exclude=[pattern])
    for names in inside:
        assert not include.excludes(full_name(*names))
        assert exclude.excludes(full_name(*names))
    for names in outside:
        assert include.excludes(full_name(*names))
        assert not exclude.excludes(full_name(*names))


@pytest.mark.parametrize(
    "section, kept",
    [
        ({}, "shop.a shop.b tmp.c"),
        ({"include": []}, "shop.a shop.b tmp.c"),
        ({"include": ["shop.*"], "exclude": ["*.b"]}, "shop.a"),
        ({"include": ["*.*", "!shop.*", "shop.b"]}, "shop.b tmp.c"),
        ({"include": ["shop.b", "!shop.*"]}, ""),
        ({"exclude": ["*.*", "!shop.*"]}, "shop.a shop.b"),
        ({"include": r"shop\.a,tmp\..*"}, "shop.a tmp.c"),
        ({"exclude": "shop.a, shop.b"}, "tmp.c"),
    ],
)
def test_a_table_is_in_if_it_is_included_and_not_excluded(section: dict[str, Any], kept: str) -> None:
    behaviour = Behaviour(**section)
    assert [name for name in ("shop.a", "shop.b", "tmp.c") if not behaviour.excludes(name)] == kept.split()


@pytest.mark.parametrize(
    "pattern, why",
    [
        ("orders", "'orders' names no table: write `database.table`, as `shop.orders` or `*.orders`"),
        (r"shop\.(a", r"'shop\\.(a' is not a regular expression: missing ), unterminated subpattern at position 6"),
        (
            "!shop.*",
            "selects no table, because every pattern begins with `!`: write `*.*` before '!shop.*' to select all others",
        ),
        ("/a(/.b", "pattern '/a(/.b': missing ), unterminated subpattern"),
    ],
)
@pytest.mark.parametrize("option", ["include", "exclude"])
def test_a_wrong_pattern_is_refused_where_it_is_written(option: str, pattern: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        _definition(option, [pattern])
    assert str(error.value).endswith(f"pipeline.{option}: {why}")


def _definition(option: str, patterns: list[str]) -> Definition:
    source = {"type": "files", "path": "app.jsonl", "protocol": "ticdc-open"}
    return read({"source": source, "sink": {"type": "delta", "path": "lake"}, "pipeline": {option: patterns}})


@pytest.mark.parametrize(
    "include, missed",
    [
        ([], ""),
        (["app.*"], ""),
        (["APP.orders", "!app.x"], ""),
        (["app.ordres", "shop.*", "*.notes"], "app.ordres, shop.*"),
        ([r"app\.(orders|none)", r"app\.none"], r"app\.none"),
    ],
)
def test_check_warns_of_a_pattern_that_selects_nothing(include: list[str], missed: str, tmp_path: Path) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    reported = [one for one in checks(definition(log, tmp_path / "lake", include=include)) if one.name == "tables"]
    known = "app.drafts, app.notes, app.orders, app.sales"
    expected = [f"pipeline.include: no table or topic matches {missed}; known: {known}"] if missed else []
    assert [one.message for one in reported] == expected


def test_a_topic_is_enough_for_a_pattern(tmp_path: Path) -> None:
    connector = Connector()
    connector.ddl("shop", "orders", "CREATE TABLE `orders` (`id` INT PRIMARY KEY)")
    connector.rows(("shop", "orders", {"id": 1}))
    record_log.write(tmp_path / "log.jsonl", [record_batch(connector.taken())])
    pipeline = definition(tmp_path / "log.jsonl", tmp_path / "lake", protocol="debezium-mysql", include=["shop.*"])
    assert [one.message for one in checks(pipeline) if one.name == "tables"] == []
