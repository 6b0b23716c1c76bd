"""The backlog of a live server, on all servers: rows of tables, then bytes of its log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from changefeed.sources.mysql import MySqlTables, open_changes
from changefeed.sources.mysql.source_offset import LogPosition, read
from tests.services.database import Database, MariaDb, MariaDb118, MySql, MySql97
from tests.sources.mysql.following import section

ROWS = 1000


@pytest.fixture(
    params=[MariaDb, *(pytest.param(server, marks=pytest.mark.nightly) for server in (MySql, MariaDb118, MySql97))],
    ids=["mariadb", "mysql", "mariadb-11.8", "mysql-9.7"],
)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        values = ", ".join(f"({n}, 'value {n}')" for n in range(ROWS))
        for table in ("a", "b"):
            server.execute(
                f"CREATE DATABASE IF NOT EXISTS shop; CREATE TABLE shop.{table} (id INT PRIMARY KEY, v TEXT)"
            )
            server.execute(f"INSERT INTO {table} VALUES {values}; ANALYZE TABLE {table}", "shop")
        yield server


@pytest.fixture
def source(database: Database) -> Iterator[MySqlTables]:
    opened = open_changes(section(database, **{"tables": ["shop.*"], "chunk-rows": 400, "max-records-per-batch": 400}))
    yield opened
    opened.close()


def test_what_is_left_shrinks_to_nothing(database: Database, source: MySqlTables) -> None:
    left = source.backlog(None)
    assert left.bytes is None
    assert left.records is not None
    rows = [left.records]
    plan = source.plan(None, None)
    while (
        plan is not None and plan.after.copy is not None and (left := source.backlog(plan.after.text())).bytes is None
    ):
        assert left.records is not None
        rows.append(left.records)
        plan = source.plan(plan.after.text(), None)
    assert rows == sorted(rows, reverse=True)
    assert len(rows) == 6  # three chunks of each table
    assert abs(rows[0] - 2 * ROWS) < ROWS / 2  # the server's estimates
    assert abs(rows[3] - ROWS) < ROWS / 2

    database.execute("INSERT INTO a VALUES (-1, 'new'); FLUSH LOGS; INSERT INTO a VALUES (-2, 'newer')", "shop")
    assert plan is not None
    before = plan.after
    files = database.binlogs()
    assert source.backlog(before.text()).bytes == sum(file.stat().st_size for file in files[-2:]) - before.at.position

    middle = LogPosition(files[-2].name, files[-2].stat().st_size)
    end = read(source.end(None, None))  # type: ignore[arg-type]
    while plan is not None:
        after, plan = plan.after, source.plan(plan.after.text(), end.text())
    assert source.backlog(after.text()).bytes == 0
    assert source._behind(source._ask(), before, middle).bytes == middle.position - before.at.position
