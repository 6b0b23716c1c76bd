"""The meaning of statements in a log to a reader of rows."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.mysql.ddl import parse
from changefeed.sources.mysql import statements
from changefeed.sources.mysql.statements import begins_transaction, done_by_failed, meaning
from changefeed.ticdc.dispatch.matcher import TableFilter

SELECTOR = TableFilter(["shop.*", "!shop.tmp_*"])


@pytest.mark.parametrize(
    "text, database, expected",
    [
        ("BEGIN", "", "begin"),
        ("COMMIT", "shop", "commit"),
        ("ROLLBACK", "", "rollback"),
        ("SAVEPOINT `a`", "shop", "none"),
        ("XA START X'67',X'',1", "", "xa"),
        ("# Dummy event replacing event type 160 that slave cannot handle.   ", "", "none"),
        ("CREATE TABLE t (id INT)", "shop", "change"),
        ("CREATE TABLE t (id INT)", "other", "none"),
        ("CREATE TABLE other.t (id INT)", "shop", "none"),
        ("CREATE TABLE shop.t (id INT)", "other", "change"),
        ("CREATE TABLE tmp_t (id INT)", "shop", "none"),
        ("/* a note */ ALTER TABLE t ADD c INT", "shop", "change"),
        ("/*!40000 ALTER TABLE t ADD c INT */", "shop", "change"),
        ("/*M!100100 ALTER TABLE t ADD c INT */", "shop", "change"),
        ("-- a note\nDROP TABLE t", "shop", "change"),
        ("RENAME TABLE other.a TO shop.a", "other", "change"),
        ("RENAME TABLE other.a TO other.b", "shop", "none"),
        ("TRUNCATE TABLE t", "shop", "change"),
        ("DROP DATABASE shop", "", "change"),
        ("CREATE DATABASE mysql", "", "none"),
        ("DROP TABLE mysql.user", "shop", "none"),
        ("GRANT SELECT ON *.* TO u", "", "none"),
        ("CREATE VIEW v AS SELECT 1", "shop", "none"),
        ("ANALYZE TABLE t", "shop", "none"),
        ("INSERT INTO t VALUES (1)", "shop", "rows"),
        ("UPDATE t SET a = 1 WHERE b = 2", "shop", "rows"),
        ("DELETE FROM t WHERE b = 2", "shop", "rows"),
        ("INSERT INTO t VALUES (1)", "other", "none"),
        ("ALTER TABLE t DROP PARTITION p", "shop", "change"),
        ("ALTER TABLE t FROBNICATE", "shop", "change"),
    ],
)
def test_meanings(text: str, database: str, expected: str) -> None:
    assert meaning(text, database or None, SELECTOR) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("CREATE TABLE other.t (id INT)", "change"),
        ("RENAME TABLE other.a TO other.b", "change"),
        ("ALTER TABLE other.t FROBNICATE", "change"),
        ("INSERT INTO other.t VALUES (1)", "none"),
        ("INSERT INTO t VALUES (1)", "rows"),
        ("CREATE TABLE other.t (id INT) WITH SYSTEM VERSIONING", "none"),
        ("CREATE TABLE t (id INT) WITH SYSTEM VERSIONING", "history"),
        ("CREATE DATABASE mysql", "none"),
        ("DROP TABLE mysql.user", "none"),
        ("GRANT SELECT ON *.* TO u", "none"),
    ],
)
def test_schema_changes_of_other_tables(text: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader whose pipeline keeps the definitions of all tables; each statement is parsed once."""
    parsed = list[str]()

    def counting(statement: str, database: str | None) -> Any:
        parsed.append(statement)
        return parse(statement, database)

    monkeypatch.setattr(statements, "parse", counting)
    assert meaning(text, "shop", SELECTOR, all_changes=True) == expected
    assert parsed == [text]


def test_a_table_with_rows_begins_a_transaction() -> None:
    assert begins_transaction("CREATE TABLE `t` (`a` int) START TRANSACTION")
    assert not begins_transaction("CREATE TABLE `t` (`a` int)")


def test_what_a_statement_that_failed_has_done() -> None:
    assert done_by_failed("CREATE OR REPLACE TABLE t (id INT)", "shop") == "DROP TABLE IF EXISTS `shop`.`t`"
    assert done_by_failed("DROP TABLE t, u", "shop") is None
    assert done_by_failed("ALTER TABLE t ADD c INT", "shop") is None
    assert done_by_failed("ALTER TABLE t FROBNICATE", "shop") is None
