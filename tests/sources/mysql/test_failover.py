"""The address leads to another server: a real replica that takes over, on both servers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from changefeed.errors import SourceError
from changefeed.mysql.gtid_set import MySqlGtids
from changefeed.sources.mysql import MySqlTables, Plan, failover, open_changes
from changefeed.sources.mysql.dump import LogEvent
from changefeed.sources.mysql.reader import read
from changefeed.sources.mysql.server import AnotherServerError
from changefeed.sources.mysql.source_offset import LogPosition, SourceOffset
from changefeed.sources.mysql.source_offset import read as read_offset
from changefeed.sources.mysql.stream import MySqlStream
from tests.services.database import Database, MariaDb, MariaDb118, MySql, MySql97
from tests.services.relay import Relay
from tests.sources.mysql.following import Follower, section


@dataclass
class Pair:
    """A server, its replica, and the address that leads to one of them."""

    primary: Database
    replica: Database
    relay: Relay

    def source(self, **options: Any) -> MySqlTables:
        """A source at the address."""
        return open_changes(section(self.address, **{"tables": ["shop.*"], **options}))

    @property
    def address(self) -> Any:
        """The address, as `section` takes that of a database."""
        return SimpleNamespace(port=self.relay.port)

    def replicate(self) -> None:
        """Begins replication."""
        user = "HOST='127.0.0.1', {0}_PORT={1}, {0}_USER='dbz', {0}_PASSWORD='dbz'"
        if self.primary.connector == "mariadb":
            source = f"CHANGE MASTER TO MASTER_{user.format('MASTER', self.primary.port)}, MASTER_USE_GTID=slave_pos"
            self.replica.execute(f"{source}; START SLAVE")
        else:
            source = f"CHANGE REPLICATION SOURCE TO SOURCE_{user.format('SOURCE', self.primary.port)}"
            self.replica.execute(f"{source}, SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA")

    def stop_replication(self) -> None:
        """Stops it."""
        self.replica.execute("STOP SLAVE" if self.primary.connector == "mariadb" else "STOP REPLICA")

    def catch_up(self) -> None:
        """Waits until the replica has what the primary has."""
        deadline = time.monotonic() + 60
        while _rows(self.primary) != _rows(self.replica):
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def take_over(self) -> None:
        """Lets the replica take over."""
        self.stop_replication()
        self.relay.lead_to(self.replica.port)


def _rows(database: Database) -> list[list[list[str]]]:
    return [
        sorted(database.selected(f"SELECT * FROM {table}", "shop"))
        for table in ("orders", "notes")
        if database.tables("shop")
    ]


@pytest.fixture(
    params=["mariadb", *(pytest.param(n, marks=pytest.mark.nightly) for n in ("mysql", "mariadb-11.8", "mysql-9.7"))]
)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with ExitStack() as stack:
        options = "--server-id=2", "--log-slave-updates=ON"
        servers: tuple[Database, Database]
        if request.param.startswith("mariadb"):
            mariadb = MariaDb118 if request.param == "mariadb-11.8" else MariaDb
            servers = mariadb(), mariadb(*options)
        else:
            mysql = MySql97 if request.param == "mysql-9.7" else MySql
            servers = mysql(), mysql(*options, server=2)
        primary, replica = (stack.enter_context(server) for server in servers)
        for server in (primary, replica):
            new_words = isinstance(server, MySql97)
            server.execute("RESET BINARY LOGS AND GTIDS" if new_words else "RESET MASTER")  # forgets its own users
        primary.execute("FLUSH LOGS; FLUSH LOGS; FLUSH LOGS; CREATE DATABASE shop")
        primary.execute("CREATE TABLE orders (id INT PRIMARY KEY, v LONGTEXT); CREATE TABLE notes (v INT)", "shop")
        with_replica = Pair(primary, replica, stack.enter_context(Relay(primary.port)))
        with_replica.replicate()
        yield with_replica


def write(database: Database, first: int, count: int = 20) -> None:
    """Rows from a number on, one transaction each; every second one is changed, the third from the end deleted."""
    for n in range(first, first + count):
        database.execute(f"INSERT INTO orders VALUES ({n}, 'new'); INSERT INTO notes VALUES ({n})", "shop")
    database.execute(f"UPDATE orders SET v = 'changed' WHERE id >= {first} AND id % 2 = 0", "shop")
    database.execute(f"DELETE FROM orders WHERE id = {first + count - 3}", "shop")


def test_a_replica_that_takes_over_is_followed_without_a_gap_or_a_double(pair: Pair) -> None:
    follower = Follower(pair.address, ["shop.*"], Random(1), {"snapshot.mode": ["no_data"]})
    follower.run()
    write(pair.primary, 0)
    before = follower.run()
    write(pair.primary, 100)  # not read from the primary
    pair.catch_up()
    pair.take_over()
    write(pair.replica, 200)
    after = follower.run()
    assert before.barrier is not None
    assert after.barrier is not None
    assert after.barrier > before.barrier
    assert read_offset(str(after.source)).at.shift > 0  # the primary's log has more files
    pair.replica.execute("FLUSH LOGS")
    write(pair.replica, 300)
    last = follower.run()
    for table in last.tables.values():
        rows = [list(map(str, row.values())) for row in follower.storage.tables.rows(table.path)]
        assert sorted(rows) == sorted(pair.replica.selected(f"SELECT * FROM {table.table.name}", "shop"))


@pytest.mark.nightly
def test_the_gtids_of_an_offset_are_those_of_the_server(pair: Pair) -> None:
    source = pair.source(**{"snapshot.mode": "no_data"})
    plan = source.plan(None, None)
    assert plan is not None
    write(pair.primary, 0, 3)
    pair.primary.execute("FLUSH LOGS")
    write(pair.primary, 10, 3)
    while following := source.plan(plan.after.text(), None):
        plan = following
    variable = "@@GLOBAL.gtid_binlog_pos" if pair.primary.connector == "mariadb" else "@@GLOBAL.gtid_executed"
    assert [[plan.after.gtids]] == pair.primary.selected(f"SELECT {variable}", "shop")
    source.close()


def test_no_task_reads_another_server_than_the_driver_has_planned_for(pair: Pair) -> None:
    """The log of the replica has other events at the same positions, and tables of the same names."""
    source = pair.source(**{"tables": ["shop.orders"], "chunk-rows": 5})
    write(pair.primary, 0)
    copy = source.plan(None, None)
    assert copy is not None
    pair.catch_up()
    plan: Plan | None = copy
    while plan is not None and plan.after.complete is None and plan.after.copy is not None:
        plan = source.plan(plan.after.text(), None)
    assert plan is not None
    pair.primary.execute(f"INSERT INTO orders VALUES (1000, '{'x' * 300_000}')", "shop")  # not in the plan itself
    log = source.plan(plan.after.text(), None)
    assert log is not None
    pair.catch_up()
    pair.take_over()
    for planned, part in ((copy, copy.parts[-1]), (log, log.parts[-1])):
        with pytest.raises(AnotherServerError):
            list(read(planned.reading, part))
    with pytest.raises(SourceError) as raised:  # the driver's own connection had been to the primary
        source.plan(plan.after.text(), None)
    assert raised.value.transient
    assert source.plan(plan.after.text(), None) is not None
    source.close()


@pytest.mark.nightly
def test_a_copy_that_is_not_complete_begins_again(pair: Pair) -> None:
    follower = Follower(pair.address, ["shop.orders"], Random(2), {"chunk-rows": [4], "max-records-per-batch": [4]})
    write(pair.primary, 0)
    follower.run(batches=2)
    write(pair.primary, 100)
    pair.catch_up()
    pair.take_over()
    write(pair.replica, 200)
    [orders] = [t for t in follower.run().tables.values() if t.table.name == "orders"]
    rows = [list(map(str, row.values())) for row in follower.storage.tables.rows(orders.path)]
    assert sorted(rows) == sorted(pair.replica.selected("SELECT * FROM orders", "shop"))


@pytest.mark.nightly
def test_a_server_that_cannot_continue_is_a_stop_with_the_reason(pair: Pair) -> None:
    source = pair.source(**{"snapshot.mode": "no_data"})
    begun = source.plan(None, None)
    assert begun is not None
    pair.catch_up()
    pair.stop_replication()
    write(pair.primary, 0)
    plan = source.plan(begun.after.text(), None)
    assert plan is not None
    pair.relay.lead_to(pair.replica.port)
    source.close()
    with pytest.raises(SourceError, match="does not have all transactions that were read") as raised:
        source.plan(plan.after.text(), None)
    assert raised.value.transient
    with pytest.raises(SourceError, match="With GTIDs"):
        source.plan(replace(plan.after, gtids=None).text(), None)
    with pytest.raises(SourceError, match="read in part"):
        source.plan(replace(plan.after, maps=(b"x",)).text(), None)

    pair.replicate() if pair.primary.connector == "mysql" else pair.replica.execute("START SLAVE")
    pair.catch_up()
    pair.stop_replication()
    pair.replica.execute("FLUSH LOGS")
    while len(files := pair.replica.binlogs()) > 1:  # MariaDB keeps a file until its checkpoint
        pair.replica.execute(f"PURGE BINARY LOGS TO '{files[-1].name}'")
    write(pair.replica, 300, 3)
    assert source.plan(plan.after.text(), None) is not None
    with pytest.raises(SourceError, match="no longer has the part of its binary log that comes next"):
        source.plan(SourceOffset(plan.after.server, begun.after.at, gtids=begun.after.gtids).text(), None)
    source.close()


@pytest.mark.nightly
def test_a_pipeline_begins_behind_gtids(pair: Pair) -> None:
    variable = "@@GLOBAL.gtid_binlog_pos" if pair.primary.connector == "mariadb" else "@@GLOBAL.gtid_executed"
    write(pair.primary, 0, 5)
    [[gtids]] = pair.primary.selected(f"SELECT {variable}", "shop")
    write(pair.primary, 100, 5)
    source = pair.source(**{"snapshot.mode": "no_data", "starting-position": gtids})
    plan = source.plan(None, None)
    assert plan is not None
    chunks = [chunk for part in plan.parts for batch in read(plan.reading, part) for chunk in batch.to_pylist()]
    changes = {kind: sum(chunk["rows"] for chunk in chunks if chunk["kind"] == kind) for kind in ("rows", "ddl")}
    assert changes == {"rows": 2 * 5 + 3 + 1, "ddl": 0}  # inserted, changed, deleted
    source.close()


@pytest.mark.nightly
def test_a_stream_of_events_continues_on_the_replica(pair: Pair) -> None:
    def read_log(before: str | None) -> tuple[str, int]:
        source = pair.source(**{"snapshot.mode": "no_data"})
        stream, count = MySqlStream(source.section, source.address, {}), 0
        for batch in stream.batches(before):
            before = batch.source_offset
            count += sum(table.rows.num_rows for table in batch.changes.tables)
        stream.close()
        assert before is not None
        return before, count

    begun, none = read_log(None)
    write(pair.primary, 0, 4)
    before, first = read_log(begun)
    write(pair.primary, 100, 4)
    pair.catch_up()
    pair.take_over()
    write(pair.replica, 200, 4)
    after, second = read_log(before)
    rows = 2 * 4 + 2 + 1  # inserted, changed, deleted
    assert (none, first, second) == (0, rows, 2 * rows)
    assert read_offset(after).at.number > read_offset(before).at.number
    assert read_log(after) == (after, 0)


def test_gtids_with_which_no_server_can_be_asked_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    gtids = "3e11fa47-71ca-11e1-9e33-c80aa9429562:red:1-5"
    server: Any = SimpleNamespace(
        address="db:3306",
        identity="1",
        kind="mysql",
        lacks=lambda text: "",
        end=lambda: LogPosition("binlog.000001", 4),
    )

    def dump_after(address: str, executed: MySqlGtids, identity: str) -> Iterator[LogEvent]:
        executed.encoded()
        yield from ()

    monkeypatch.setattr(failover, "dump_after", dump_after)
    with pytest.raises(SourceError, match=r"db:3306: the GTIDs 3e11fa47.*:red have a tag, and cannot be asked for"):
        failover.position_after(server, gtids)
