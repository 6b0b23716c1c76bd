"""Transactions in two phases: their rows are in the tables as from XA COMMIT, in whatever order they end, and however late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from changefeed.errors import SourceError, UnsupportedError
from changefeed.pipeline.state import State
from changefeed.sources.mysql import open_changes, reader
from changefeed.sources.mysql.dump import dump
from changefeed.sources.mysql.reader import Part
from changefeed.sources.mysql.source_offset import LogPosition, Prepared, read
from changefeed.sources.mysql.xa import find_prepared
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.applications import Applications
from tests.sources.mysql.following import Follower, section

TABLES = ("a", "log")


@pytest.fixture(
    params=[
        (MariaDb,),
        pytest.param((MariaDb, "--log-bin-compress=ON", "--log-bin-compress-min-len=10"), marks=pytest.mark.nightly),
        pytest.param((MySql,), marks=pytest.mark.nightly),
        pytest.param((MySql, "--binlog-row-metadata=MINIMAL"), marks=pytest.mark.nightly),
    ],
    ids=["mariadb", "mariadb-compressed", "mysql", "mysql-minimal"],
)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    server, *options = request.param
    with server(*options) as started:
        started.execute(
            "CREATE DATABASE shop; USE shop; CREATE TABLE a (id INT PRIMARY KEY, v TEXT); CREATE TABLE log (n INT, v TEXT);"
            "CREATE TABLE zz_other (id INT PRIMARY KEY)"
        )
        yield started


def differing(follower: Follower, state: State, database: Database) -> dict[str, Any]:
    """The rows that only a table, or only the server has; by the names of the tables."""
    paths = {table.table.name: table.path for table in state.tables.values()}
    others = {}
    for name in TABLES:
        ours = Counter(tuple(map(str, row.values())) for row in follower.storage.tables.rows(paths[name]))
        right = Counter(map(tuple, database.selected(f"SELECT * FROM {name}", "shop")))
        if ours != right:
            others[name] = (ours - right, right - ours, state.source)
    return others


class WhileWriting(Follower):
    """A pipeline, between whose parts applications may write."""

    applications: Applications | None = None

    def before(self, part: Part) -> None:
        """See `Follower`."""
        if self.applications is not None and self.random.random() < 0.3:
            self.applications.step()


@pytest.mark.parametrize("by_kernel", [True, False], ids=["kernel", "reference"])
@pytest.mark.parametrize("histories", [1, pytest.param(10, marks=pytest.mark.nightly)])
def test_tables_have_what_is_committed(
    database: Database, by_kernel: bool, histories: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_kernel:
        monkeypatch.setattr(reader, "is_available", lambda: False)
    for _ in range(histories):
        seed = Random().randrange(10**6)
        print(f"seed {seed}")  # shown if the test fails
        compare(database, Random(seed))


def compare(database: Database, random: Random) -> None:
    """Follows applications that write, and compares the tables with the server's now and then."""
    database.execute("DELETE FROM a; DELETE FROM log; DELETE FROM zz_other; FLUSH BINARY LOGS", "shop")
    # MySQL's copy of a table without a key locks it, and waits for a transaction that has written to it
    applications = Applications(database, random, keyless=database.connector == "mariadb")
    for _ in range(random.randrange(6)):  # some are prepared before the pipeline begins
        applications.step()
    options = {"max-bytes-per-batch": [1, 300, 2000, 10**6], "chunk-rows": [3, 100]}
    follower = WhileWriting(database, ["shop.a", "shop.log"], random, options)
    follower.applications = applications
    follower.run()
    follower.applications, applications.keyless = None, True
    for _ in range(12):
        for _ in range(random.randrange(5)):
            applications.step()
        if random.random() < 0.1:
            database.execute("FLUSH BINARY LOGS")
        follower.run(batches=random.randrange(3))
        if random.random() < 0.5:
            assert differing(follower, follower.run(), database) == {}
    for xid in applications.prepared:
        database.execute(f"XA COMMIT {xid}")
    state = follower.run()
    assert differing(follower, state, database) == {}
    assert read(str(state.source)).prepared == ()


def test_a_prepared_transaction_whose_log_is_gone_is_named(database: Database) -> None:
    if database.connector == "mariadb":
        pytest.skip("MariaDB keeps such files of its log")
    database.execute("XA START 'old'; INSERT INTO a VALUES (1, 'x'); XA END 'old'; XA PREPARE 'old'", "shop")
    database.execute("FLUSH BINARY LOGS; FLUSH BINARY LOGS")
    follower = Follower(database, ["shop.a", "shop.log"], Random(1))
    follower.run()
    *_, last = sorted(file.name for file in database.binlogs())
    database.execute(f"PURGE BINARY LOGS TO '{last}'")
    database.execute("INSERT INTO a VALUES (2, 'y'); XA COMMIT 'old'", "shop")
    with pytest.raises(SourceError, match=r"no XA PREPARE of the transaction X'6f6c64',X'',1 .* start a new pipeline"):
        follower.run()
    follower.options = {"snapshot.mode": ["when_needed"]}
    state = follower.run()
    assert differing(follower, state, database) == {}


def test_compressed_transactions_in_two_phases_are_refused() -> None:
    with MySql("--binlog-transaction-compression=ON") as database:
        database.execute("CREATE DATABASE shop; CREATE TABLE shop.a (id INT PRIMARY KEY)")
        follower = Follower(database, ["shop.*"], Random(1))
        follower.run()
        database.execute("XA START 'one'; INSERT INTO a VALUES (1); XA END 'one'; XA PREPARE 'one'", "shop")
        with pytest.raises(UnsupportedError, match=r"XA PREPARE, at .*binlog_transaction_compression = OFF"):
            follower.run()


def test_the_newest_transaction_of_a_name_is_found(database: Database) -> None:
    for key, end in enumerate(["COMMIT", "ROLLBACK", ""]):
        writes = f"INSERT INTO a VALUES ({key}, 'x')"
        database.execute(f"XA START 'n'; {writes}; XA END 'n'; XA PREPARE 'n'", "shop")
        if end:
            database.execute(f"XA {end} 'n'; FLUSH BINARY LOGS")
    source = open_changes(section(database))
    logs = [[*dump(source.address, LogPosition(file.name, 4))] for file in sorted(database.binlogs(), reverse=True)]
    transaction = find_prepared("X'6e',X'',1", logs)
    assert transaction is not None
    assert transaction.start.file == sorted(database.binlogs())[-1].name
    assert transaction == Prepared(transaction.start, transaction.end)
    assert find_prepared("X'6e',X'',2", logs) is None
    source.close()
