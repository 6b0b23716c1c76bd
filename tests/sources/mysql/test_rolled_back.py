"""Transactions that were rolled back, and are in MariaDB's log nevertheless: none of their rows counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from changefeed.errors import UnsupportedError
from changefeed.sources.mysql import reader
from tests.services.database import Database, MariaDb, MariaDb118, MySql
from tests.sources.mysql.following import follower, rows
from tests.sources.mysql.kernel import needs_kernel

pytestmark = pytest.mark.slow
_TABLES = "CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT); CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM"
_WHOLE = (  # each is logged up to its ROLLBACK
    "BEGIN; INSERT INTO t VALUES (1, ''); CREATE TEMPORARY TABLE a (i INT); INSERT INTO t VALUES (2, ''); ROLLBACK;"
    "BEGIN; INSERT INTO t VALUES (3, ''); DROP TEMPORARY TABLE a; UPDATE t SET v = 'x'; ROLLBACK;"
    "BEGIN; INSERT INTO t VALUES (4, ''); DROP TEMPORARY TABLE IF EXISTS nothing; ROLLBACK;"
)


@pytest.fixture(
    scope="module",
    params=[MariaDb, *(pytest.param(server, marks=pytest.mark.nightly) for server in (MariaDb118, MySql))],
    ids=["mariadb", "mariadb-11.8", "mysql"],
)
def server(request: pytest.FixtureRequest) -> Iterator[Database]:
    with MySql(gtid=False) if request.param is MySql else request.param() as database:
        yield database


@pytest.fixture(params=[False, pytest.param(True, marks=needs_kernel)], ids=["reference", "kernel"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(reader, "is_available", lambda: request.param)
    return "kernel" if request.param else "reference"


def test_a_transaction_with_temporary_tables(server: Database, kernel: str) -> None:
    following = follower(server, f"whole_{kernel}", f"{_TABLES}; INSERT INTO t VALUES (9, 'kept')")
    server.execute(f"USE whole_{kernel}; {_WHOLE} INSERT INTO t VALUES (5, 'new'); UPDATE t SET v = 'y' WHERE id = 9")
    following.run()
    assert rows(following, f"whole_{kernel}.t") == [{"id": 5, "v": "new"}, {"id": 9, "v": "y"}]


def test_a_part_up_to_a_savepoint(server: Database, kernel: str) -> None:
    """Rows of a table without transactions are not rolled back: they are in transactions of their own."""
    following = follower(server, f"parts_{kernel}", _TABLES)
    server.execute(
        f"USE parts_{kernel}; BEGIN; INSERT INTO t VALUES (1, ''); SAVEPOINT `a``b`; INSERT INTO t VALUES (2, '');"
        "SAVEPOINT inner_one; INSERT INTO m VALUES (7); INSERT INTO t VALUES (3, ''); ROLLBACK TO Inner_One;"
        "INSERT INTO t VALUES (4, ''); ROLLBACK TO `a``b`; INSERT INTO t VALUES (5, ''); COMMIT;"
        "BEGIN; INSERT INTO t VALUES (6, ''); INSERT INTO m VALUES (8); ROLLBACK"
    )
    following.run()
    assert rows(following, f"parts_{kernel}.t") == [{"id": 1, "v": ""}, {"id": 5, "v": ""}]
    assert rows(following, f"parts_{kernel}.m") == [{"id": 7}, {"id": 8}]


def test_a_transaction_of_many_slices(server: Database, kernel: str) -> None:
    following = follower(server, f"large_{kernel}", _TABLES)
    many = "".join(f"INSERT INTO t VALUES ({n}, REPEAT('x', 3000000));" for n in range(8))
    server.execute(
        f"USE large_{kernel}; BEGIN; {many} CREATE TEMPORARY TABLE a (i INT); ROLLBACK; INSERT INTO t VALUES (9, '')"
    )
    following.run()
    assert rows(following, f"large_{kernel}.t") == [{"id": 9, "v": ""}]


def test_a_transaction_of_many_batches_is_refused() -> None:
    """The rows of an earlier batch have been stored."""
    with MariaDb() as server:
        following = follower(server, "batches", _TABLES)
        following.options["max-bytes-per-batch"] = [1]
        server.execute(f"USE batches; {_WHOLE}")
        with pytest.raises(UnsupportedError, match="a transaction that was rolled back has rows"):
            following.run()
