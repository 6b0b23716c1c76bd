"""MySQL servers that refuse FLUSH TABLES WITH READ LOCK, as managed ones do: the captured tables are locked in its place."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from threading import Event, Thread, Timer
from time import sleep
from typing import Any

import pytest
from pymysql.cursors import Cursor
from pymysql.err import OperationalError

from changefeed.api.events import load_pipeline
from changefeed.errors import AccessError, SourceError
from changefeed.mysql.gtid_set import MySqlGtids, parse
from changefeed.pipeline import copy_requests
from changefeed.sources.copies import CopyRequest
from changefeed.sources.mysql import open_changes, table_locks
from changefeed.sources.mysql.connection import Address, connect
from changefeed.sources.mysql.discovery import discover
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.tables import list_tables
from changefeed.ticdc.dispatch.matcher import TableFilter
from tests.pipeline.events import appended
from tests.services.database import Database, MySql
from tests.sources.mysql.following import Follower, section

pytestmark = pytest.mark.nightly  # as all tests of MySQL

RIGHTS = "SELECT, REPLICATION SLAVE, REPLICATION CLIENT"
OPTIONS: dict[str, list[Any]] = {"user": ["weak"], "password": ["weak"]}
NAMES = [("shop", "a"), ("shop", "b"), ("shop", "log")]
_DEADLOCK = 1213
SLOW_COMMIT = "SET GLOBAL binlog_group_commit_sync_delay = {}"  # microseconds between the log and the engine


@pytest.fixture(scope="module", params=[True, False], ids=["gtid", "positions"])
def started(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A server for the tests of this file."""
    with MySql(gtid=request.param) as server:
        server.execute(
            "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'; CREATE USER weak@'%' IDENTIFIED BY 'weak';"
            "SET GLOBAL rpl_semi_sync_source_timeout = 100000"
        )
        yield server


@pytest.fixture
def database(started: Database) -> Database:
    """The server with three tables in `shop`, of which `weak` may lock each, and one in `other`."""
    rows = ", ".join(f"({number}, 'row {number}')" for number in range(40))
    started.execute(
        "DROP DATABASE IF EXISTS shop; DROP DATABASE IF EXISTS other;"
        "CREATE DATABASE shop; CREATE DATABASE other; CREATE TABLE other.t (id INT PRIMARY KEY, v TEXT); USE shop;"
        "CREATE TABLE a (id INT PRIMARY KEY, v TEXT); CREATE TABLE b LIKE a; CREATE TABLE log (n INT, KEY (n));"
        f"INSERT INTO a VALUES {rows}; INSERT INTO b VALUES {rows}; INSERT INTO log VALUES (1), (2), (2);"
        f"REVOKE ALL ON *.* FROM weak@'%'; REVOKE IF EXISTS LOCK TABLES ON shop.* FROM weak@'%';"
        f"GRANT {RIGHTS} ON *.* TO weak@'%'; GRANT LOCK TABLES ON shop.* TO weak@'%'"
    )
    return started


@pytest.fixture
def server(database: Database) -> Iterator[Server]:
    """A connection of the user who may not take the global lock."""
    opened = Server.open(Address("127.0.0.1", database.port, "weak", "weak"))
    yield opened
    opened.close()


def listed(server: Server) -> list[tuple[str, str]]:
    return list_tables(server, TableFilter(["shop.*"]))


@contextmanager
def in_the_log(database: Database, statement: str) -> Iterator[None]:
    """A statement that is in the log, and whose changes no query sees until a second later: it waits for a replica."""
    database.execute("SET GLOBAL rpl_semi_sync_source_enabled = ON")
    release = Timer(1, database.execute, ["SET GLOBAL rpl_semi_sync_source_enabled = OFF"])
    running = Thread(target=database.execute, args=(statement, "shop"))
    with closing(Server.open(Address("127.0.0.1", database.port, "dbz", "dbz"))) as server:
        before = server.end()
        running.start()
        while server.end() == before:
            sleep(0.01)
        release.start()
        yield
    running.join()
    release.join()


def count(server: Server, table: str) -> int:
    [(rows,)] = server.texts(f"SELECT COUNT(*) FROM {table}")
    return int(rows)


def test_a_transaction_before_the_position_can_be_seen(database: Database, server: Server) -> None:
    with in_the_log(database, "DELETE FROM a"):
        end = server.end()
        assert count(server, "shop.a") == 40
        at, _ = table_locks.committed(server, NAMES)
        assert at == end
        assert count(server, "shop.a") == 0


def test_a_view_has_what_is_before_its_position(database: Database, server: Server) -> None:
    with in_the_log(database, "DELETE FROM a"):
        assert count(server, "shop.a") == 40
        at, _ = table_locks.begin_view(server, listed)
    end = server.end()
    assert at == end
    database.execute("DELETE FROM b", "shop")
    assert (count(server, "shop.a"), count(server, "shop.b")) == (0, 40)


def test_the_gtids_have_a_transaction_of_another_table_that_is_not_committed(
    database: Database, server: Server
) -> None:
    """A replica that takes over is asked for what comes after them."""
    for find in (
        partial(table_locks.committed, server, NAMES),
        partial(table_locks.begin_view, server, listed),
        partial(table_locks.end, server),
    ):
        with in_the_log(database, "INSERT INTO other.t SELECT COUNT(*), 'x' FROM other.t"):
            _, executed = server.end_with_gtids()
            at, gtids = find()
            assert at == server.end()
        server.rows("COMMIT")
        assert (gtids is None) == (executed is None)
        if gtids is not None and executed is not None:
            [(right,)] = database.selected("SELECT @@GLOBAL.gtid_executed", "shop")
            assert str(parse(gtids)) == str(parse(right)) != str(parse(executed))


def test_a_transaction_that_is_in_the_log_later_is_not_among_the_gtids(database: Database, server: Server) -> None:
    _, executed = server.end_with_gtids()
    at, gtids = table_locks.begin_view(server, listed)
    assert gtids == executed
    database.execute("INSERT INTO a VALUES (100, 'later')", "shop")
    assert server.end().number > at.number
    if isinstance(ours := parse(gtids or ""), MySqlGtids) and gtids:
        assert server.lacks(gtids) == ""
        [(right,)] = database.selected("SELECT @@GLOBAL.gtid_executed", "shop")
        assert str(ours) != str(parse(right))


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE c (id INT PRIMARY KEY)", "RENAME TABLE other.t TO shop.t", "DROP TABLE b"]
)
def test_a_view_begins_again_if_the_tables_change_before_the_lock(
    database: Database, server: Server, statement: str
) -> None:
    calls = 0

    def names(asked: Server) -> list[tuple[str, str]]:
        nonlocal calls
        calls += 1
        before = listed(asked)
        if calls == 1:
            database.execute(statement, "shop")
        return before

    at, _ = table_locks.begin_view(server, names)
    assert calls == (3 if statement.startswith("DROP") else 4)
    assert at == server.end()
    assert listed(server) != NAMES


def test_a_view_does_not_begin_where_tables_are_made_again_and_again(database: Database, server: Server) -> None:
    def names(asked: Server) -> list[tuple[str, str]]:
        before = listed(asked)
        database.execute(f"CREATE TABLE c{len(before)} (id INT)", "shop")
        return before

    with pytest.raises(SourceError, match="tables are created or dropped again and again") as error:
        table_locks.begin_view(server, names)
    assert error.value.transient


@pytest.mark.parametrize("end", ["detached", "restarted"])
def test_a_transaction_that_stays_prepared_is_named(
    database: Database, server: Server, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its changes are not in the log as committed ones, and its lock outlives its session and the server."""
    monkeypatch.setattr(table_locks, "_SECONDS_OF_ONE", 1)
    monkeypatch.setattr(table_locks, "_SECONDS_OF_ALL", 1)
    database.execute("XA START 'x'; INSERT INTO b VALUES (100, 'x'); XA END 'x'; XA PREPARE 'x'", "shop")
    if end == "restarted":
        database.restart()
        server = Server.open(server.address)
    for find, tables in (
        (partial(table_locks.committed, server, NAMES), "shop.b"),
        (partial(table_locks.begin_view, server, listed), "shop.a, shop.b, shop.log"),
    ):
        with pytest.raises(SourceError) as error:
            find()
        assert error.value.transient
        assert str(error.value).endswith(
            f"no lock of {tables} after 1 s: a transaction that has written a table is open (XA RECOVER lists those that are "
            "prepared), or a schema change is running"
        )
    database.execute("XA COMMIT 'x'")
    table_locks.committed(server, NAMES)
    assert count(server, "shop.b") == 41


@pytest.mark.parametrize("code", [1045, 1227, 1290])
def test_each_refusal_of_the_global_lock_leads_to_the_locks_of_tables(
    database: Database, code: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Amazon RDS answers 1045 to a user who has RELOAD."""
    execute = Cursor.execute

    def refusing(cursor: Cursor, query: Any, args: Any = None) -> int:
        if query == "FLUSH TABLES WITH READ LOCK":
            raise OperationalError(code, "refused")
        return int(execute(cursor, query, args))

    monkeypatch.setattr(Cursor, "execute", refusing)
    opened = Server.open(Address("127.0.0.1", database.port, "dbz", "dbz"))
    with caplog.at_level(logging.INFO, "changefeed"):
        assert table_locks.committed(opened, NAMES)[0] == opened.end()
        assert table_locks.begin_view(opened, listed)[0] == opened.end()
    opened.close()
    assert [record.getMessage().partition(" refuses ")[2] for record in caplog.records] == [
        "FLUSH TABLES WITH READ LOCK: LOCK TABLES … READ locks each of 3 captured tables for a moment, one after the other; "
        "writes to it wait",
        "FLUSH TABLES WITH READ LOCK: LOCK TABLES … READ locks all 3 captured tables for a moment; writes to them wait",
    ]


def test_without_any_right_to_lock_both_ways_out_are_named(database: Database) -> None:
    database.execute("REVOKE LOCK TABLES ON shop.* FROM weak@'%'")
    uri = f"mysql://weak:weak@127.0.0.1:{database.port}/"
    assert [str(one) for one in discover(uri).wrong] == [
        "the right LOCK TABLES is missing, and must be granted: GRANT LOCK TABLES ON *.* TO 'weak'@'%'"
    ]  # RELOAD would not be enough for the table without a key
    tables = open_changes(section(database, tables=["shop.a"], user="weak", password="weak"))
    missing = tables.missing()
    assert missing is not None
    assert missing.what.endswith("the right LOCK TABLES or RELOAD is missing")
    assert missing.fix == "GRANT LOCK TABLES ON *.* TO 'weak'@'%', or GRANT RELOAD ON *.* TO 'weak'@'%'"
    refused = r"neither .*RELOAD.* nor .*LOCK TABLES.* \(.*Access denied for user 'weak'@'%' to database 'shop'\)"
    with pytest.raises(AccessError, match=refused) as error:
        tables.plan(None, None)
    for statement in ("GRANT RELOAD ON *.* TO 'weak'@'%'", "GRANT SELECT, LOCK TABLES ON *.* TO 'weak'@'%'"):
        assert statement in str(error.value)
    tables.close()


@pytest.mark.parametrize(
    "grant", ["LOCK TABLES ON shop.*", "LOCK TABLES ON *.*", "RELOAD ON *.*", "FLUSH_TABLES ON *.*"]
)
def test_one_right_to_lock_is_enough(database: Database, grant: str) -> None:
    database.execute(f"REVOKE LOCK TABLES ON shop.* FROM weak@'%'; GRANT {grant} TO weak@'%'; DROP TABLE shop.log")
    assert discover(f"mysql://weak:weak@127.0.0.1:{database.port}/").wrong == ()
    follower = Follower(database, ["shop.*"], Random(1), OPTIONS)
    assert differing(follower, database) == []


def differing(follower: Follower, database: Database) -> list[str]:
    """The names of the tables whose rows are not the server's after a run; equal rows are counted."""
    state, names = follower.run(), []
    for table in state.tables.values():
        actual = Counter(tuple(map(str, row.values())) for row in follower.storage.tables.rows(table.path))
        if actual != Counter(map(tuple, database.selected(f"SELECT * FROM {table.table.name}", "shop"))):
            names.append(table.table.name)
    return sorted(names)


@pytest.mark.parametrize("again", [False, True])
def test_a_copy_that_begins_while_a_transaction_is_in_the_log_alone(database: Database, again: bool) -> None:
    follower = Follower(database, ["shop.*"], Random(1), OPTIONS)
    if again:
        assert differing(follower, database) == []
        copy_requests.add(follower.requests, CopyRequest((("shop", "a"), ("shop", "log"))))
    statements = "BEGIN; UPDATE a SET v = 'later'; INSERT INTO log VALUES (1), (7); COMMIT"
    with in_the_log(database, statements):
        follower.run()
    assert differing(follower, database) == []


@dataclass
class Writers:
    """Applications that write all the time: transactions of several tables, of another database, and DDL there.

    Attributes:
        changes: whether they update and delete rows of the table without a key, too.
        errors: of statements that should not fail.
    """

    database: Database
    changes: bool
    errors: list[Exception] = field(default_factory=list)
    _stop: Event = field(default_factory=Event)

    @contextmanager
    def writing(self) -> Iterator[None]:
        self.database.execute(SLOW_COMMIT.format(15_000))  # often, a transaction is in the log alone
        threads = [Thread(target=self._write, args=(number,)) for number in range(4)]
        threads.append(Thread(target=self._define))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
            self.database.execute(SLOW_COMMIT.format(0))
        assert self.errors == []

    def _write(self, number: int) -> None:
        random, connection = Random(number), connect(Address("127.0.0.1", self.database.port, "dbz", "dbz"))
        with closing(connection), connection.cursor() as cursor:
            while not self._stop.is_set():
                try:
                    self._transaction(cursor, random, number)
                except OperationalError as error:
                    if error.args[0] != _DEADLOCK:  # of the locks of tables; it was rolled back
                        self.errors.append(error)
                        return

    def _transaction(self, cursor: Cursor, random: Random, number: int) -> None:
        cursor.execute("BEGIN")
        for _ in range(random.randint(1, 4)):
            table, key = random.choice("ab"), 4 * random.randrange(60) + number  # no deadlocks of rows
            cursor.execute(
                random.choice([
                    f"REPLACE INTO shop.{table} VALUES ({key}, 'v{random.randrange(99)}')",
                    f"UPDATE shop.{table} SET v = CONCAT(LEFT(v, 9), '.') WHERE id = {key}",
                    f"DELETE FROM shop.{table} WHERE id = {key}",
                    f"INSERT INTO shop.log VALUES ({random.randrange(4)}), ({number})",
                    f"REPLACE INTO other.t VALUES ({key}, 'x')",
                ])
            )  # fmt: skip
        if self.changes and random.random() < 0.1:
            cursor.execute(f"INSERT INTO shop.log VALUES ({100 + number})")
            cursor.execute(f"DELETE FROM shop.log WHERE n = {100 + number}")
        cursor.execute(random.choice(["COMMIT"] * 9 + ["ROLLBACK"]))

    def _define(self) -> None:
        number = 0
        while not self._stop.is_set():
            self.database.execute(
                f"CREATE TABLE more{number} (id INT); INSERT INTO more{number} VALUES (1); RENAME TABLE more{number} TO less;"
                f"ALTER TABLE less ADD COLUMN c INT; TRUNCATE TABLE less; DROP TABLE less",
                "other",
            )
            number += 1


@pytest.mark.parametrize("seed", range(3))
def test_tables_are_the_servers_while_it_is_written(database: Database, seed: int) -> None:
    """A first copy, a table that joins, and tables that are copied again."""
    random = Random(seed)
    options = OPTIONS | {"chunk-rows": [7, 50], "max-records-per-batch": [14, 100]}
    follower = Follower(database, ["shop.a", "shop.log"], random, options)
    with Writers(database, changes=False).writing():
        follower.run(batches=random.randint(1, 40))
        follower.tables = ["shop.*"]
        follower.run(batches=random.randint(1, 40))
        for tables in (["a"], ["log", "b"], ["a", "b", "log"]):
            copy_requests.add(follower.requests, CopyRequest(tuple(("shop", name) for name in tables)))
            follower.run(batches=random.randint(1, 40))
    assert differing(follower, database) == []
    assert len(follower.storage.published()[-1].tables) == 3


@pytest.mark.parametrize("seed", range(3))
def test_events_have_each_change_once_while_the_server_is_written(
    database: Database, seed: int, tmp_path: Path
) -> None:
    """The first snapshot of an event pipeline, and snapshots on request: each event fits what the events before it have."""
    path = appended.write(tmp_path, database)
    path.write_text(path.read_text().replace("dbz", "weak"))
    with Writers(database, changes=True).writing():
        for again in ([], ["shop.a"], ["shop.a", "shop.b", "shop.log"]):
            pipeline = load_pipeline(path)
            if again:
                pipeline.snapshot(again)
            pipeline.run()
    load_pipeline(path).run()
    tables = replayed(appended.rows(tmp_path))
    for name in ("a", "b", "log"):
        right = Counter(map(tuple, database.selected(f"SELECT * FROM {name}", "shop")))
        assert Counter(tuple(map(str, json.loads(row).values())) for row in tables[name].elements()) == right, name


def replayed(events: list[tuple[str, str, Any, Any, Any]]) -> dict[str, Counter[str]]:
    """The rows of tables after these events; an event that does not fit the rows before it is an error."""
    tables = dict[str, Counter[str]]()
    for (table, is_snapshot), group in groupby(events, lambda event: (event[0], event[1] == "r")):
        if is_snapshot:
            rows = Counter(json.dumps(after) for *_, after in group)
            assert tables.setdefault(table, rows) == rows, table
            continue
        rows = tables[table]
        for _, op, _, before, after in group:
            if before is not None:
                assert rows[json.dumps(before)] > 0, (table, op, before, after)
                rows[json.dumps(before)] -= 1
            if after is not None:
                assert table == "log" or not any(json.loads(row)["id"] == after["id"] for row in +rows), (
                    table,
                    op,
                    after,
                )
                rows[json.dumps(after)] += 1
        tables[table] = +rows
    return tables
