"""Topics and partitions, compared with the producers' own results (`tests/data/ticdc/dispatch.json`)."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
import pytest

from changefeed.errors import ConfigError, UnsupportedError
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.ticdc.dispatch import Dispatcher, Dispatchers, Rule, hash_of, topic_name, value_text

DATA = json.loads((Path(__file__).parents[1] / "data/ticdc/dispatch.json").read_text())
ROUTER = Dispatchers(msgspec.convert(DATA["router"]["rules"], tuple[Rule, ...]))
TOPICS = [case for case in DATA["topic_expressions"] if case["schema"] is not None]
PARTITIONS = [case for case in DATA["partitions"] if "expected" in case]


def table(schema: str, name: str, columns: list[list[str]]) -> TableShape:
    return TableShape(schema, name, tuple(Column(c, ColumnType("bigint"), key=True) for c, _ in columns))


@pytest.mark.parametrize("case", [c for c in TOPICS if c["expected"]], ids=lambda c: c["expression"])
def test_topics_are_named_as_the_producer_names_them(case: dict[str, Any]) -> None:
    assert topic_name(case["expression"], case["schema"], case["table"]) == case["expected"]


RULES = [
    (
        {"partition": "ts", "dispatcher": "ts"},
        "dispatchers: rule of a.*, b.*: `dispatcher` is the old name of `partition`, set only one of them",
    ),
    ({"topic": "é"}, "invalid topic expression: é; expected letters, digits, . _ - and {schema} before {table}"),
    (
        {"partition": "columns"},
        'dispatchers: rule of a.*, b.*: partition "columns" and `columns` must be used together',
    ),
    ({"index": "i"}, 'index "i": changes do not carry indexes; use partition "columns" with its columns'),
]


@pytest.mark.parametrize("options, message", RULES, ids=lambda v: str(v)[:30])
def test_a_wrong_rule_is_refused_with_the_reason(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Rule(matcher=("a.*", "b.*"), **options)
    assert str(caught.value) == message


@pytest.mark.parametrize("case", [c for c in DATA["topic_expressions"] if c["error"]], ids=lambda c: c["expression"])
def test_invalid_topic_expressions_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        topic_name(case["expression"], case["schema"] or "", case["table"] or "")
    assert str(caught.value).startswith(f"invalid topic expression: {case['expression']}; expected ")


def test_long_topics_are_cut() -> None:
    assert topic_name("{schema}_{table}", "s" * 200, "t" * 200) == "s" * 200 + "_" + "t" * 48


@pytest.mark.parametrize("case", PARTITIONS, ids=str)
def test_partitions_are_the_producers(case: dict[str, Any]) -> None:
    hashed = case.get("hashed_columns", [])
    dispatcher = Dispatcher(case["rule"], case["partitions"], tuple(case.get("columns", ())), None, UTC)
    shape = table(case.get("schema", "test"), case.get("table", "t"), hashed)
    image = {name: int(value) for name, value in hashed}
    assert dispatcher.partition(shape, image, {}, case.get("commit_ts", 0)) == case["expected"]


@pytest.mark.parametrize("case", [c for c in DATA["partitions"] if "error" in c], ids=lambda c: c["error"])
def test_rules_that_need_indexes_or_virtual_columns_are_refused(case: dict[str, Any]) -> None:
    """Changes carry neither indexes nor virtual generated columns."""
    shape = table("test", "t1", [["col1", ""], ["col2", ""]])
    index, columns = case.get("index", ""), tuple(case.get("columns", ()))

    def dispatch() -> int:
        rule = Rule(matcher=("*.*",), partition=case["rule"], index=index, columns=columns)
        return Dispatcher(rule.rule, 16, rule.columns, None, UTC).partition(shape, {}, {}, 0)

    with pytest.raises((ConfigError, UnsupportedError)) as caught:
        dispatch()
    message = (
        f'index "{index}": changes do not carry indexes; ' if index else "columns not found when dispatching test.t1"
    )
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("case", DATA["router"]["match"], ids=lambda c: f"{c['schema']}.{c['table']}")
def test_the_first_rule_that_matches_counts(case: dict[str, Any]) -> None:
    match = ROUTER.rule(case["schema"], case["table"])
    topic = match.topic if match is not None else ""
    assert {"": "static default"}.get(topic, "dynamic" if "{" in topic else "static") == case["topic"]
    rule = match.rule if match is not None else "default"
    assert {"rowid": "index-value"}.get(rule, rule) == case["partition"]


@pytest.mark.parametrize("case", DATA["router"]["partitions"], ids=str)
def test_partitions_of_routed_tables_are_the_producers(case: dict[str, Any]) -> None:
    match = ROUTER.rule(case["schema"], case["table"])
    assert match is not None
    columns = [c for c in case.get("columns", []) if c[0] in case["handle"]]
    dispatcher = Dispatcher(match.rule, case["n"], match.columns, None, UTC)
    image = {name: int(value) for name, value in columns}
    shape = table(case["schema"], case["table"], columns)
    assert dispatcher.partition(shape, image, {}, case.get("commit_ts", 0)) == case["expected"]


@pytest.mark.parametrize("case", DATA["position_inertia"], ids=lambda c: str(c["sum32"]))
def test_hash_sums_are_the_producers(case: dict[str, Any]) -> None:
    writes = [tuple(text.encode() for text in write) for write in case["writes"]]
    assert f"{hash_of(writes):08x}" == case["sum32"]


def test_null_is_hashed_by_classic_and_left_out_by_newarch() -> None:
    shape = table("test", "t1", [["a", ""]])
    classic, newarch = (Dispatcher("index-value", 16, (), null, UTC) for null in (b"null", None))
    assert newarch.partition(shape, {"a": None}, {}, 0) == 15  # as the rule `table`
    assert classic.partition(shape, {"a": None}, {}, 0) == hash_of([(b"test", b"t1"), (b"a", b"null")]) % 16


def test_a_column_that_the_table_lacks_is_named() -> None:
    dispatcher = Dispatcher("columns", 16, ("col2", "col-not-found"), None, UTC)
    with pytest.raises(UnsupportedError) as caught:
        dispatcher.partition(table("test", "t1", [["col1", ""], ["col2", ""]]), {}, {}, 0)
    assert str(caught.value) == "columns not found when dispatching test.t1: col-not-found; it has col1, col2"


def test_an_unknown_rule_shows_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        Dispatcher("index-values", 3, (), None, UTC)
    assert str(caught.value) == (
        'unknown partition dispatcher "index-values". Did you mean "index-value"? '
        "Known: columns, default, index-value, table, ts"
    )


@pytest.mark.parametrize(
    "type_text, value, text",
    [
        ("double", 1e21, b"1000000000000000000000"),
        ("float", 1.5, b"1.5"),
        ("varbinary", b"\xff", b"\xff"),
        ("varchar", "é", b"\xc3\xa9"),
        ("date", 0, b"1970-01-01"),
        ("datetime(3)", 1_500_000, b"1970-01-01 00:00:01.500"),
        ("timestamp", 0, b"1970-01-01 00:00:00"),
        ("bit", 5, b"5"),
        ("enum('a','b')", "b", b"2"),
        ("set('a','b')", "a,b", b"3"),
        ("bigint unsigned", 2**64 - 1, b"18446744073709551615"),
    ],
)
def test_value_texts(type_text: str, value: Any, text: bytes) -> None:
    assert value_text(value, ColumnType.parse(type_text), UTC) == text
