"""Large transactions, vectors, collations and discovery on MariaDB 11.8 and MySQL 9.7, where they differ from earlier servers."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from changefeed.mysql.binlog import collations
from changefeed.sources.mysql.discovery import discover
from tests.services.database import Database, MariaDb118, MySql97
from tests.sources.mysql.following import Follower

pytestmark = pytest.mark.nightly
_LARGE = 10 * 2**20  # the least threshold of MariaDB


@pytest.fixture(
    scope="module",
    params=[(MariaDb118, f"--binlog-large-commit-threshold={_LARGE}"), (MySql97,)],
    ids=["mariadb", "mysql"],
)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    server, *options = request.param
    with server(*options) as started:
        yield started


def rows(following: Follower, table: str) -> list[dict[str, Any]]:
    """The rows of a table at the last cut."""
    path = following.storage.published()[-1].tables[table].path
    return sorted(following.storage.tables.rows(path), key=lambda row: int(row["id"]))


@pytest.mark.parametrize("most_bytes", [10**9, 10**6])
def test_a_transaction_that_mariadb_makes_a_file_of_the_log(database: Database, most_bytes: int) -> None:
    """MariaDB 11.8 renames the file of a large transaction, which begins with a long GTID; batches may end inside of it."""
    name = f"large{most_bytes}"
    database.execute(f"CREATE DATABASE {name}; CREATE TABLE {name}.t (id INT PRIMARY KEY, v LONGTEXT)")
    following = Follower(database, [f"{name}.*"], Random(0), {"max-bytes-per-batch": [most_bytes]})
    following.run()
    count, files = 30, len(database.binlogs())
    inserts = "".join(f"INSERT INTO t VALUES ({n}, REPEAT('x', {_LARGE // 20 + n}));" for n in range(count))
    database.execute(f"INSERT INTO t VALUES (-1, 'x'); BEGIN; {inserts} COMMIT; INSERT INTO t VALUES (100, 'x')", name)
    assert len(database.binlogs()) - files == (database.connector == "mariadb")
    following.run()
    lengths = {row["id"]: len(row["v"]) for row in rows(following, f"{name}.t")}
    assert lengths == {-1: 1, 100: 1} | {n: _LARGE // 20 + n for n in range(count)}


def test_vectors_with_an_index_and_without_metadata(database: Database) -> None:
    mariadb = database.connector == "mariadb"
    database.execute(f"SET GLOBAL binlog_row_metadata = {'NO_LOG' if mariadb else 'MINIMAL'}")
    index = ", VECTOR INDEX (e) M=8 DISTANCE=cosine" if mariadb else ""
    database.execute(
        "CREATE DATABASE v; USE v; CREATE TABLE t (id INT PRIMARY KEY, e VECTOR(2) NOT NULL, a VARCHAR(9),"
        f"l CHAR(3) CHARACTER SET latin1{index}); INSERT INTO t VALUES (1, x'0000803f00000040', 'é', 'é')"
    )
    following = Follower(database, ["v.*"], Random(0))
    following.run()
    database.execute(
        "USE v; INSERT INTO t VALUES (2, x'000000c000000000', '中', 'ß'); UPDATE t SET a = 'ü' WHERE id = 1"
    )
    following.run()
    assert rows(following, "v.t") == [
        {"id": 1, "e": [1.0, 2.0], "a": "ü", "l": "é"}, {"id": 2, "e": [-2.0, 0.0], "a": "中", "l": "ß"},
    ]  # fmt: skip


def test_all_collations_of_the_server_are_known(database: Database) -> None:
    tables = {
        "mysql": "ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS",
        "mariadb": "ID, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE ID IS NOT NULL",
    }
    listed = database.selected(f"SELECT {tables[database.connector]}", "mysql")
    assert len(listed) > 200
    assert [row for row in listed if collations.charset(int(row[0])) != row[1]] == []


def test_a_discovery_finds_nothing_missing(database: Database) -> None:
    database.execute(
        "SET GLOBAL binlog_row_metadata = FULL; CREATE DATABASE found; CREATE TABLE found.t (id INT PRIMARY KEY)"
    )
    discovery = discover(f"mysql://dbz:dbz@127.0.0.1:{database.port}/found")
    assert [(table.table, table.key) for table in discovery.tables] == [("t", ("id",))]
    assert (discovery.wrong, discovery.notes) == ((), ())
    database.execute("CREATE TABLE found.g (id INT PRIMARY KEY, v INT, w INT AS (v + 1) STORED, x INT AS (v + 2))")
    notes = discover(f"mysql://dbz:dbz@127.0.0.1:{database.port}/found").notes
    assert [note.partition(":")[0] for note in notes] == (["found.g"] if database.connector == "mariadb" else [])
    assert all("what w, x is computed from" in note for note in notes)
