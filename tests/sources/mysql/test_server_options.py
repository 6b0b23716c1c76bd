"""Options of a server that change its log, or what it shows of a table: random histories, and changes while a pipeline reads."""

from __future__ import annotations

import random

import pytest

from changefeed.errors import UnsupportedError
from tests.services.database import Database, MariaDb, MariaDb118, MySql
from tests.sources.mysql.following import Follower
from tests.sources.mysql.histories import follow

OPTIONS: list[tuple[type[Database], str]] = [
    (MariaDb, "--binlog-checksum=NONE"),
    (MariaDb, "--log-bin-compress=ON --log-bin-compress-min-len=10"),
    (MariaDb, "--binlog-row-event-max-size=256"),
    (MariaDb, "--explicit-defaults-for-timestamp=OFF"),
    (MariaDb, "--binlog-annotate-row-events=OFF"),
    (MariaDb118, "--binlog-large-commit-threshold=10485760"),
    (MariaDb118, "--binlog-legacy-event-pos=ON"),
    (MySql, "--binlog-checksum=NONE"),
    (MySql, "--binlog-transaction-compression=ON"),
    (MySql, "--binlog-row-event-max-size=256"),
    (MySql, "--binlog-row-value-options=PARTIAL_JSON"),
    (MySql, "--binlog-rows-query-log-events=ON"),
    (MySql, "--explicit-defaults-for-timestamp=OFF"),
    (MySql, "--sql-generate-invisible-primary-key=ON"),
]
MODES: list[tuple[type[Database], str]] = [  # of sessions that write
    (MariaDb, "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"),
    (MariaDb, "TIME_ROUND_FRACTIONAL"),
    (MySql, "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"),
    (MySql, "ANSI,HIGH_NOT_PRECEDENCE"),
    (MySql, "TIME_TRUNCATE_FRACTIONAL"),
]
_HISTORIES = 8


@pytest.mark.nightly
@pytest.mark.parametrize("server, options", OPTIONS, ids=[f"{one.__name__}{options}" for one, options in OPTIONS])
def test_random_histories(server: type[Database], options: str) -> None:
    with server(*options.split()) as database:
        follow(database, random.randrange(10**6), _HISTORIES)


@pytest.mark.nightly
@pytest.mark.parametrize("server, modes", MODES, ids=[f"{one.__name__}-{modes}" for one, modes in MODES])
def test_random_histories_in_other_modes(server: type[Database], modes: str) -> None:
    with server() as database:
        follow(database, random.randrange(10**6), _HISTORIES, modes)


@pytest.mark.parametrize("server", [MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)])
def test_a_log_whose_files_differ_in_checksums(server: type[Database]) -> None:
    """Each part of it is read under each setting of the server, from the start of a file and from its middle."""
    with server() as database:
        database.execute("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, note VARCHAR(9))")
        follower, late = (Follower(database, ["shop.*"], random.Random(n)) for n in (1, 2))
        follower.run()
        late.run()
        for number, method in enumerate(["CRC32", "NONE", "NONE", "CRC32", "NONE"]):
            database.execute(f"INSERT INTO shop.t VALUES ({number}, 'before')")
            follower.run()
            database.execute(f"INSERT INTO shop.t VALUES ({number + 10}, 'x'); SET GLOBAL binlog_checksum = {method}")
            follower.run()
            database.execute(f"UPDATE shop.t SET note = 'after' WHERE id = {number + 10}")
        for one in (follower, late):
            [table] = one.run().tables.values()
            rows = {(str(row["id"]), row["note"]) for row in one.storage.tables.rows(table.path)}
            assert rows == {(row["id"], row["note"]) for row in database.rows("shop", "t")}


@pytest.mark.nightly
def test_a_generated_key_that_the_server_hides() -> None:
    options = ("--sql-generate-invisible-primary-key=ON", "--show-gipk-in-create-table-and-information-schema=OFF")
    for metadata in ("FULL", "MINIMAL"):
        with MySql(*options, f"--binlog-row-metadata={metadata}") as database:
            database.execute(
                "CREATE DATABASE shop; CREATE TABLE shop.t (note INT); INSERT INTO shop.t VALUES (5), (5), (6)"
            )
            follower = Follower(database, ["shop.*"], random.Random(3))
            follower.run()
            database.execute("DELETE FROM t LIMIT 1; ALTER TABLE t ADD more INT; UPDATE t SET more = 1", "shop")
            [table] = follower.run().tables.values()
            assert follower.storage.tables.rows(table.path) == [
                {"my_row_id": 2, "note": 5, "more": 1}, {"my_row_id": 3, "note": 6, "more": 1}
            ]  # fmt: skip


@pytest.mark.parametrize("server", [MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)])
def test_statements_mean_what_the_modes_of_their_session_say(server: type[Database]) -> None:
    with server() as database:
        database.execute(
            "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY); INSERT INTO shop.t VALUES (1)"
        )
        follower = Follower(database, ["shop.*"], random.Random(4))
        follower.run()
        for modes, change in [
            (
                "NO_BACKSLASH_ESCAPES",
                r"ADD a VARCHAR(9) NOT NULL DEFAULT 'x\ty', ADD b VARCHAR(9) NOT NULL DEFAULT '\'",
            ),
            ("ANSI_QUOTES", 'ADD "c""d" INT NOT NULL DEFAULT 7, RENAME COLUMN "a" TO "e"'),
            ("REAL_AS_FLOAT", "ADD f REAL NOT NULL DEFAULT 0.1, ADD g DOUBLE NOT NULL DEFAULT 0.1"),
        ]:
            database.execute(f"SET sql_mode='{modes}'; ALTER TABLE t {change}", "shop")
        database.execute("UPDATE t SET id = 2", "shop")
        [table] = follower.run().tables.values()
        types = {column.name: column.type.name for column in table.table.columns}
        assert (types["f"], types["g"]) == ("float", "double")
        [row] = follower.storage.tables.rows(table.path)
        assert row | {"f": round(row["f"], 6)} == {
            "id": 2, "e": r"x\ty", "b": "\\", 'c"d': 7, "f": 0.1, "g": 0.1
        }  # fmt: skip


@pytest.mark.parametrize(
    "server, mode",
    [(MariaDb, "TIME_ROUND_FRACTIONAL"), pytest.param(MySql, "TIME_TRUNCATE_FRACTIONAL", marks=pytest.mark.nightly)],
)
def test_a_session_that_rounds_unlike_its_server_stops_the_pipeline(server: type[Database], mode: str) -> None:
    with server() as database:
        database.execute("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, d DATETIME(6))")
        database.execute("INSERT INTO shop.t VALUES (1, '2024-01-02 03:04:05.999999')")
        follower = Follower(database, ["shop.*"], random.Random(5))
        follower.run()
        database.execute(f"SET sql_mode='{mode}'; ALTER TABLE t MODIFY d DATETIME", "shop")
        with pytest.raises(UnsupportedError, match="column d"):
            follower.run()
