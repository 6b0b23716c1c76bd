"""Tables that gh-ost and pt-online-schema-change alter while they are written and captured: they end as the server's."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Event

import pytest

from tests.services.database import Database, MariaDb, MySql
from tests.services.online_tools import TOOLS, alter_while_written, check_orders, create_orders
from tests.sources.mysql.following import Follower, rows

pytestmark = pytest.mark.nightly
_UNNAMED = {"mariadb": "NO_LOG", "mysql": "MINIMAL"}


@pytest.fixture(scope="module", params=[MariaDb, MySql], ids=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as database:
        yield database


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("are_ghosts_captured", [True, False], ids=["with_ghosts", "without_ghosts"])
def test_a_table_is_altered_online(server: Database, tool: str, is_named: bool, are_ghosts_captured: bool) -> None:
    database = f"online_{tool[0]}{int(is_named)}{int(are_ghosts_captured)}"
    server.execute(f"SET GLOBAL binlog_row_metadata = {'FULL' if is_named else _UNNAMED[server.connector]}")
    create_orders(server, database)
    tables = [f"{database}.*", *([] if are_ghosts_captured else [f"!{database}._*"])]
    following = Follower(server, tables, Random(7), {"max-bytes-per-batch": [3000, 10**6]})
    following.run()
    ended = Event()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(_read_meanwhile, following, ended)
        try:
            alter_while_written(server, database, tool)
        finally:
            ended.set()
        reading.result()
    following.run()
    check_orders(rows(following, f"{database}.orders"), server.rows(database, "orders"))


def test_a_copy_that_took_no_rows_is_empty(server: Database) -> None:
    """The source has read every row of the copy, so that the swap is one to an empty table."""
    server.execute(
        "CREATE DATABASE emptied; CREATE TABLE emptied.t (id INT PRIMARY KEY); INSERT INTO emptied.t VALUES (1), (2)"
    )
    following = Follower(server, ["emptied.*"], Random(7))
    following.run()
    server.execute(
        "CREATE TABLE _t_gho LIKE t; ALTER TABLE _t_gho ADD note TEXT; RENAME TABLE t TO _t_del, _t_gho TO t;"
        "INSERT INTO t VALUES (3, 'new')",
        "emptied",
    )
    following.run()
    assert [row["id"] for row in rows(following, "emptied.t")] == [3]


def _read_meanwhile(following: Follower, ended: Event) -> None:
    while not ended.is_set():
        following.run(batches=2)
