"""Schema changes that leave rows with values that only the server has: a copy of the table, requested or by `when_needed`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from changefeed.errors import UnknownRowsError
from changefeed.pipeline import copy_requests
from changefeed.sources.copies import CopyRequest
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.following import Follower, names, rows
from tests.sources.mysql.histories import SERVERS, follow

TABLES = (
    "CREATE TABLE a (id INT PRIMARY KEY, v INT); CREATE TABLE b LIKE a; INSERT INTO a VALUES (1, 1), (2, 2), (3, 3);"
    "INSERT INTO b SELECT * FROM a"
)
ADDED = "UPDATE a SET v = 9 WHERE id = 1; ALTER TABLE a ADD COLUMN g INT AS (v + 1) STORED; INSERT INTO a (id, v) VALUES (4, 4)"
LATER = "INSERT INTO b VALUES (7, 7); UPDATE a SET v = 5 WHERE id = 2; DELETE FROM a WHERE id = 3"
CASES = {
    "added": f"{ADDED}; {LATER}",
    "twice": f"{ADDED}; {LATER}; ALTER TABLE a ADD COLUMN h INT AS (g * 2) STORED; UPDATE a SET v = 6 WHERE id = 1",
    "two tables": f"{ADDED}; {LATER}; ALTER TABLE b ADD COLUMN g INT AS (v + 1) STORED; UPDATE b SET v = 0 WHERE id = 1",
    "renamed": f"{ADDED}; {LATER}; RENAME TABLE a TO c; UPDATE c SET v = 6 WHERE id = 1",
    "swapped": f"{ADDED}; {LATER}; RENAME TABLE a TO c, b TO a, c TO b; UPDATE a SET v = 6; DELETE FROM b WHERE id = 1",
    "dropped": f"{ADDED}; {LATER}; DROP TABLE a",
    "made again": f"{ADDED}; {LATER}; DROP TABLE a; CREATE TABLE a (k INT PRIMARY KEY); INSERT INTO a VALUES (8)",
    "a new key": "ALTER TABLE a DROP PRIMARY KEY, ADD k INT AUTO_INCREMENT PRIMARY KEY; UPDATE a SET v = 0 WHERE k = 2;"
    "DELETE FROM a WHERE k = 1",
}


@pytest.fixture(
    scope="module", params=[MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)], ids=["mariadb", "mysql"]
)
def server(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as database:
        yield database


def _begun(server: Database, case: str, consistency: str, mode: str) -> tuple[Follower, str]:
    database = f"unknown_{list(CASES).index(case)}{consistency[0]}{mode[0]}"
    server.execute(f"CREATE DATABASE {database}; USE {database}; {TABLES}")
    options: dict[str, list[Any]] = {
        "chunk-rows": [1, 2],
        "max-bytes-per-batch": [1, 500, 10**6],
        "snapshot.mode": [mode],
    }
    follower = Follower(server, [f"{database}.*"], Random(case), options, pipeline={"consistency": consistency})
    follower.run()
    server.execute(CASES[case], database)
    return follower, database


def _check(follower: Follower, server: Database, database: str) -> None:
    """Asserts that the tables, and those of each cut, are the server's."""
    tables = [name for [name] in server.selected("SHOW TABLES", database)]
    assert names(follower) == [f"{database}.{name}" for name in sorted(tables)]
    for name in tables:
        actual = [tuple(map(str, row.values())) for row in rows(follower, f"{database}.{name}")]
        assert sorted(actual) == sorted(map(tuple, server.selected(f"SELECT * FROM {name}", database))), name


@pytest.mark.parametrize("consistency", ["transaction", "key"])
@pytest.mark.parametrize("case", CASES)
def test_tables_are_copied_again_when_needed(server: Database, case: str, consistency: str) -> None:
    follower, database = _begun(server, case, consistency, "when_needed")
    follower.run()
    _check(follower, server, database)
    server.execute("CREATE TABLE z (id INT PRIMARY KEY); INSERT INTO z VALUES (1)", database)
    follower.run()
    _check(follower, server, database)


def test_a_table_that_was_changed_under_a_name_that_is_not_captured(server: Database) -> None:
    server.execute(f"CREATE DATABASE away; CREATE DATABASE home; USE home; {TABLES}")
    follower = Follower(server, ["home.*"], Random(1), {"snapshot.mode": ["when_needed"]})
    follower.run()
    server.execute("RENAME TABLE home.a TO away.a; DELETE FROM away.a WHERE id = 1; RENAME TABLE away.a TO home.a")
    follower.run()
    _check(follower, server, "home")


@pytest.mark.parametrize("consistency", ["transaction", "key"])
def test_a_run_stops_until_the_copy_that_it_names_is_requested(server: Database, consistency: str) -> None:
    follower, database = _begun(server, "twice", consistency, "initial")
    for _ in range(2):
        with pytest.raises(UnknownRowsError, match=rf"changefeed snapshot … {database}.a`\), or set") as stopped:
            follower.run()
    copy_requests.add(follower.requests, CopyRequest(stopped.value.tables))
    cuts = len(follower.storage.published())
    follower.run()
    _check(follower, server, database)
    for state in follower.storage.published()[cuts:] if consistency == "transaction" else ():
        values = [row for row in follower.storage.tables.rows(state.tables[f"{database}.a"].path) if row["g"] is None]
        assert values == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, count",
    [("mariadb", 3), *(pytest.param(name, 40, marks=pytest.mark.nightly) for name in ("mariadb", "mysql"))],
)
def test_random_histories_never_stop(name: str, count: int) -> None:
    first = random.randrange(10**6)
    print(f"python -m tests.sources.mysql.histories {name} --first {first} --histories {count} --mode when_needed")
    with SERVERS[name]() as database:
        counts = follow(database, first, count, snapshot_mode="when_needed")
    assert counts["STOP"] <= count // 20, counts
