"""A first copy of tables that are written all the while: no row is lost, doubled or stale, on both servers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from random import Random
from threading import Event, Thread

import pytest

from changefeed.errors import UnsupportedError
from changefeed.sources.mysql import open_changes, tables
from changefeed.sources.mysql.connection import Address, connect
from changefeed.sources.mysql.first_copy import CopyChunk
from changefeed.sources.mysql.key_ranges import Bound
from changefeed.sources.mysql.server import Server
from changefeed.sources.mysql.source_offset import read
from changefeed.sources.mysql.tables import KeyPart
from tests.killed import Killed
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.following import Follower, section
from tests.sources.mysql.shop import COMPOSITE, ROWS, TABLES, filled, selected, writing


@pytest.fixture(params=[MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)], ids=["mariadb", "mysql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        filled(server)
        yield server


def test_a_copy_of_tables_that_are_written(database: Database) -> None:
    random = Random(3)
    options = {"chunk-rows": [37, 120], "max-records-per-batch": [200, 600], "max-bytes-per-batch": [10**6]}
    follower, stop = Follower(database, ["shop.*"], random, options), Event()
    writer = Thread(target=writing(database, stop))
    writer.start()
    try:
        for _ in range(6):
            try:
                follower.run(kill=0.1, batches=random.randint(2, 6))
            except Killed:
                continue
    finally:
        stop.set()
        writer.join()
    state = follower.run()
    for name in (*TABLES, *COMPOSITE):
        [table] = [table for table in state.tables.values() if table.table.name == name]
        rows = follower.storage.tables.rows(table.path)
        actual = {tuple(map(_shown, row.values())) for row in rows}
        assert len(rows) == len(actual), name
        assert actual == selected(database, name), name


def _shown(value: object) -> str:
    """A value as the server's client prints it."""
    return value.isoformat(" ", "milliseconds") if isinstance(value, datetime) else str(value)


def test_chunks_cover_all_keys_and_do_not_overlap(database: Database) -> None:
    source = open_changes(section(database, tables=["shop.*"], **{"chunk-rows": 50, "max-records-per-batch": 400}))
    before, bounds = None, dict[str, list[tuple[Bound | None, Bound | None]]]()
    while True:
        plan = source.plan(before, None)
        assert plan is not None
        for part in plan.parts:
            if isinstance(part, CopyChunk):
                bounds.setdefault(part.table.name[1], []).append((part.start, part.stop))
        before = plan.after.text()
        progress = read(before).copy
        assert progress is not None
        if progress.table == len(progress.tables):
            break
    source.close()
    for name, of_table in bounds.items():
        assert of_table[0][0] is None
        assert of_table[-1][1] is None
        assert [stop for _, stop in of_table[:-1]] == [start for start, _ in of_table[1:]]
        assert len(of_table) == len(set(of_table)) >= 5, name
    assert len(bounds["pairs"]) == len(bounds["members"]) == ROWS // 50


@pytest.mark.parametrize("server", [MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)], ids=["mariadb", "mysql"])
def test_the_defaults_of_the_server_do_not_matter(server: type[Database]) -> None:
    """Dirty reads, and limits of rows and of time, would make a copy wrong or impossible."""
    with server("--transaction-isolation=READ-UNCOMMITTED") as database:
        limit = "max_statement_time" if database.connector == "mariadb" else "max_execution_time"
        database.execute(
            "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY); INSERT INTO shop.t VALUES (1), (2), (3), (4);"
            f"SET GLOBAL sql_select_limit = 2; SET GLOBAL {limit} = 1; SET GLOBAL time_zone = '+09:00'"
        )
        open_transaction = connect(Address("127.0.0.1", database.port, "dbz", "dbz"))
        with open_transaction.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO shop.t VALUES (5)")
            cursor.execute("DELETE FROM shop.t WHERE id = 1")
            follower = Follower(database, ["shop.*"], Random(1), {"chunk-rows": [2]})
            follower.run()
            cursor.execute("ROLLBACK")
        open_transaction.close()
        [table] = follower.run().tables.values()
        assert sorted(row["id"] for row in follower.storage.tables.rows(table.path)) == [1, 2, 3, 4]


@pytest.mark.nightly
def test_a_date_that_no_calendar_has_is_named_where_chunks_begin_with_it() -> None:
    with MySql() as database:
        database.execute(
            "CREATE DATABASE shop; SET sql_mode = 'ALLOW_INVALID_DATES'; CREATE TABLE shop.t (d DATE PRIMARY KEY);"
            "INSERT INTO shop.t VALUES ('2024-02-30'), ('2024-02-31')"
        )
        with pytest.raises(UnsupportedError, match=r"^shop\.t\.d is in the key and holds '2024-02-3[01]'"):
            Follower(database, ["shop.*"], Random(0), {"chunk-rows": [1]}).run()


def test_a_table_that_changes_while_it_is_described(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of the key gets another name between the question for the columns and that for the key."""
    statements, real = ["ALTER TABLE pairs RENAME COLUMN a TO x"], tables.key_parts

    def key_parts(server: Server, of: str, table: str) -> list[KeyPart]:
        if statements:
            database.execute(statements.pop(), "shop")
        return real(server, of, table)

    monkeypatch.setattr(tables, "key_parts", key_parts)
    following = Follower(database, ["shop.pairs"], Random(0))
    state = following.run()
    assert state.tables["shop.pairs"].table.keys == ("x", "b")
