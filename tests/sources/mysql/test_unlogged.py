"""Rows that a server changes without logging it, or logs in a way of their own: right tables, a warning, or a named stop."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from random import Random

import pytest

from changefeed.errors import UnsupportedError
from changefeed.mysql.ddl.unlogged import versioned_by
from changefeed.sources.mysql import open_changes
from changefeed.sources.mysql.discovery import discover
from tests.services.database import Database, MariaDb, MariaDb118, MySql, MySql97
from tests.sources.mysql.following import Follower, follower, names, rows, section

pytestmark = pytest.mark.slow


@pytest.fixture(
    scope="module",
    params=[MariaDb, *(pytest.param(server, marks=pytest.mark.nightly) for server in (MySql, MariaDb118, MySql97))],
    ids=["mariadb", "mysql", "mariadb-11.8", "mysql-9.7"],
)
def either(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        yield server


@pytest.fixture(scope="module")
def mariadb() -> Iterator[Database]:
    with MariaDb() as server:
        yield server


def test_columns_that_images_leave_out(either: Database) -> None:
    table = "CREATE TABLE t (id INT PRIMARY KEY, x INT DEFAULT 5, y TEXT, z VARCHAR(9) NOT NULL DEFAULT 'none')"
    following = follower(either, "images", f"{table}; INSERT INTO t VALUES (1, 1, 'a', 'z'), (2, 2, 'b', 'z')")
    either.execute(
        "USE images; SET SESSION binlog_row_image = MINIMAL; UPDATE t SET x = 9 WHERE id = 1; INSERT INTO t (id) VALUES (3);"
        "DELETE FROM t WHERE id = 2; ALTER TABLE t ALTER COLUMN x SET DEFAULT 6; INSERT INTO t (id, y) VALUES (4, 'c')"
    )
    following.run()
    assert rows(following, "images.t") == [
        {"id": 1, "x": 9, "y": "a", "z": "z"}, {"id": 3, "x": 5, "y": None, "z": "none"},
        {"id": 4, "x": 6, "y": "c", "z": "none"},
    ]  # fmt: skip


def test_a_table_in_memory_is_empty_after_a_restart_of_the_server(either: Database) -> None:
    """The server logs a TRUNCATE when such a table is first used again."""
    following = follower(
        either, "memory", "CREATE TABLE t (id INT PRIMARY KEY) ENGINE = MEMORY; INSERT INTO t VALUES (1), (2)"
    )
    assert rows(following, "memory.t") == [{"id": 1}, {"id": 2}]
    either.restart()
    either.execute("INSERT INTO memory.t VALUES (3)")
    following.run()
    assert rows(following, "memory.t") == [{"id": 3}]


def test_a_generated_column_that_an_update_leaves_out(either: Database) -> None:
    """MariaDB 11.8 leaves out all, MariaDB 10.11 with minimal images those that are not stored, MySQL only unchanged ones."""
    following = follower(
        either, "computed",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, v INT AS (a + 1) VIRTUAL, w INT AS (v + 1) VIRTUAL);"
        "INSERT INTO t (id, a) VALUES (1, 10)",
    )  # fmt: skip
    minimal = "USE computed; SET SESSION binlog_row_image = MINIMAL"
    either.execute(f"{minimal}; UPDATE t SET b = 5; SET SESSION binlog_row_image = FULL; UPDATE t SET b = 6")
    following.run()
    assert rows(following, "computed.t") == [{"id": 1, "a": 10, "b": 6, "v": 11, "w": 12}]
    either.execute(f"{minimal}; UPDATE t SET a = 20")
    if either.connector == "mysql":
        following.run()
        assert rows(following, "computed.t") == [{"id": 1, "a": 20, "b": 6, "v": 21, "w": 22}]
        return
    with pytest.raises(
        UnsupportedError, match=r"computed\.t\.v: the update at .* changes a, from which it is computed"
    ):
        following.run()


def test_rows_that_a_foreign_key_changes_are_warned_of(either: Database, caplog: pytest.LogCaptureFixture) -> None:
    if isinstance(either, MySql97):
        pytest.skip("it logs them")
    caplog.set_level(logging.WARNING)
    following = follower(
        either, "cascades",
        "CREATE TABLE p (id INT PRIMARY KEY); CREATE TABLE plain (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id));"
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, CONSTRAINT of_p FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE);"
        "INSERT INTO p VALUES (1), (2); INSERT INTO c VALUES (10, 1), (20, 2)",
    )  # fmt: skip
    wanted = "cascades.c: rows that its foreign key changes (of_p ON DELETE CASCADE) will be wrong"
    assert [record.getMessage().startswith(wanted) for record in caplog.records] == [True]
    source = open_changes(section(either, tables=["cascades.*"]))
    try:
        state = following.storage.published()[-1]
        assert state.source is not None
        assert [note.startswith(wanted) for note in source.compared(None, state.source).notes] == [True]
    finally:
        source.close()
    discovery = discover(f"mysql://dbz:dbz@127.0.0.1:{either.port}/cascades")
    assert [note.startswith(wanted) for note in discovery.notes] == [True]
    either.execute("DELETE FROM cascades.p WHERE id = 1")
    following.run()
    assert [row["id"] for row in rows(following, "cascades.p")] == [2]
    assert [row["id"] for row in rows(following, "cascades.c")] == [10, 20], (
        "if the server logs it now, the warning is wrong"
    )


def test_rows_that_a_merge_table_changes_are_warned_of(either: Database, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the merge table, captured or not: its rows are those of other tables."""
    caplog.set_level(logging.WARNING)
    either.execute(
        "CREATE DATABASE united; USE united; CREATE TABLE a (id INT PRIMARY KEY) ENGINE=MyISAM;"
        "CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MERGE UNION=(a) INSERT_METHOD=LAST; INSERT INTO m VALUES (1)"
    )
    following = Follower(either, ["united.a"], Random(0))
    following.run()
    start = "united.m: the log has changes through a MERGE table under its own name"
    assert [record.getMessage().startswith(start) for record in caplog.records] == [True]
    either.execute("INSERT INTO united.m VALUES (2)")
    following.run()
    assert rows(following, "united.a") == [{"id": 1}]  # one row too few
    caplog.clear()
    follower(either, "apart", "CREATE TABLE t (id INT PRIMARY KEY)")
    assert not [record for record in caplog.records if "MERGE" in record.getMessage()]


@pytest.mark.nightly
def test_mysql_9_logs_the_rows_that_a_foreign_key_changes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with MySql97() as database:
        following = follower(
            database, "cascades",
            "CREATE TABLE p (id INT PRIMARY KEY);"
            "CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE);"
            "CREATE TABLE n (id INT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES c (id) ON DELETE SET NULL);"
            "INSERT INTO p VALUES (1), (2); INSERT INTO c VALUES (10, 1), (20, 2); INSERT INTO n VALUES (100, 10), (200, 20)",
        )  # fmt: skip
        database.execute("USE cascades; DELETE FROM p WHERE id = 1; UPDATE p SET id = 7 WHERE id = 2")
        following.run()
        assert rows(following, "cascades.c") == [{"id": 20, "p": 7}]
        assert rows(following, "cascades.n") == [{"id": 100, "c": None}, {"id": 200, "c": 20}]
    assert not caplog.records


def test_a_table_that_could_not_be_replaced_is_dropped(mariadb: Database) -> None:
    table = "CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE u (id INT PRIMARY KEY)"
    following = follower(mariadb, "failed", f"{table}; INSERT INTO t VALUES (1)")
    assert names(following) == ["failed.t", "failed.u"]
    with pytest.raises(RuntimeError, match="errno: 150"):
        mariadb.execute(
            "CREATE OR REPLACE TABLE failed.t (id INT PRIMARY KEY, x INT, FOREIGN KEY (x) REFERENCES failed.no (id))"
        )
    mariadb.execute("INSERT INTO failed.u VALUES (1)")
    following.run()
    assert names(following) == ["failed.u"]


def test_a_sequence_is_not_a_table(mariadb: Database) -> None:
    following = follower(
        mariadb, "sequences",
        "CREATE SEQUENCE q CACHE 1; CREATE TABLE t (id INT PRIMARY KEY DEFAULT NEXT VALUE FOR q, x INT);"
        "INSERT INTO t (x) VALUES (1), (2)",
    )  # fmt: skip
    mariadb.execute(
        "USE sequences; INSERT INTO t (x) VALUES (3); CREATE SEQUENCE r CACHE 1; SELECT NEXT VALUE FOR r;"
        "SELECT NEXT VALUE FOR q; ALTER SEQUENCE q RESTART 100; INSERT INTO t (x) VALUES (4); DROP SEQUENCE r;"
        "ALTER TABLE t ALTER COLUMN id SET DEFAULT 0"
    )
    following.run()
    assert names(following) == ["sequences.t"]
    assert [row["id"] for row in rows(following, "sequences.t")] == [1, 100, 2, 3]


def test_a_table_with_its_history_is_refused(mariadb: Database) -> None:
    mariadb.execute(
        "CREATE DATABASE versioned; USE versioned; CREATE TABLE v (id INT PRIMARY KEY, x INT) WITH SYSTEM VERSIONING;"
        "INSERT INTO v VALUES (1, 1), (2, 2); CREATE TABLE t (id INT PRIMARY KEY)"
    )
    with pytest.raises(
        UnsupportedError, match=r"versioned\.v cannot be captured.*Add '!versioned\.v' to source\.tables"
    ):
        Follower(mariadb, ["versioned.*"], Random(0)).run()
    following = Follower(mariadb, ["versioned.*", "!versioned.v"], Random(0))
    following.run()
    mariadb.execute("UPDATE versioned.v SET x = 7; INSERT INTO versioned.t VALUES (5)")
    following.run()
    assert names(following) == ["versioned.t"]


def test_a_table_that_gets_a_history_stops_the_run(mariadb: Database) -> None:
    following = follower(mariadb, "later", "CREATE TABLE v (id INT PRIMARY KEY, x INT); INSERT INTO v VALUES (1, 1)")
    mariadb.execute(
        "USE later; ALTER TABLE v ADD SYSTEM VERSIONING; UPDATE v SET x = 7; ALTER TABLE v DROP SYSTEM VERSIONING"
    )
    with pytest.raises(UnsupportedError, match=r"has the rows of the past, too, by system versioning, at .*ADD SYSTEM"):
        following.run()
    assert rows(following, "later.v") == [{"id": 1, "x": 1}]


@pytest.mark.parametrize(
    "statement, wanted",
    [
        ("CREATE TABLE v (id INT) WITH SYSTEM VERSIONING", True),
        ("CREATE OR REPLACE TABLE `shop`.`v` (id INT) ENGINE=InnoDB WITH SYSTEM VERSIONING", True),
        ("ALTER TABLE IF EXISTS v ADD SYSTEM VERSIONING", True),
        ("CREATE TABLE v (id INT, x INT with system versioning)", True),
        ("ALTER TABLE v ADD INDEX (x), ADD SYSTEM VERSIONING", True),
        ("ALTER TABLE v DROP SYSTEM VERSIONING", False),
        ("ALTER TABLE v ADD COLUMN x INT WITHOUT SYSTEM VERSIONING", False),
        ("CREATE TABLE v (id INT COMMENT 'WITH SYSTEM VERSIONING')", False),
        ("CREATE TABLE v (id INT", False),
        ("ALTER TABLE `v", False),
    ],
)
def test_statements_that_give_a_table_a_history(statement: str, wanted: bool) -> None:
    assert versioned_by(statement, "shop") == (("shop", "v") if wanted else None)
