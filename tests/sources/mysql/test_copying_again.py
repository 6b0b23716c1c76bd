"""Tables that are copied again on request: afterwards they are the server's, whatever was written without the log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from changefeed.errors import ConfigError, SourceError
from changefeed.pipeline import copy_requests
from changefeed.pipeline.state import State
from changefeed.sources.copies import CopyRequest
from changefeed.sources.mysql import open_changes
from changefeed.sources.mysql.source_offset import read
from tests.killed import Killed
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.following import Follower, section

# What the log does not have: the tables differ from the server's from here on.
UNLOGGED = (
    "SET sql_log_bin = 0; DELETE FROM a WHERE id % 3 = 0; UPDATE a SET v = 'unlogged' WHERE id % 5 = 1;"
    "INSERT INTO a VALUES (1000, 'unlogged'); INSERT INTO log VALUES (7), (7); DELETE FROM log WHERE n = 1"
)


@pytest.fixture(params=[MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)], ids=["mariadb", "mysql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        rows = ", ".join(f"({n}, 'row {n}')" for n in range(40))
        server.execute(
            "CREATE DATABASE shop; USE shop; CREATE TABLE a (id INT PRIMARY KEY, v TEXT); CREATE TABLE b LIKE a; "
            f"CREATE TABLE log (n INT); INSERT INTO a VALUES {rows}; INSERT INTO b VALUES {rows}; INSERT INTO log VALUES (1), (2)"
        )
        yield server


def differing(follower: Follower, state: State, database: Database) -> list[str]:
    """The names of the tables whose rows are not the server's; equal rows are counted."""
    names = []
    for table in state.tables.values():
        rows = follower.storage.tables.rows(table.path)
        actual = Counter(tuple(map(str, row.values())) for row in rows)
        if actual != Counter(tuple(row) for row in database.selected(f"SELECT * FROM {table.table.name}", "shop")):
            names.append(table.table.name)
    return sorted(names)


def request(follower: Follower, *tables: str, where: str | None = None) -> None:
    copy_requests.add(follower.requests, CopyRequest(tuple(("shop", table) for table in tables), where))


@pytest.mark.parametrize("mode", ["initial", "no_data"])
def test_a_table_is_the_servers_afterwards(database: Database, mode: str) -> None:
    options: dict[str, list[Any]] = {"chunk-rows": [7], "max-records-per-batch": [14], "snapshot.mode": [mode]}
    follower = Follower(database, ["shop.*"], Random(1), options)
    follower.run()
    database.execute(UNLOGGED, "shop")
    database.execute("UPDATE b SET v = 'logged' WHERE id < 9; INSERT INTO a VALUES (2000, 'logged')", "shop")
    assert "a" in differing(follower, follower.run(), database)
    request(follower, "a")
    request(follower, "log")
    if mode == "no_data":
        request(follower, "b")
    state = follower.run()
    assert differing(follower, state, database) == []
    assert read(str(state.source)).requests == ()
    database.execute("UPDATE a SET v = 'later' WHERE id < 9; INSERT INTO log VALUES (7)", "shop")
    assert differing(follower, follower.run(), database) == []


def test_a_condition_merges_its_rows_and_removes_none(database: Database) -> None:
    follower = Follower(database, ["shop.*"], Random(1), {"chunk-rows": [7]})
    follower.run()
    database.execute(UNLOGGED, "shop")
    request(follower, "a", where="id < 20 -- the rest later")
    request(follower, "a", where="id >= 1000 OR id = 5")
    state = follower.run()
    [path] = [table.path for table in state.tables.values() if table.table.name == "a"]
    rows = {row["id"]: row["v"] for row in follower.storage.tables.rows(path)}
    server = {int(key): value for key, value in database.selected("SELECT * FROM a", "shop")}
    expected = {n: f"row {n}" for n in range(40)} | {n: v for n, v in server.items() if n < 20 or n >= 1000}
    assert rows == expected


def test_an_idle_server_takes_a_dozen_requests_and_then_waits(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Each copy needs positions of its own behind the end of the log; see Rule 3 of `planning.py`."""
    follower = Follower(database, ["shop.a"], Random(1))
    follower.run()
    for number in range(14):
        database.execute(f"SET sql_log_bin = 0; UPDATE a SET v = 'copy {number}'", "shop")
        request(follower, "a")
        state = follower.run()
        assert (differing(follower, state, database) == []) == (number < 12), number
    assert "no further tables are copied before the server writes its next transaction" in " ".join(caplog.messages)
    database.execute("INSERT INTO b VALUES (999, 'logged')", "shop")
    assert differing(follower, follower.run(), database) == []


def test_a_first_copy_that_begins_again_waits_in_its_own_words(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Other patterns make a first copy begin again; it needs positions of its own, too."""
    follower = Follower(database, ["shop.*"], Random(1), {"chunk-rows": [5], "max-records-per-batch": [5]})
    for number in range(14):
        follower.tables = ["shop.*"] if number % 2 else ["shop.a", "shop.b"]
        follower.run(batches=1)
    assert caplog.messages.count(
        "the copy of all tables does not begin again before the server writes its next transaction"
    )
    assert "no further tables" not in " ".join(caplog.messages)
    database.execute("INSERT INTO b VALUES (999, 'logged')", "shop")
    assert differing(follower, follower.run(), database) == []


def test_no_cut_has_a_part_of_a_table(database: Database) -> None:
    follower = Follower(database, ["shop.*"], Random(2), {"chunk-rows": [5], "max-records-per-batch": [5]})
    before = follower.run()
    request(follower, "a")
    database.execute("UPDATE b SET v = 'logged'", "shop")
    joining = follower.run(batches=3)
    assert read(str(joining.source)).requests == (CopyRequest((("shop", "a"),)),)
    assert {name: table.written for name, table in joining.tables.items() if name == "shop.a"} == {
        name: table.written for name, table in before.tables.items() if name == "shop.a"
    }
    assert differing(follower, follower.run(), database) == []


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 10))])
def test_copies_that_are_killed_and_met_by_ddl(database: Database, seed: int) -> None:
    random = Random(seed)
    options = {"chunk-rows": [3, 9], "max-records-per-batch": [6, 20], "max-bytes-per-batch": [600, 10**6]}
    follower = Follower(database, ["shop.a", "shop.log"], random, options)
    follower.run()
    database.execute(UNLOGGED, "shop")
    for step in range(1, 11):
        follower.tables = ["shop.*"] if step > 6 else follower.tables
        database.execute(
            f"INSERT INTO a (id, v) VALUES ({3000 + step}, 'new'); UPDATE a SET v = 'at {step}' WHERE id % 7 = {step % 7};"
            f"DELETE FROM a WHERE id = {step}; INSERT INTO log (n) VALUES ({step}), ({step}); UPDATE b SET v = '{step}'",
            "shop",
        )
        if random.random() < 0.5:
            request(follower, random.choice(["a", "log"]), where=None)
        if random.random() < 0.3:
            request(follower, "a", where=f"id % 4 = {step % 4}")
        if random.random() < 0.2:
            database.execute(f"ALTER TABLE a ADD COLUMN c{step} INT NOT NULL DEFAULT {step}", "shop")
        try:
            follower.run(kill=0.2, batches=random.randint(1, 5))
        except Killed:
            continue
    request(follower, "a", "log")
    assert differing(follower, follower.run(), database) == []


def test_a_table_that_is_dropped_meanwhile_ends_its_request(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    follower = Follower(database, ["shop.*"], Random(1))
    follower.run()
    request(follower, "a")
    request(follower, "b", where="v > 'r'")
    database.execute("DROP TABLE a; ALTER TABLE b DROP COLUMN v; INSERT INTO b VALUES (77)", "shop")
    state = follower.run()
    assert differing(follower, state, database) == []
    assert read(str(state.source)).requests == ()
    assert "not copied again, because the server has them no longer: shop.a" in " ".join(caplog.messages)
    assert "not copied again: the condition \"v > 'r'\" cannot be used for shop.b" in " ".join(caplog.messages)


def test_requests_that_are_refused(database: Database) -> None:
    cases: list[tuple[str, str | None, str]] = [
        ("other", None, "source.tables does not select shop.other: a pipeline copies the tables that it captures"),
        ("none", None, " has no table shop.none: correct the name, with upper and lower case as there"),
        (
            "log",
            "n = 1",
            "shop.log has no primary key, so that single rows cannot be found again: leave the condition out",
        ),
        ("a", "nothing = 1", "the condition 'nothing = 1' cannot be used for shop.a: "),
        ("a", "id = 1) OR (1", "the condition 'id = 1) OR (1' cannot be used for shop.a: "),
        ("a", "1 UNION SELECT 2", "the condition '1 UNION SELECT 2' cannot be used for shop.a: "),
    ]
    source = open_changes(section(database, tables=["shop.*", "!shop.other"]))
    for table, where, message in cases:
        with pytest.raises(ConfigError) as error:
            source.check_copy(CopyRequest((("shop", table),), where))
        assert message in str(error.value)
    source.close()
    first_copy_alone = open_changes(section(database, tables=["shop.*"], **{"snapshot.mode": "initial_only"}))
    with pytest.raises(ConfigError, match=r"with `snapshot\.mode: initial_only` this pipeline does not follow the log"):
        first_copy_alone.check_copy(CopyRequest((("shop", "a"),)))


def lose_log(database: Database, way: str) -> None:
    """Makes the log after the pipeline's position unavailable: files are deleted, or begin again."""
    database.execute("UPDATE a SET v = 'lost'; DELETE FROM a WHERE id < 5; INSERT INTO log VALUES (5), (5)", "shop")
    if way == "purged":
        database.execute("FLUSH LOGS; FLUSH LOGS")
        newest, deadline = database.binlogs()[-1].name, time.monotonic() + 30
        while database.binlogs()[0].name != newest and time.monotonic() < deadline:  # one that is sent is not purged
            database.execute(f"PURGE BINARY LOGS TO '{newest}'")
            time.sleep(0.1)
    else:
        database.execute("RESET MASTER")
    database.execute("UPDATE b SET v = 'after'; INSERT INTO log VALUES (6)", "shop")


@pytest.mark.parametrize("way", ["purged", "reset"])
@pytest.mark.parametrize("mode", ["when_needed", "initial"])
def test_a_log_that_is_lost(database: Database, way: str, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    follower = Follower(database, ["shop.*"], Random(1), {"snapshot.mode": [mode], "chunk-rows": [9]})
    before = follower.run()
    lose_log(database, way)
    if mode == "initial":
        with pytest.raises(SourceError, match=r"no longer has|was reset"):
            follower.run()
        return
    state = follower.run()
    assert differing(follower, state, database) == []
    assert "All tables are copied again, because of `snapshot.mode: when_needed`" in " ".join(caplog.messages)
    assert before.barrier is not None
    assert state.barrier is not None
    assert state.barrier > before.barrier
    database.execute("UPDATE a SET v = 'later'; INSERT INTO log VALUES (7)", "shop")
    caplog.clear()
    assert differing(follower, follower.run(), database) == []
    assert "copied again" not in " ".join(caplog.messages)
