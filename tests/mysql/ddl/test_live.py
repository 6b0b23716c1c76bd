"""Random ALTER statements on a real MariaDB and MySQL: columns and indexes are those of information_schema afterwards."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest

from changefeed.model.definition import Table
from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.apply import alter
from changefeed.mysql.ddl.statements import AlterTable, CreateTable
from tests.services.database import Database, MariaDb, MySql

pytestmark = pytest.mark.nightly

HISTORIES, STATEMENTS = 60, 6
RUN = """\
DELIMITER //
CREATE PROCEDURE d.run(IN sql_text TEXT) BEGIN
  DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET @failed = 1;
  SET @failed = 0, @statement = sql_text;
  SET SESSION group_concat_max_len = 100000;
  PREPARE prepared FROM @statement;
  IF @failed = 0 THEN EXECUTE prepared; DEALLOCATE PREPARE prepared; END IF;
  SELECT @failed,
    (SELECT GROUP_CONCAT(column_name, ' ', data_type, ' ', is_nullable ORDER BY ordinal_position SEPARATOR ', ')
      FROM information_schema.columns WHERE table_schema = 'd' AND table_name = 't'),
    (SELECT GROUP_CONCAT(x ORDER BY x SEPARATOR ' ') FROM (
      SELECT CONCAT(index_name, IF(non_unique, '', '!'),
        '(', GROUP_CONCAT(COALESCE(column_name, '') ORDER BY seq_in_index), ')') AS x
      FROM information_schema.statistics WHERE table_schema = 'd' AND table_name = 't' GROUP BY index_name, non_unique
    ) AS indexes);
END //
DELIMITER ;
"""
NAMES = ["a", "b", "c", "d", "e"]
TYPES = [
    "INT", "BIGINT", "VARCHAR(5)", "DATE", "INT NOT NULL", "VARCHAR(9) CHARSET latin1", "TEXT", "CHAR(3)",
    "VARCHAR(9) COLLATE utf8mb4_bin", "TEXT CHARACTER SET binary", "VARBINARY(3)", "NCHAR(4)",
]  # fmt: skip


@pytest.fixture(scope="module", params=[MariaDb, MySql], ids=["mariadb", "mysql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        server.execute("CREATE DATABASE d; CREATE TABLE d.p (x INT PRIMARY KEY, y INT, UNIQUE (y))")
        server.execute(RUN)
        yield server


class Statements:
    """Random parts of CREATE and ALTER TABLE."""

    def __init__(self, seed: int, *, mariadb: bool) -> None:
        self._random = random.Random(seed)
        self._mariadb = mariadb

    def create(self) -> str:
        columns = [f"{name} {self._type()}" for name in self._random.sample(NAMES, 3)]
        names = [c.split()[0] for c in columns]
        keys = [self._key(names) for _ in range(self._random.randrange(3))]
        options = self._random.choice(["", "", " CHARSET=binary", " DEFAULT CHARACTER SET latin1"])
        return f"CREATE TABLE d.t (z INT, {', '.join(columns + keys)}){options}"

    def alter(self, table: Table) -> str:
        columns = [c.name for c in table.columns]
        indexes = [k.name for k in table.uniques] + [i.name for i in table.indexes] or ["a"]
        parts = [self._part(columns, indexes) for _ in range(self._random.choice([1, 1, 2, 2, 3]))]
        return f"ALTER TABLE d.t {', '.join(parts)}"

    def _part(self, columns: list[str], indexes: list[str]) -> str:
        one = self._random.choice
        name, old, there = one(NAMES), one(columns), self._there
        match self._random.randrange(12):
            case 0 | 1:
                return f"ADD COLUMN {there('IF NOT EXISTS ')}{name} {self._type()}{self._place(columns)}"
            case 2:
                return f"DROP COLUMN {there('IF EXISTS ')}{old}"
            case 3 | 4:
                return f"MODIFY COLUMN {there('IF EXISTS ')}{old} {self._type()}{self._place(columns)}"
            case 5 | 6:
                return f"CHANGE COLUMN {there('IF EXISTS ')}{old} {name} {self._type()}{self._place(columns)}"
            case 7:
                return f"RENAME COLUMN {old} TO {name}"
            case 8 | 9:
                return f"ADD {self._key([*columns, name])}"
            case 10:
                return f"DROP INDEX {there('IF EXISTS ')}`{one(indexes)}`"
        return one([
            f"RENAME INDEX `{one(indexes)}` TO {name}", "DEFAULT CHARSET binary", "CHARACTER SET utf8mb4",
            f"CONVERT TO CHARACTER SET {one(['binary', 'latin1', 'utf8mb4'])}",
        ])  # fmt: skip

    def _there(self, words: str) -> str:
        return words if self._mariadb and self._random.random() < 0.4 else ""

    def _type(self) -> str:
        return self._random.choice(TYPES)

    def _place(self, columns: list[str]) -> str:
        name = self._random.choice(columns + NAMES)
        return self._random.choice(["", "", " FIRST", f" AFTER {name}"])

    def _key(self, columns: list[str]) -> str:
        one = self._random.choice
        name, first, second = one(["", "", one(NAMES)]), one(columns), one(columns)
        parts = f"({first})" if first == second or self._random.random() < 0.7 else f"({first}, {second})"
        there = self._there("IF NOT EXISTS ")
        if not self._mariadb and self._random.random() < 0.1:
            return f"KEY {name} (({first} + 1))"
        kinds = [f"KEY {there}{name} {parts}", f"UNIQUE {there}{name} {parts}", f"PRIMARY KEY {there}{parts}"]
        return one([*kinds, f"CONSTRAINT k{one(NAMES)} UNIQUE {parts}", f"FOREIGN KEY ({first}) REFERENCES d.p (x)"])


def shown(table: Table) -> tuple[str, str]:
    """The columns and the indexes in the form of the server."""
    columns = ", ".join(f"{c.name} {c.type.name} {'NO' if c.nullable is False else 'YES'}" for c in table.columns)
    indexes = [f"{k.name}!({','.join(k.columns)})" for k in table.uniques]
    return columns, " ".join(sorted(indexes + [f"{i.name}({','.join(i.columns)})" for i in table.indexes]))


def run(database: Database, statement: str) -> tuple[bool, str, str]:
    """Runs a statement; returns whether it worked, and the table's columns and indexes afterwards."""
    text = statement.replace("'", "''")
    row = ElementTree.fromstring(database.execute(f"CALL d.run('{text}')"))[0]
    failed, columns, indexes = (field.text or "" for field in row)
    columns = re.sub(r"\b(tiny|medium|long)(text|blob)", r"\2", columns)  # CONVERT TO makes room for longer characters
    return failed == "0", columns, " ".join(sorted(indexes.split(" "))) if indexes else ""


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_tables_are_as_the_server_has_them(database: Database, seed: int) -> None:
    draw = Statements(seed, mariadb=database.connector == "mariadb")
    history: list[Any] = []
    worked = False
    while not worked:
        database.execute("DROP TABLE IF EXISTS d.t")
        history = [draw.create()]
        worked, columns, indexes = run(database, history[0])
    [created] = parse(history[0], "d")
    assert isinstance(created, CreateTable)
    table = created.definition
    assert shown(table) == (columns, indexes), history
    for _ in range(STATEMENTS):
        text = draw.alter(table)
        if re.search(
            r"DROP COLUMN (?:IF EXISTS )?(\w).* (?:ADD COLUMN (?:IF NOT EXISTS )?|CHANGE COLUMN .* |TO )\1\b", text
        ):
            continue  # such a column stays in its indexes by its first characters, or they are taken for gone
        worked, columns, indexes = run(database, text)
        history.append(text)
        if not worked:
            history.pop()
            continue
        for statement in parse(text, "d"):
            if isinstance(statement, AlterTable):
                table = alter(table, statement).table
        assert shown(table) == (columns, indexes), history
