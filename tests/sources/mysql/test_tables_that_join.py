"""Tables that `source.tables` selects later: they are copied, while the others go on, and under any kill."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from changefeed.pipeline.state import State
from changefeed.sources.mysql.source_offset import read
from tests.killed import Killed
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.following import Follower

TABLES = ("a", "b", "c")
PATTERNS = [["shop.a"], ["shop.a", "shop.b"], ["shop.*"], ["shop.?"]]


@pytest.fixture(params=[MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)], ids=["mariadb", "mysql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        server.execute("CREATE DATABASE shop")
        for table in TABLES:
            server.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v TEXT)", "shop")
            write(server, table, 0)
        yield server


def write(database: Database, table: str, first: int) -> None:
    """Twenty new rows; some of all rows change, and some go."""
    rows = ", ".join(f"({n}, 'row {n}')" for n in range(first, first + 20))
    database.execute(
        f"INSERT INTO {table} (id, v) VALUES {rows}; UPDATE {table} SET v = 'changed at {first}' WHERE id % 7 = 1;"
        f"DELETE FROM {table} WHERE id % 11 = 5",
        "shop",
    )


def check(follower: Follower, state: State, database: Database, names: str) -> None:
    """Compares the tables with the server's, row by row."""
    tables = {table.table.name: table.path for table in state.tables.values()}
    assert tables.keys() == set(names)
    for name, path in tables.items():
        rows = sorted(list(map(str, row.values())) for row in follower.storage.tables.rows(path))
        assert rows == sorted(database.selected(f"SELECT * FROM {name}", "shop")), name


def test_a_table_that_joins_is_copied(database: Database) -> None:
    follower = Follower(database, ["shop.a"], Random(1), {"chunk-rows": [7]})
    check(follower, follower.run(), database, "a")
    for table in TABLES:
        write(database, table, 100)
    follower.tables = ["shop.a", "shop.b"]
    before = follower.run()
    check(follower, before, database, "ab")
    for table in TABLES:
        write(database, table, 200)
    after = follower.run()
    check(follower, after, database, "ab")
    assert read(str(after.source)).copy is None

    follower.tables = ["shop.*"]
    write(database, "a", 300)
    check(follower, follower.run(), database, "abc")


def test_a_table_that_is_left_out_again_is_dropped_if_it_was_not_complete(database: Database) -> None:
    options = {"chunk-rows": [5], "max-records-per-batch": [5], "max-bytes-per-batch": [600]}
    follower = Follower(database, ["shop.a"], Random(3), options)
    follower.run()
    follower.tables = ["shop.a", "shop.b"]
    assert read(str(follower.run(batches=3).source)).joining is not None
    for first in (100, 200, 300):
        write(database, "a", first)
    follower.tables = ["shop.a"]
    follower.run(batches=2)
    state = follower.run()
    check(follower, state, database, "a")
    assert read(str(state.source)).copy is None


def test_no_cut_has_a_part_of_a_table_that_joins(database: Database) -> None:
    follower = Follower(database, ["shop.a"], Random(2), {"chunk-rows": [5], "max-records-per-batch": [5]})
    before = follower.run()
    write(database, "a", 100)
    follower.tables = ["shop.a", "shop.b"]
    joining = follower.run(batches=3)
    assert read(str(joining.source)).joining is not None
    assert joining.barrier == before.barrier
    assert [table.table.name for table in joining.tables.values()] == ["a"]
    write(database, "b", 100)
    check(follower, follower.run(), database, "ab")


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 12))])
def test_joins_that_are_killed_changed_and_met_by_ddl(database: Database, seed: int) -> None:
    random = Random(seed)
    options = {"chunk-rows": [3, 9], "max-records-per-batch": [6, 20], "max-bytes-per-batch": [600, 10**6]}
    follower = Follower(database, ["shop.a"], random, options)
    for step in range(1, 13):
        follower.tables = random.choice(PATTERNS) if step > 3 else ["shop.a"]
        for table in TABLES:
            write(database, table, 100 * step)
        if random.random() < 0.3:
            table = random.choice(TABLES)
            database.execute(f"ALTER TABLE {table} ADD COLUMN c{step} INT NOT NULL DEFAULT {step}", "shop")
        try:
            follower.run(kill=0.2, batches=random.randint(1, 5))
        except Killed:
            continue
    follower.tables = ["shop.*"]
    check(follower, follower.run(), database, "abc")
