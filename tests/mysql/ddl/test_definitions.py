"""The definitions that statements leave, one after the other."""

from __future__ import annotations

import pytest

from changefeed.model.definition import Table
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.definitions import definitions_after

A, TABLE_B = "CREATE TABLE a (id INT PRIMARY KEY, n INT)", "CREATE TABLE b (m INT)"


def after(*texts: str) -> dict[str, list[str]]:
    """Table -> its columns after the statements, the key's with a `!`."""
    tables: dict[tuple[str, str], Table] = {}

    def named(*name: str) -> Table | None:
        return tables.get((name[0], name[1]))

    def tables_of(database: str) -> list[tuple[str, str]]:
        return [name for name in tables if name[0] == database]

    for statement in [statement for text in texts for statement in parse(text, "shop")]:
        for name, table in definitions_after(statement, named, tables_of):
            tables.pop(name, None)
            if table is not None:
                assert name == (table.database, table.name)
                tables[name] = table
    return {
        ".".join(name): [column.name + "!" * (column.name in table.keys) for column in table.columns]
        for name, table in tables.items()
    }


@pytest.mark.parametrize(
    "statements, tables",
    [
        ([A], {"shop.a": ["id!", "n"]}),
        ([A, "ALTER TABLE a DROP PRIMARY KEY, ADD c INT FIRST"], {"shop.a": ["c", "id", "n"]}),
        ([A, "CREATE TABLE IF NOT EXISTS a (other INT)"], {"shop.a": ["id!", "n"]}),
        (["CREATE TABLE IF NOT EXISTS b (m INT)"], {"shop.b": ["m"]}),
        ([A, "CREATE TABLE b LIKE a"], {"shop.a": ["id!", "n"], "shop.b": ["id!", "n"]}),
        ([A, "CREATE TABLE crm.b LIKE a", "DROP TABLE a"], {"crm.b": ["id!", "n"]}),
        (["CREATE TABLE b LIKE a"], {}),
        ([TABLE_B, "CREATE OR REPLACE TABLE b LIKE a"], {}),
        ([A, "CREATE OR REPLACE TABLE a (m INT)"], {"shop.a": ["m"]}),
        ([A, TABLE_B, "RENAME TABLE a TO c, b TO a, c TO b"], {"shop.a": ["m"], "shop.b": ["id!", "n"]}),
        ([A, "ALTER TABLE a DROP n, RENAME TO crm.d"], {"crm.d": ["id!"]}),
        (["RENAME TABLE a TO b"], {}),
        ([A, "ALTER TABLE a DROP missing"], {}),
        ([A, "CREATE TABLE crm.b (m INT)", "DROP DATABASE shop"], {"crm.b": ["m"]}),
        ([A, "TRUNCATE TABLE a"], {"shop.a": ["id!", "n"]}),
    ],
    ids=lambda value: "; ".join(value) if isinstance(value, list) else "",
)
def test_definitions_after_statements(statements: list[str], tables: dict[str, list[str]]) -> None:
    assert after(*statements) == tables
