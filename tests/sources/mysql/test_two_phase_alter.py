"""MariaDB's `binlog_alter_two_phase`: an ALTER counts where it was committed; rows that are written meanwhile come before it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from random import Random

import pytest

from tests.services.database import Database, MariaDb
from tests.sources.mysql.following import Follower

ROWS = 20_000
WRITES = 200


@pytest.fixture(params=["MINIMAL", "FULL"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with MariaDb("--binlog-alter-two-phase=ON", f"--binlog-row-metadata={request.param}") as started:
        started.execute("CREATE DATABASE shop; USE shop; CREATE TABLE a (id INT PRIMARY KEY, v TEXT)")
        yield started


def rows(follower: Follower) -> list[tuple[str, ...]]:
    state = follower.run()
    lines = follower.storage.tables.rows(state.tables["shop.a"].path)
    return sorted(tuple("NULL" if value is None else str(value) for value in row.values()) for row in lines)


def on_server(database: Database) -> list[tuple[str, ...]]:
    return sorted(map(tuple, database.selected("SELECT * FROM a", "shop")))


def test_each_statement_counts_once_and_a_failed_one_not_at_all(database: Database) -> None:
    follower = Follower(database, ["shop.*"], Random(0), options={"max-bytes-per-batch": [1, 100, 1 << 20]})
    database.execute("INSERT INTO a VALUES (1, 'x'), (2, 'x')", "shop")
    follower.run()
    database.execute("ALTER TABLE a ADD COLUMN n INT NOT NULL DEFAULT 7; UPDATE a SET n = 8 WHERE id = 1", "shop")
    with pytest.raises(RuntimeError, match="Duplicate entry"):
        database.execute("ALTER TABLE a DROP COLUMN n, ADD UNIQUE KEY (v(1))", "shop")
    database.execute("CREATE INDEX i ON a (n); INSERT INTO a VALUES (3, 'y', 9)", "shop")
    assert rows(follower) == on_server(database)
    with pytest.raises(RuntimeError, match="Duplicate entry"):
        database.execute("ALTER TABLE a DROP COLUMN n, ADD UNIQUE KEY (v(1))", "shop")
    assert rows(follower) == on_server(database)


def test_rows_that_are_written_meanwhile_come_before_it(database: Database) -> None:
    database.execute(f"INSERT INTO a SELECT seq, REPEAT('x', 500) FROM seq_1_to_{ROWS}", "shop")
    follower = Follower(database, ["shop.*"], Random(0), options={"max-bytes-per-batch": [10_000, 1 << 20]})
    follower.run()
    writes = "".join(f"INSERT INTO a (id) VALUES ({ROWS + n}); DELETE FROM a WHERE id = {n};" for n in range(1, WRITES))
    writer = threading.Thread(target=database.execute, args=(writes, "shop"))
    writer.start()
    for statement in ("ADD COLUMN n INT DEFAULT 7, ALGORITHM=INPLACE", "DROP COLUMN v", "MODIFY n BIGINT FIRST"):
        database.execute(f"ALTER TABLE a {statement}", "shop")
    writer.join()
    assert rows(follower) == on_server(database)
