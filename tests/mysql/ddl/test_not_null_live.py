"""Columns that become NOT NULL, on real servers: what they make of NULL, and what the product makes of it."""

from __future__ import annotations

import base64
import random
from typing import Any, Literal

import pytest

from changefeed.mysql.ddl import parse
from changefeed.mysql.ddl.apply import alter
from changefeed.mysql.ddl.defaults import Execution
from changefeed.mysql.ddl.statements import AlterTable, CreateTable
from changefeed.pipeline.planning.values import default_for_null
from tests.live.session import Session
from tests.services.database import MariaDb, MySql

pytestmark = pytest.mark.nightly

DEFAULTS = {
    "INT": ["7", "-1", "'5'"], "BIGINT UNSIGNED": ["18446744073709551615"], "DECIMAL(6,2)": ["1.5", "-0.01"],
    "DOUBLE": ["1.5"], "VARCHAR(9)": ["'x'", "''", "'ä '"], "VARCHAR(20)": ["'long'"], "CHAR(4)": ["'x'"],
    "BINARY(3)": ["'abc'"], "VARBINARY(5)": ["'ab'"], "DATE": ["'2001-02-03'"], "DATETIME": ["'2001-02-03 04:05:06'"],
    "DATETIME(3)": ["'2001-02-03 04:05:06.789'", "CURRENT_TIMESTAMP(3)"], "TIME(3)": ["'-838:59:59'", "'10:20:30.5'"],
    "YEAR": ["2001", "'1999'"], "BIT(4)": ["b'1010'"], "ENUM('a','b')": ["'b'", "'a'"], "ENUM('a','b','c')": ["'c'"],
    "SET('a','b')": ["'a,b'"], "TEXT": ["'x'"], "BLOB": ["'x'"], "BIGINT": ["(1 + 2)", "7"],
}  # fmt: skip
CLAUSES = [
    "", ", FORCE", ", ALGORITHM=COPY", ", ALGORITHM = INPLACE", ", ADD INDEX (id)", ", ADD COLUMN w INT FIRST", ", DROP COLUMN u",
    ", MODIFY u BIGINT", ", MODIFY u INT NOT NULL", ", RENAME COLUMN u TO x", ", COMMENT 'c'", ", ADD h INT AS (id) STORED",
    ", ADD h INT AS (id) VIRTUAL", ", ADD UNIQUE KEY (id)", ", DROP PRIMARY KEY", ", DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)",
    ", ALTER COLUMN u SET DEFAULT 4", ", DROP COLUMN g", ", CONVERT TO CHARACTER SET latin1", ", DEFAULT CHARACTER SET latin1",
    ", ADD FULLTEXT KEY (f)", ", ORDER BY u", ", MODIFY f VARCHAR(50)", ", MODIFY f VARCHAR(500)",
    ", MODIFY f TEXT", ", ENGINE=InnoDB",
]  # fmt: skip


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_null_becomes_what_the_server_makes_of_it(server: Literal["mariadb", "mysql"]) -> None:
    seed = random.randrange(10_000)
    chance, wrong, compared = random.Random(seed), list[str](), 0
    with (MariaDb if server == "mariadb" else MySql)() as database, Session(database) as session:
        session.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
        session.execute("USE d")
        session.execute("SET sql_mode = ''")
        for _ in range(300):
            old, new = chance.choice(list(DEFAULTS)), ""
            new = old if chance.random() < 0.6 else chance.choice(list(DEFAULTS))
            default = chance.choice(["", *(f" DEFAULT {d}" for d in DEFAULTS[old])])
            changed = chance.choice(["MODIFY v", "CHANGE v v"])
            generated = chance.choice(["", "", ", g INT AS (u) VIRTUAL", ", g INT AS (u) STORED"])
            create = f"CREATE TABLE t (id INT PRIMARY KEY, v {old} NULL{default}, u INT, f VARCHAR(20){generated})"
            change = f"ALTER TABLE t {changed} {new} NOT NULL{chance.choice(CLAUSES)}"
            session.execute("DROP TABLE IF EXISTS t")
            done = [session.execute(sql) for sql in (create, "INSERT INTO t (id, v, u) VALUES (1, NULL, 1)", change)]
            if any(done):
                continue
            expected = becomes(create, change, server)
            if expected is None:
                continue
            compared += 1
            if session.query(f"SELECT v <=> {expected} FROM t") != [["1"]]:
                is_now = session.query("SELECT HEX(v), v FROM t")
                wrong.append(f"{create}; {change}: {is_now}, not {expected}")
    assert not wrong, f"seed {seed}: " + "\n".join(wrong)
    assert compared > 100


def becomes(create: str, change: str, server: Literal["mariadb", "mysql"]) -> str | None:
    """Returns the value that the product takes NULL in the column `v` for, as SQL; None if it does not know."""
    [made], [altered] = parse(create, "d"), parse(change, "d")
    assert isinstance(made, CreateTable)
    assert isinstance(altered, AlterTable)
    rows = alter(made.definition, altered, Execution(is_mariadb=server == "mariadb")).rows
    column = next(p for p in rows if p.column.name == "v")
    default = default_for_null(column, server)
    if default.unknown:
        return None
    return literal(default.value if default.irregular is None else default.irregular)


def literal(value: Any) -> str:
    """A canonical value as SQL."""
    if isinstance(value, dict):
        return f"X'{base64.b64decode(value['base64']).hex()}'"
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)
