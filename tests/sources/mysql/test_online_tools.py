"""Tables that gh-ost and pt-online-schema-change alter while they are written and captured: they end as the server's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from threading import Event, Thread
from typing import Any

import pytest

from tests.live.session import Session
from tests.services.database import Database, MariaDb, MySql
from tests.services.online_tools import change_by_gh_ost, change_by_pt_osc
from tests.sources.mysql.following import Follower
from tests.sources.mysql.test_unlogged import rows

pytestmark = pytest.mark.nightly
_TOOLS = {"gh-ost": change_by_gh_ost, "pt-osc": change_by_pt_osc}
_ALTERATION = "ADD COLUMN note VARCHAR(20) DEFAULT 'none' AFTER status, MODIFY n BIGINT UNSIGNED, DROP COLUMN gone"
_UNNAMED = {"mariadb": "NO_LOG", "mysql": "MINIMAL"}


@pytest.fixture(scope="module", params=[MariaDb, MySql], ids=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as database:
        yield database


def writes(server: Database, database: str, random: Random, ended: Event, failed: list[BaseException]) -> None:
    """Inserts, updates and deletes orders until the tool has ended."""
    try:
        with Session(server) as session:
            key = 1000
            while not ended.is_set():
                key += 1
                old = random.randrange(1, key)
                for statement in (
                    f"INSERT INTO {database}.orders (id, status, n) VALUES ({key}, 'new', {random.randrange(10**6)})",
                    f"UPDATE {database}.orders SET n = n + 1, status = 'é' WHERE id = {old}",
                    f"DELETE FROM {database}.orders WHERE id = {random.randrange(1, key)}",
                ):
                    error = session.execute(statement)
                    if error is not None and "try restarting" not in error:
                        raise RuntimeError(f"{error} at {statement}")
    except BaseException as error:  # raised in the thread that waits
        failed.append(error)


@pytest.mark.parametrize("tool", _TOOLS)
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("are_ghosts_captured", [True, False], ids=["with_ghosts", "without_ghosts"])
def test_a_table_is_altered_online(server: Database, tool: str, is_named: bool, are_ghosts_captured: bool) -> None:
    if tool == "gh-ost" and server.connector == "mariadb":
        pytest.skip("gh-ost asks for variables that MariaDB does not have")
    alter: Callable[[Database, str, str, str], None] = _TOOLS[tool]
    database = f"online_{tool[0]}{int(is_named)}{int(are_ghosts_captured)}"
    server.execute(f"SET GLOBAL binlog_row_metadata = {'FULL' if is_named else _UNNAMED[server.connector]}")
    values = ", ".join(f"({i}, 'old', {i}, {i})" for i in range(1, 301))
    server.execute(
        f"CREATE DATABASE {database} CHARACTER SET latin1; USE {database}; CREATE TABLE orders (id INT UNSIGNED PRIMARY KEY, "
        f"status VARCHAR(9), n INT, gone INT) CHARACTER SET utf8mb4; INSERT INTO orders VALUES {values}"
    )
    tables = [f"{database}.*", *([] if are_ghosts_captured else [f"!{database}._*"])]
    following = Follower(server, tables, Random(7), {"max-bytes-per-batch": [3000, 10**6]})
    following.run()
    ended, failed = Event(), list[BaseException]()
    writing = Thread(target=writes, args=(server, database, Random(8), ended, failed))
    reading = Thread(target=_read_meanwhile, args=(following, ended, failed))
    writing.start()
    reading.start()
    try:
        alter(server, database, "orders", _ALTERATION)
    finally:
        ended.set()
        writing.join()
        reading.join()
    if failed:
        raise failed[0]
    following.run()
    wanted: list[dict[str, Any]] = server.rows(database, "orders")
    actual = rows(following, f"{database}.orders")
    assert list(actual[0]) == ["id", "status", "note", "n"]
    texts = [{name: None if value is None else str(value) for name, value in row.items()} for row in actual]
    assert sorted(texts, key=repr) == sorted(wanted, key=repr)
    assert len(wanted) > 300


def _read_meanwhile(following: Follower, ended: Event, failed: list[BaseException]) -> None:
    try:
        while not ended.is_set():
            following.run(batches=2)
    except BaseException as error:  # raised in the thread that waits
        failed.append(error)
