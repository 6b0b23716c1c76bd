"""Servers whose logs lack changes of captured tables: filters by database, and replicas that do not log what they replicate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest

from changefeed.errors import ConfigError
from changefeed.sources.mysql.connection import Address
from changefeed.sources.mysql.discovery import discover
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.unlogged import unlogged_rows
from changefeed.ticdc.dispatch.matcher import TableFilter
from tests.services.database import Database, MariaDb, MySql, MySql97
from tests.sources.mysql.following import Follower, follower, rows

pytestmark = pytest.mark.slow
_SERVERS = [MariaDb, *(pytest.param(server, marks=pytest.mark.nightly) for server in (MySql, MySql97))]
_NAMES = ["mariadb", "mysql", "mysql-9.7"]


@pytest.fixture(params=_SERVERS, ids=_NAMES)
def filtering(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param("--binlog-ignore-db=quiet") as server:
        server.execute("CREATE DATABASE quiet; CREATE TABLE quiet.t (id INT PRIMARY KEY)")
        yield server


def test_a_database_that_is_kept_from_the_log(filtering: Database) -> None:
    following = follower(filtering, "loud", "CREATE TABLE t (id INT PRIMARY KEY)")
    filtering.execute("INSERT INTO loud.t VALUES (1)")
    following.run()
    assert rows(following, "loud.t") == [{"id": 1}]
    wanted = r"its log has no changes of the database quiet \(binlog_ignore_db=quiet\)\. Take the option out"
    with pytest.raises(ConfigError, match=wanted):
        Follower(filtering, ["quiet.*"], Random(0)).run()
    notes = discover(f"mysql://dbz:dbz@127.0.0.1:{filtering.port}").notes
    assert [note for note in notes if note.startswith("its log has no changes of the database quiet")]


@pytest.mark.parametrize("server", _SERVERS, ids=_NAMES)
def test_a_replica_that_does_not_log_what_it_replicates(server: type[Database]) -> None:
    """So is each replica of MariaDB unless it is configured."""
    with server("--log-slave-updates=OFF") as database:
        following = follower(database, "own", "CREATE TABLE t (id INT PRIMARY KEY)")
        if database.connector == "mariadb":
            database.execute("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=1")
        else:
            database.execute("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1")
        with pytest.raises(
            ConfigError, match="log_slave_updates is OFF, and must be ON: its log lacks the changes of its primary"
        ):
            Follower(database, ["own.*"], Random(0)).run()
        database.execute("INSERT INTO own.t VALUES (1)")
        following.run()  # what has begun goes on


@pytest.mark.parametrize("server", _SERVERS, ids=_NAMES)
def test_a_user_without_rights_sees_all_that_is_missing(server: type[Database]) -> None:
    with server("--binlog-ignore-db=quiet", "--log-slave-updates=OFF") as database:
        database.execute("CREATE DATABASE quiet; CREATE TABLE quiet.t (id INT PRIMARY KEY)")
        database.execute("CREATE USER poor@'%' IDENTIFIED BY 'poor'; GRANT SELECT ON *.* TO poor@'%'")
        names = {one.name for one in discover(f"mysql://poor:poor@127.0.0.1:{database.port}").wrong}
        assert names >= {"the right REPLICATION SLAVE", "the right REPLICATION CLIENT"}


def test_a_server_of_mariadb_that_may_be_a_replica() -> None:
    """A user with the rights of the guide cannot ask for it."""
    with MariaDb("--log-slave-updates=OFF") as database:
        database.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO poor@'%' IDENTIFIED BY 'poor'")
        with closing(Server.open(Address("127.0.0.1", database.port, "poor", "poor"))) as server:
            assert unlogged_rows(server, TableFilter(["*.*"])) == []
            database.execute("SET GLOBAL gtid_slave_pos = CONCAT(@@gtid_binlog_pos, ',7-8-9')")
            [note] = unlogged_rows(server, TableFilter(["*.*"]))
            assert note.startswith("the server has replicated, and log_slave_updates is OFF")
            assert server.requirements() == []
