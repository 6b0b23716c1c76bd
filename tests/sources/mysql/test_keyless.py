"""Tables without a key in a copy: their rows are the server's, equal rows included, whatever is written meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from threading import Event, Thread

import pytest

from changefeed.errors import AccessError, ConfigError
from changefeed.pipeline.state import State
from changefeed.sources.mysql import open_changes
from changefeed.sources.mysql.connection import Address, connect
from changefeed.sources.mysql.discovery import discover
from changefeed.sources.mysql.first_copy import CopyChunk
from changefeed.sources.mysql.reader import Part, read
from tests.killed import Killed
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.following import Follower, section


@pytest.fixture(params=[MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)], ids=["mariadb", "mysql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        server.execute(
            "CREATE DATABASE shop; USE shop; CREATE TABLE log (n INT, note TEXT); CREATE TABLE hits (page VARCHAR(9), at DATE);"
            "CREATE TABLE orders (id INT PRIMARY KEY, v INT);"
            "INSERT INTO log VALUES (1, 'a'), (1, 'a'), (1, 'a'), (NULL, NULL), (NULL, NULL), (2, 'b');"
            "INSERT INTO hits VALUES ('home', '2026-01-01'), ('home', '2026-01-01'); INSERT INTO orders VALUES (1, 1), (2, 2)"
        )
        yield server


def check(follower: Follower, state: State, database: Database, names: str) -> None:
    """Compares the tables with the server's; equal rows are counted."""
    paths = {table.table.name: table.path for table in state.tables.values()}
    assert paths.keys() == set(names.split())
    for name, path in paths.items():
        actual = Counter(tuple(map(_text, row.values())) for row in follower.storage.tables.rows(path))
        assert actual == Counter(tuple(row) for row in database.selected(f"SELECT * FROM {name}", "shop")), name


def _text(value: object) -> str:
    return "NULL" if value is None else str(value)


class Writing(Follower):
    """A pipeline beside which the server is written just before a part of the copy is read.

    Attributes:
        statements: executed once, before the next part of a table without a key.
    """

    statements: str = ""

    def before(self, part: Part) -> None:
        if self.statements and isinstance(part, CopyChunk) and part.table.is_keyless:
            self.database.execute(self.statements, "shop")
            self.statements = ""


def test_rows_that_are_there_before_the_copy(database: Database) -> None:
    follower = Follower(database, ["shop.*"], Random(1))
    check(follower, follower.run(), database, "log hits orders")
    database.execute("INSERT INTO log VALUES (1, 'a'), (1, 'a'), (NULL, NULL); UPDATE orders SET v = 3", "shop")
    check(follower, follower.run(), database, "log hits orders")


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_table_that_is_written_between_plan_and_view(database: Database, seed: int) -> None:
    """Its changes before the view are in the view: an update and a delete, too, which the log alone could not apply."""
    follower = Writing(database, ["shop.*"], Random(seed))
    follower.statements = (
        "INSERT INTO log VALUES (1, 'a'), (3, 'c'); UPDATE log SET note = 'later' WHERE n = 2; DELETE FROM log WHERE n IS NULL;"
        "INSERT INTO hits VALUES ('home', '2026-01-01'); DELETE FROM orders WHERE id = 1"
    )
    state = follower.run()
    assert not follower.statements
    check(follower, state, database, "log hits orders")
    database.execute("INSERT INTO log VALUES (1, 'a'); INSERT INTO hits VALUES ('home', NULL)", "shop")
    check(follower, follower.run(), database, "log hits orders")


def test_a_table_that_joins(database: Database) -> None:
    follower = Writing(database, ["shop.orders"], Random(2))
    follower.run()
    follower.tables = ["shop.orders", "shop.log"]
    check(follower, follower.run(), database, "log orders")
    follower.tables = ["shop.*"]
    follower.statements = "INSERT INTO hits VALUES ('home', '2026-01-01'), ('x', NULL); INSERT INTO log VALUES (1, 'a')"
    check(follower, follower.run(), database, "log hits orders")


@pytest.mark.parametrize("then", ["shop.*", "shop.hits", "shop.log"])
def test_a_copy_that_begins_again_where_nothing_was_written_meanwhile(database: Database, then: str) -> None:
    """The rows of the earlier try are at the same place of the log: they are dropped all the same."""
    follower = Follower(database, ["shop.log", "shop.orders"], Random(1))
    follower.run(batches=1)
    follower.tables = [then]
    follower.run(batches=1)
    follower.tables = ["shop.orders", then]
    check(follower, follower.run(), database, "log hits orders" if then == "shop.*" else f"{then[5:]} orders")


def test_a_copy_that_begins_again_at_the_view_of_the_earlier_try(database: Database) -> None:
    follower = Writing(database, ["shop.*"], Random(1))
    follower.statements = "ALTER TABLE orders ADD COLUMN c INT DEFAULT 5; INSERT INTO log VALUES (1, 'a'), (3, 'c')"
    follower.run(batches=1)
    assert not follower.statements
    check(follower, follower.run(), database, "log hits orders")


def test_a_copy_that_begins_again_in_a_log_that_was_reset_and_had_more_files(database: Database) -> None:
    follower = Writing(database, ["shop.*"], Random(1), {"snapshot.mode": ["when_needed"]})
    follower.statements = "FLUSH LOGS; FLUSH LOGS; FLUSH LOGS; INSERT INTO log VALUES (1, 'a'), (3, 'c')"
    follower.run(batches=1)
    assert not follower.statements
    database.execute("RESET MASTER")
    check(follower, follower.run(), database, "log hits orders")
    database.execute(
        "INSERT INTO log VALUES (4, 'd'); FLUSH LOGS; FLUSH LOGS; FLUSH LOGS; INSERT INTO log VALUES (5, 'e')", "shop"
    )
    check(follower, follower.run(), database, "log hits orders")


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(3, 12))])
def test_copies_that_are_killed_while_the_tables_are_written(database: Database, seed: int) -> None:
    random, stop = Random(seed), Event()
    options = {"chunk-rows": [3, 50], "max-records-per-batch": [3, 100], "max-bytes-per-batch": [600, 10**6]}
    follower = Follower(database, ["shop.log", "shop.orders"], random, options)
    writer = Thread(target=_write, args=(database, stop))
    writer.start()
    try:
        for number in range(8):
            follower.tables = ["shop.*"] if number > 3 else follower.tables
            if random.random() < 0.2:
                database.execute(f"ALTER TABLE log ADD COLUMN c{number} INT DEFAULT {number}", "shop")
            try:
                follower.run(kill=0.3, batches=random.randint(1, 4))
            except Killed:
                continue
    finally:
        stop.set()
        writer.join()
    check(follower, follower.run(), database, "log hits orders")


def _write(database: Database, stop: Event) -> None:
    random = Random(4)
    connection = connect(Address("127.0.0.1", database.port, "dbz", "dbz"))
    with connection.cursor() as cursor:
        cursor.execute("USE shop")
        while not stop.is_set():
            cursor.execute("BEGIN")
            cursor.execute(f"INSERT INTO log (n, note) VALUES ({random.randrange(3)}, 'a'), (1, 'a')")
            cursor.execute(f"REPLACE INTO orders VALUES ({random.randrange(40)}, {random.randrange(99)})")
            cursor.execute(f"INSERT INTO hits VALUES ('p{random.randrange(2)}', NULL)")
            cursor.execute("COMMIT" if random.random() < 0.9 else "ROLLBACK")
            stop.wait(0.005)
    connection.close()


def test_behaviors_do_not_concern_the_changes_of_a_copy(database: Database) -> None:
    """With `lenient`, a TRUNCATE of the server's would keep the rows; that of a copy must not."""
    for behavior in ("lenient", "exception", "ignore"):
        follower = Writing(database, ["shop.*"], Random(1), pipeline={"schema.change.behavior": behavior})
        follower.statements = "INSERT INTO log VALUES (1, 'a'), (9, 'z'); INSERT INTO hits VALUES ('home', NULL)"
        check(follower, follower.run(), database, "log hits orders")


def test_an_engine_without_views_is_refused_by_name(database: Database) -> None:
    database.execute(
        "CREATE TABLE old (n INT) ENGINE = MyISAM; CREATE TABLE keyed (n INT PRIMARY KEY) ENGINE = MyISAM", "shop"
    )
    source = open_changes(section(database, tables=["shop.*"]))
    with pytest.raises(ConfigError) as error:
        source.plan(None, None)
    source.close()
    assert str(error.value) == (
        "tables without a primary key whose storage engine has no consistent view, so that no copy can be made of them: "
        "shop.old. Give each a primary key or the engine InnoDB, leave it out (!`shop`.`old` in source.tables), or set "
        "snapshot.mode to `no_data`"
    )


@pytest.mark.nightly
def test_a_user_that_may_not_lock_the_table() -> None:
    with MySql() as database:
        database.execute(
            "CREATE DATABASE shop; CREATE TABLE shop.log (n INT); CREATE USER weak@'%' IDENTIFIED BY 'weak';"
            "GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO weak@'%'"
        )
        uri = f"mysql://weak:weak@127.0.0.1:{database.port}/"
        [missing] = discover(uri).wrong
        assert str(missing) == (
            "the right LOCK TABLES is missing, and must be granted: GRANT LOCK TABLES ON *.* TO 'weak'@'%'"
        )
        source = open_changes(section(database, tables=["shop.*"], user="weak", password="weak"))
        missing_before_a_run = source.missing()
        assert missing_before_a_run is not None
        assert missing_before_a_run.fix == missing.fix
        plan = source.plan(None, None)
        assert plan is not None
        [chunk] = [part for part in plan.parts if isinstance(part, CopyChunk)]
        with pytest.raises(AccessError) as error:
            list(read(plan.reading, chunk))
        source.close()
        assert str(error.value).endswith(
            "`shop`.`log` has no key, and its copy needs the right LOCK TABLES, to lock it for a moment: GRANT LOCK TABLES ON "
            "*.* TO 'weak'@'%'"
        )
        database.execute("ALTER TABLE shop.log MODIFY n INT NOT NULL, ADD UNIQUE (n)")
        assert discover(uri).wrong == ()
        database.execute("CREATE TABLE shop.more (n INT); GRANT LOCK TABLES ON shop.* TO weak@'%'")
        assert discover(uri).wrong == ()
