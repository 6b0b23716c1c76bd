"""Texts that are not DDL or are ambiguous; and statements of other parsers' tests, whole and damaged."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changefeed.errors import UnsupportedError
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.tokens import MAX_LENGTH

STATEMENTS = Path(__file__).parents[2] / "data" / "ddl" / "statements.jsonl.gz"

REFUSED = [
    ("", "expected a DDL statement, found the end at character 0 of ''"),
    ("SELECT 1", "expected a DDL statement, found 'SELECT' at character 0 of 'SELECT 1'"),
    ("DROP TABLE a DROP TABLE b", "expected the end, found 'DROP' at character 13 of 'DROP TABLE a DROP TABLE b'"),
    ("DROP TABLE a; SELECT 1", "expected a DDL statement, found 'SELECT' at character 14 of 'DROP TABLE a; SELECT 1'"),
    ("SET STATEMENT a=1", "expected FOR, found the end at character 17 of 'SET STATEMENT a=1'"),
    (
        "CREATE FOREIGN TABLE t (event INT)",
        "CREATE of an unknown kind of object, found 'FOREIGN' at character 7 of 'CREATE FOREIGN TABLE t (event INT)'",
    ),
    (
        "CREATE UNIQUE INDEX u ON t (a) INCLUDE (b)",
        "expected an option of an index, found 'INCLUDE' at character 31 of 'CREATE UNIQUE INDEX u ON t (a) INCLUDE (b)'",
    ),
    ("CREATE TABLE t (a CASH)", "expected a column type, found 'CASH' at character 18 of 'CREATE TABLE t (a CASH)'"),
    ("CREATE TABLE t (a INT FROB)", "expected ), found 'FROB' at character 22 of 'CREATE TABLE t (a INT FROB)'"),
    ("ALTER TABLE t FROB", "expected a change of the table, found 'FROB' at character 14 of 'ALTER TABLE t FROB'"),
    (
        "ALTER TABLE t ENGINE=x DROP a",
        "expected a comma, found 'DROP' at character 23 of 'ALTER TABLE t ENGINE=x DROP a'",
    ),
    (
        "CREATE TABLE t (a INT) AS SELECT 1",
        "a table made from a query has no row events, found 'AS' at character 23 of "
        "'CREATE TABLE t (a INT) AS SELECT 1'",
    ),
    ("DROP TABLE `a", "'`a' is not a token, or a quote is not closed at character 11 of 'DROP TABLE `a'"),
    ("DROP TABLE a /* b", "a comment is not closed at character 13 of 'DROP TABLE a /* b'"),
    ("DROP TABLE a /*!40101 b", "expected the end, found 'b' at character 22 of 'DROP TABLE a /*!40101 b'"),
]


@pytest.mark.parametrize("text, why", REFUSED, ids=[t for t, _ in REFUSED])
def test_refused(text: str, why: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse(text, "db")
    assert str(caught.value) == f"DDL that cannot be read: {why}"


def test_a_table_without_a_database_is_refused_unless_the_event_names_one() -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse("TRUNCATE t", None)
    assert str(caught.value) == (
        "DDL that cannot be read: table t is named without a database, found 't' at character 9 of 'TRUNCATE t'"
    )


def test_members_with_a_backslash_are_ambiguous_when_tidb_restored_the_statement() -> None:
    text = r"CREATE TABLE `d`.`t` (`e` ENUM('a','\','x\y'))"
    with pytest.raises(UnsupportedError) as caught:
        parse(text, None, restored=True)
    assert str(caught.value).startswith(
        "DDL that cannot be read: a member of ENUM or SET with a backslash: TiDB does not escape it when it "
        "restores the statement, so the members are ambiguous, found"
    )


def test_a_statement_too_long_is_not_even_read() -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse("TRUNCATE t" + " " * MAX_LENGTH, "db")
    assert str(caught.value) == "the DDL statement has 4194314 characters, the limit is 4194304"


def collected() -> list[str]:
    return [json.loads(line)["sql"] for line in gzip.decompress(STATEMENTS.read_bytes()).splitlines()]


def test_statements_of_other_parsers_are_read() -> None:
    refused = []
    for text in collected():
        try:
            assert parse(text, "db")
        except UnsupportedError as error:
            refused.append(str(error).partition(" at character")[0])
    assert refused == [
        "DDL that cannot be read: expected an option of an index, found 'alter'",  # two, unseparated
        "DDL that cannot be read: a table made from a query has no row events, found 'TABLE'",  # two, unseparated
    ]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_statements_are_read_or_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(collected()))[:2000]
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 30))
    put = data.draw(
        st.text("()'`\"\\,;/*!0aé \0", max_size=5) | st.sampled_from(["/*!", "ADD", "PRIMARY KEY", "9" * 5000])
    )
    with contextlib.suppress(UnsupportedError):
        assert parse(text[:at] + put + text[at + cut :], "db")
