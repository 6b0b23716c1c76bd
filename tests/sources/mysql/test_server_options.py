"""Options of a server that change its log, or what it shows of a table: random histories, and changes while a pipeline reads."""

from __future__ import annotations

import random

import pytest

from tests.services.database import Database, MariaDb, MariaDb118, MySql
from tests.sources.mysql.following import Follower
from tests.sources.mysql.histories import judged

OPTIONS: list[tuple[type[Database], str]] = [
    (MariaDb, "--binlog-checksum=NONE"),
    (MariaDb, "--log-bin-compress=ON --log-bin-compress-min-len=10"),
    (MariaDb, "--binlog-row-event-max-size=256"),
    (MariaDb, "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES"),
    (MariaDb, "--explicit-defaults-for-timestamp=OFF"),
    (MariaDb, "--binlog-annotate-row-events=OFF"),
    (MariaDb118, "--binlog-large-commit-threshold=10485760"),
    (MariaDb118, "--binlog-legacy-event-pos=ON"),
    (MySql, "--binlog-checksum=NONE"),
    (MySql, "--binlog-transaction-compression=ON"),
    (MySql, "--binlog-row-event-max-size=256"),
    (MySql, "--binlog-row-value-options=PARTIAL_JSON"),
    (MySql, "--binlog-rows-query-log-events=ON"),
    (MySql, "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES"),
    (MySql, "--explicit-defaults-for-timestamp=OFF"),
    (MySql, "--sql-generate-invisible-primary-key=ON"),
]
_HISTORIES = 8


@pytest.mark.nightly
@pytest.mark.parametrize("server, options", OPTIONS, ids=[f"{one.__name__}{options}" for one, options in OPTIONS])
def test_random_histories(server: type[Database], options: str) -> None:
    first = random.randrange(10**6)
    with server(*options.split()) as database:
        for number in range(first, first + _HISTORIES):
            verdict, text = judged(database, number)
            assert verdict in ("RIGHT", "DRIFT", "STOP", "SERVER"), f"history {number}: {verdict}: {text}"


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
