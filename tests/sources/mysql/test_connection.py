"""Connections to live servers: authentication, TLS, and errors in one sentence with the fix."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from changefeed.errors import AccessError, ConfigError, SourceError
from changefeed.mysql.binlog import codes
from changefeed.mysql.gtid_set import parse
from changefeed.sources.mysql import dump as dumping
from changefeed.sources.mysql import open_changes
from changefeed.sources.mysql.changes import LogDecoder
from changefeed.sources.mysql.connection import Address, connect, rows, texts
from changefeed.sources.mysql.dump import GTIDS, dump, dump_after, dump_bytes
from changefeed.sources.mysql.reader import read
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.source_offset import LogPosition, SourceOffset
from changefeed.sources.mysql.tables import Captured
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.following import section
from tests.sources.mysql.kernel import needs_kernel


@pytest.fixture(scope="module")
def mariadb() -> Iterator[Database]:
    with MariaDb("--max-binlog-size=4096") as server:
        server.execute("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY); INSERT INTO shop.t VALUES (1)")
        yield server


@pytest.fixture(scope="module")
def mysql() -> Iterator[Database]:
    with MySql() as server:
        server.execute("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY); INSERT INTO shop.t VALUES (1)")
        yield server


def address(database: Database, user: str = "dbz", **tls: str) -> Address:
    return Address("127.0.0.1", database.port, user, user, **tls)


@pytest.mark.nightly
@pytest.mark.parametrize("plugin", ["caching_sha2_password", "mysql_native_password", "sha256_password"])
def test_users_of_mysql(mysql: Database, plugin: str) -> None:
    mysql.execute(f"CREATE USER u_{plugin[:5]}@'%' IDENTIFIED WITH {plugin} BY 'u_{plugin[:5]}'")
    server = Server.open(address(mysql, f"u_{plugin[:5]}"))
    assert server.texts("SELECT 1") == [("1",)]
    server.close()


@pytest.mark.nightly
def test_tls_modes(mysql: Database, tmp_path: Path) -> None:
    """MySQL makes certificates of its own, for no host."""
    ca = str(mysql.folder / "data" / "ca.pem")
    used = {}
    for mode in ("disabled", "preferred", "required", "verify_ca"):
        server = Server.open(address(mysql, ssl_mode=mode, **({"ssl_ca": ca} if mode == "verify_ca" else {})))
        used[mode] = texts(server.connection, "SHOW STATUS LIKE 'Ssl_cipher'")[0][1] != ""
        server.close()
    assert used == {"disabled": False, "preferred": True, "required": True, "verify_ca": True}
    with pytest.raises(SourceError, match="certificate verify failed"):
        Server.open(address(mysql, ssl_mode="verify_identity"))
    with pytest.raises(ConfigError, match="ssl-ca, ssl-cert and ssl-key"):
        Server.open(address(mysql, ssl_mode="verify_ca", ssl_ca=str(tmp_path / "none.pem")))


def test_wrong_password(mariadb: Database) -> None:
    with pytest.raises(
        AccessError, match=r"refuses the user dbz: Access denied .* Correct user and password in the source"
    ):
        Server.open(Address("127.0.0.1", mariadb.port, "dbz", "wrong"))


def test_no_server(mariadb: Database) -> None:
    source = open_changes(section(mariadb, port=1))
    assert "127.0.0.1:1" in (source.unreachable() or "")
    with pytest.raises(SourceError) as error:
        source.plan(None, None)
    assert error.value.transient


def test_a_server_that_hangs(mariadb: Database) -> None:
    """It takes connections and does not answer, as one whose disk is full or whose machine swaps."""
    started = time.monotonic()
    with mariadb.hanging():
        with pytest.raises(SourceError, match=r"Lost connection .*\(timed out\)"):
            Server.open(address(mariadb), seconds=0.5)
        assert "Lost connection" in str(open_changes(section(mariadb)).unreachable())
    assert time.monotonic() - started < 60, "a query may take ten minutes"
    server = Server.open(address(mariadb), seconds=2)
    assert server.texts("SELECT SLEEP(3)") == [("0",)], "a query may take longer than the connection"
    server.close()


def test_a_password_from_a_file(mariadb: Database, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("dbz\n")
    read = section(mariadb, password=None, **{"password-file": str(tmp_path / "password")})
    assert read.read_password() == "dbz"
    with pytest.raises(ConfigError, match=r"source\.password-file"):
        section(mariadb, password=None, **{"password-file": str(tmp_path / "none")}).read_password()


def test_missing_rights_name_the_grant(mariadb: Database) -> None:
    mariadb.execute("CREATE USER poor@'%' IDENTIFIED BY 'poor'; GRANT SELECT ON shop.* TO poor@'%'")
    source = open_changes(section(mariadb, user="poor", password="poor", tables=["shop.*"]))
    missing = source.missing()
    assert missing is not None
    assert missing.what.endswith("the right REPLICATION SLAVE is missing; the right REPLICATION CLIENT is missing")
    assert missing.fix == "; ".join(f"GRANT REPLICATION {right} ON *.* TO 'poor'@'%'" for right in ("SLAVE", "CLIENT"))
    with pytest.raises(AccessError, match="Let an administrator run: GRANT SELECT, RELOAD, REPLICATION SLAVE"):
        source.compared(None, SourceOffset(source._ask().identity, LogPosition("binlog.000001", 4)).text())
    with pytest.raises(AccessError, match="REPLICATION SLAVE"):
        next(dump(address(mariadb, "poor"), LogPosition("binlog.000001", 4)))


def test_the_rights_of_the_guide_suffice(mariadb: Database) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "mysql.md").read_text()
    mariadb.execute("".join(line for line in guide.splitlines() if line.startswith(("CREATE USER", "GRANT"))))
    source = open_changes(section(mariadb, user="changefeed", password="…", tables=["shop.*"]))
    assert source.missing() is None
    before, rows = None, 0
    while (plan := source.plan(before, None)) is not None:
        chunks = [chunk for part in plan.parts for batch in read(plan.reading, part) for chunk in batch.to_pylist()]
        rows += sum(chunk["rows"] for chunk in chunks if chunk["kind"] == "rows")
        before = plan.after.text()
    assert rows
    assert list(dump(source.address, LogPosition(mariadb.binlogs()[0].name, 4)))


@needs_kernel
def test_the_kernel_splits_the_same_events(mariadb: Database) -> None:
    """The log has several files, and an event of two packets."""
    mariadb.execute(
        "SET GLOBAL max_allowed_packet = 64 << 20; CREATE TABLE shop.large (id INT PRIMARY KEY, data LONGBLOB); "
        "INSERT INTO shop.large SELECT 1, REPEAT('x', 12 << 20); UPDATE shop.large SET data = REPEAT('y', 10 << 20)"
    )
    start = LogPosition(mariadb.binlogs()[0].name, 4)
    before, actual = None, None
    events = [event.data for event in dump(address(mariadb), start)]
    while before != events:  # the server notes that a file of its log is complete some time after that
        before, actual = events, b"".join(dump_bytes(address(mariadb), start))
        events = [event.data for event in dump(address(mariadb), start)]
    assert max(map(len, events)) > 1 << 24
    assert actual == b"".join(events)


@needs_kernel
def test_errors_of_the_log_end_the_same(mariadb: Database) -> None:
    missing = LogPosition("binlog.999999", 4)
    with pytest.raises(SourceError) as expected:
        list(dump(address(mariadb), missing))
    with pytest.raises(SourceError) as actual:
        list(dump_bytes(address(mariadb), missing))
    assert (str(actual.value), actual.value.transient) == (str(expected.value), expected.value.transient)


@pytest.mark.parametrize(
    "variable, value",
    [("binlog_format", "MIXED"), ("binlog_row_image", "MINIMAL")],
)
def test_wrong_settings_name_the_statement(mariadb: Database, variable: str, value: str) -> None:
    needed = {"binlog_format": "ROW"}.get(variable, "FULL")
    mariadb.execute(f"SET GLOBAL {variable} = {value}")
    try:
        source = open_changes(section(mariadb))
        with pytest.raises(
            ConfigError, match=f"{variable} is {value}, and must be {needed}: SET GLOBAL {variable} = {needed}"
        ):
            source.plan(None, None)
        missing = source.missing()
        assert missing is not None
        assert missing.what.endswith(f"{variable} is {value}")
    finally:
        mariadb.execute(f"SET GLOBAL {variable} = {needed}")


def test_a_purged_log(mariadb: Database) -> None:
    source = open_changes(section(mariadb, tables=["shop.*"]))
    plan = source.plan(None, None)
    assert plan is not None
    mariadb.execute("FLUSH LOGS; FLUSH LOGS; INSERT INTO shop.t VALUES (10)")
    first, last = mariadb.binlogs()[0].name, mariadb.binlogs()[-1].name
    deadline = time.monotonic() + 30
    while mariadb.binlogs()[0].name != last and time.monotonic() < deadline:  # a log that is still sent is not purged
        mariadb.execute(f"PURGE BINARY LOGS TO '{last}'")
        time.sleep(0.1)
    gone = SourceOffset(plan.after.server, LogPosition(first, 4)).text()
    with pytest.raises(
        SourceError, match=f"no longer has {first} of its binary log, which comes next: it has {last} to {last}"
    ):
        source.compared(None, gone)
    with pytest.raises(SourceError, match="no longer has the part of its binary log that comes next"):
        source.plan(gone, None)


def test_another_server(mariadb: Database) -> None:
    source = open_changes(section(mariadb, tables=["shop.*"]))
    with pytest.raises(
        SourceError, match=r"is another server than before \(1.* for 7\), and positions in its log mean nothing"
    ):
        source.compared(None, SourceOffset("7", LogPosition("binlog.000001", 4)).text())
    server = Server.open(address(mariadb))
    end = server.end()
    with pytest.raises(SourceError, match="its log was reset, or lost its end in a crash"):
        source.compared(None, SourceOffset(server.identity, LogPosition(end.file, end.position + 1)).text())
    server.close()


def test_no_log() -> None:
    with MariaDb("--skip-log-bin") as server:
        missing = open_changes(section(server)).missing()
        assert missing is not None
        assert "writes no binary log" in f"{missing}" or "log_bin is OFF" in missing.what


@pytest.fixture(params=["mariadb", pytest.param("mysql", marks=pytest.mark.nightly)])
def either(request: pytest.FixtureRequest) -> Database:
    database: Database = request.getfixturevalue(request.param)
    return database


def test_a_dead_peer_is_found_while_a_connection_waits(either: Database) -> None:
    connection = connect(address(either))
    options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    idle, interval, count = (connection._sock.getsockopt(socket.IPPROTO_TCP, option) for option in options)
    assert connection._sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert idle + interval * count <= 180
    connection.close()


@pytest.mark.parametrize("events", [dump, pytest.param(dump_bytes, marks=needs_kernel)], ids=lambda f: f.__name__)
def test_a_server_that_hangs_while_it_sends_its_log(either: Database, events: Callable[..., Iterator[Any]]) -> None:
    """Its log is larger than what the connection holds."""
    _fill(either)
    sent = events(address(either), LogPosition(either.binlogs()[0].name, 4), heartbeat_seconds=0.5)
    next(sent)
    with either.hanging():
        started = time.monotonic()
        with pytest.raises(SourceError, match=r"Lost connection .*timed out") as error:
            list(sent)
        assert error.value.transient
        assert 1 < time.monotonic() - started < 60
    assert len(list(events(address(either), LogPosition(either.binlogs()[-1].name, 4), heartbeat_seconds=0.5)))


def _fill(database: Database) -> None:
    """Makes the log larger than what a connection holds."""
    database.execute(
        "CREATE TABLE IF NOT EXISTS shop.wide (id INT AUTO_INCREMENT PRIMARY KEY, data LONGBLOB);"
        + "INSERT INTO shop.wide (data) VALUES (REPEAT('x', 1 << 20));" * 40
    )


def test_a_server_that_hangs_before_it_sends_its_log(either: Database) -> None:
    started = time.monotonic()
    with (
        pytest.raises(SourceError, match=r"Lost connection .*timed out") as error,
        dumping._connected(address(either), None, None, 0.5) as connection,
        either.hanging(),
    ):
        rows(connection, "SELECT 1")
    assert error.value.transient
    assert 1 < time.monotonic() - started < 60


def _read_slowly(events: Iterator[Any], ended: Callable[[], bool]) -> None:
    """Reads some of the events until something has ended, and then all of them."""
    while not ended():
        time.sleep(0.2)
        list(islice(events, 1))
    list(events)


@pytest.mark.parametrize("events", [dump, pytest.param(dump_bytes, marks=needs_kernel)], ids=lambda f: f.__name__)
def test_two_connections_with_one_server_id(
    mariadb: Database, events: Callable[..., Iterator[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """MariaDB ends the earlier one; MySQL compares the UUIDs of replicas, which are new for each connection."""
    monkeypatch.setattr(dumping, "_RANGE", 1)
    _fill(mariadb)
    start = LogPosition(mariadb.binlogs()[0].name, 4)
    earlier = events(address(mariadb), start, 7)
    next(earlier)
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(lambda: list(events(address(mariadb), start, 7)))
        with pytest.raises(SourceError, match=r"another replica .* Set source\.server-id to") as error:
            _read_slowly(earlier, later.done)
        assert error.value.transient
        assert later.result()


def test_heartbeats_of_an_idle_log_are_not_changes(either: Database) -> None:
    """A connection that waits for more, unlike those of a run, which ask again."""
    server = Server.open(address(either))
    end = server.end()
    server.close()
    decoder = LogDecoder(Captured(("*.*",), {}))
    with dumping._connected(address(either), None, None, 0.2) as connection:
        own_id = dumping._registered(connection, None)
        connection._execute_command(dumping._DUMP, struct.pack("<IHI", end.position, 0, own_id) + end.file.encode())
        sent = []
        for event in dumping._events(connection, end):
            decoder.add(event)
            sent.append(event)
            if sum(one.code == codes.HEARTBEAT for one in sent) == 3:
                break
    assert [one for one in sent if one.placed] == []
    assert sent[-1].end == end
    decoded, _ = decoder.decoded()
    assert (list(decoded.tables), list(decoded.control)) == ([], [])


@pytest.mark.nightly
def test_heartbeats_among_transactions_that_are_passed_over(mysql: Database) -> None:
    mysql.execute("".join(f"REPLACE INTO shop.t VALUES ({i});" for i in range(2000)))
    [[executed]] = mysql.selected("SELECT @@GLOBAL.gtid_executed", "shop")
    mysql.execute("REPLACE INTO shop.t VALUES (5000)")
    gtids = parse(executed)
    with dumping._connected(address(mysql), None, gtids, 30) as connection:
        rows(connection, "SET @master_heartbeat_period = 1000, @source_heartbeat_period = 1000")
        dumping._ask_after(connection, gtids)
        sent = list(dumping._events(connection, LogPosition("", 4)))
    server = Server.open(address(mysql))
    expected = list(dump_after(server.address, gtids, server.identity))
    server.close()
    assert codes.HEARTBEAT in {event.code for event in sent if not event.placed}
    assert [event.code for event in sent if event.placed and event.code in GTIDS] == [codes.GTID]
    assert codes.HEARTBEAT not in {event.code for event in sent if event.placed}
    assert [e.end for e in sent if e.placed] == [e.end for e in expected if e.placed]
