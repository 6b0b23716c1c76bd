"""Rows of a SELECT as columns of bytes, with and without the kernel, from a real server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pymysql
import pytest

from changefeed.errors import SourceError
from changefeed.sources.mysql import selecting
from changefeed.sources.mysql.connection import Address, connect, rows, translated
from changefeed.sources.mysql.selecting import select
from tests.services.database import Database, MariaDb
from tests.sources.mysql.kernel import needs_kernel

pytestmark = needs_kernel

WAYS = ("split_by_kernel", "split_by_reference")


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with MariaDb("--max-allowed-packet=64M", "--max-statement-time=0") as server:
        yield server


@pytest.fixture
def address(database: Database) -> Address:
    return Address("127.0.0.1", database.port, "dbz", "dbz")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read in one way."""
    monkeypatch.setattr(selecting, "split_by_kernel", getattr(selecting, request.param))


def read(address: Address, query: str) -> tuple[list[int], list[list[bytes | None]]]:
    """The number of rows of each part, and the columns; then the connection answers another query."""
    connection = connect(address)
    with translated(address):
        parts = list(select(connection, query))
        assert rows(connection, "SELECT 7") == [(b"7",)]
    connection.close()
    columns = (
        [[value for part in parts for value in part[index].to_pylist()] for index in range(len(parts[0]))]
        if parts
        else []
    )
    return [len(part[0]) for part in parts], columns


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1, NULL, '' FROM mysql.seq_1_to_50000",
        "SELECT seq, REPEAT('x', seq % 300), IF(seq % 7, NULL, seq) FROM mysql.seq_1_to_3000",
        "SELECT REPEAT('a', 65535), REPEAT('b', 65536), REPEAT('c', 16777215), REPEAT('d', 16777216), NULL",
        "SELECT REPEAT('x', 33554418), 1",
        "SELECT seq FROM mysql.seq_1_to_20000",
        "SELECT seq FROM mysql.seq_1_to_40000",
        "SELECT 1 FROM mysql.seq_1_to_5 WHERE 1 = 0",
    ],
)
def test_both_ways_read_the_same(address: Address, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, columns = read(address, query)
    monkeypatch.setattr(selecting, "split_by_kernel", selecting.split_by_reference)
    _, others = read(address, query)
    assert columns == others
    assert all(count <= selecting.MOST_ROWS for count in parts)


def test_a_part_has_few_bytes(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "MOST_BYTES", 2**20)
    parts, columns = read(address, "SELECT REPEAT('x', 300000) FROM mysql.seq_1_to_10")
    assert parts == [4, 4, 2]
    assert columns == [[b"x" * 300_000] * 10]


@pytest.mark.usefixtures("way")
def test_a_statement_that_the_server_refuses(address: Address) -> None:
    with pytest.raises(SourceError, match="SQL syntax"):
        read(address, "SELECT FROM")


@pytest.mark.usefixtures("way")
def test_an_error_behind_some_rows(address: Address) -> None:
    query = "SELECT IF(seq < 30000, seq, (SELECT 1 UNION SELECT 2)) FROM mysql.seq_1_to_40000"
    with pytest.raises(SourceError, match="Subquery returns more than 1 row"):
        read(address, query)


@pytest.mark.usefixtures("way")
def test_a_connection_that_the_server_closes(address: Address) -> None:
    connection = connect(address)
    [(number,)] = rows(connection, "SELECT CONNECTION_ID()")

    def kill() -> None:
        time.sleep(0.5)
        rows(connect(address), f"KILL {int(number or 0)}")

    killing = threading.Thread(target=kill)
    killing.start()
    with pytest.raises(SourceError) as caught, translated(address):
        for _ in select(connection, "SELECT SLEEP(0.001), REPEAT('x', 10000) FROM mysql.seq_1_to_100000"):
            pass
    killing.join()
    assert caught.value.transient
    assert isinstance(caught.value.__cause__, pymysql.MySQLError)
