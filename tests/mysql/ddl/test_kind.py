"""The name of a statement's action."""

from __future__ import annotations

import pytest

from changefeed.mysql.ddl.kind import kind


@pytest.mark.parametrize(
    "text, word",
    [
        ("CREATE DATABASE d", "create_database"),
        ("DROP DATABASE IF EXISTS d", "drop_database"),
        ("CREATE TABLE t (a INT)", "create_table"),
        ("DROP TABLE a, b", "drop_table"),
        ("RENAME TABLE a TO b", "rename_table"),
        ("TRUNCATE TABLE t", "truncate_table"),
        ("ALTER TABLE t ADD COLUMN a INT, ADD COLUMN b INT", "add_column"),
        ("ALTER TABLE t ADD COLUMN a INT, DROP COLUMN b", "multi_schema_change"),
        ("ALTER TABLE t MODIFY a BIGINT", "modify_column"),
        ("ALTER TABLE t RENAME COLUMN a TO b", "rename_column"),
        ("SET character_set_server=utf8mb4", "other"),
        ("USE d", "other"),
        ("no statement at all", "other"),
        ("", "other"),
    ],
)
def test_statements_have_one_word(text: str, word: str) -> None:
    assert kind(text, "d") == word
