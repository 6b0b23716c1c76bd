"""Rows of a signal table: each copies tables again, once."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from changefeed.pipeline.state import State
from changefeed.sources.copies import CopyRequest
from changefeed.sources.mysql import open_changes
from changefeed.sources.mysql.signals import Signal, copies_of
from changefeed.sources.mysql.source_offset import read
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.following import Follower, section

TABLE = "ops.Signals"
TABLES = [("shop", "a"), ("shop", "log"), ("other", "a")]


@pytest.fixture(
    params=[
        (MariaDb,),
        pytest.param((MariaDb, "--log-bin-compress=ON", "--log-bin-compress-min-len=10"), marks=pytest.mark.nightly),
        pytest.param((MySql,), marks=pytest.mark.nightly),
        pytest.param((MySql, "--binlog-transaction-compression=ON"), marks=pytest.mark.nightly),
        pytest.param((MySql, "--lower-case-table-names=1"), marks=pytest.mark.nightly),
    ],
    ids=["mariadb", "mariadb-compressed", "mysql", "mysql-compressed", "mysql-lower-case"],
)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    server, *options = request.param
    with server(*options) as started:
        rows = ", ".join(f"({n}, 'row {n}')" for n in range(40))
        started.execute(
            "CREATE DATABASE shop; CREATE DATABASE ops; USE shop; CREATE TABLE a (id INT PRIMARY KEY, v TEXT);"
            f"CREATE TABLE log (n INT); INSERT INTO a VALUES {rows}; INSERT INTO log VALUES (1), (2);"
            f"CREATE TABLE {TABLE} (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048))"
        )
        yield started


def differing(follower: Follower, state: State, database: Database) -> set[str]:
    """The names of the tables whose rows are not the server's."""
    names = set[str]()
    for table in state.tables.values():
        rows = Counter(tuple(map(str, row.values())) for row in follower.storage.tables.rows(table.path))
        if rows != Counter(tuple(row) for row in database.selected(f"SELECT * FROM {table.table.name}", "shop")):
            names.add(table.table.name)
    return names


def signal(database: Database, name: str, data: Any, kind: str = "execute-snapshot") -> None:
    """Sends a signal, in the same transaction as a row of another table."""
    text = json.dumps(data).replace("\\", "\\\\").replace("'", "''")
    database.execute(
        f"BEGIN; INSERT INTO log VALUES (3); INSERT INTO {TABLE} VALUES ('{name}', '{kind}', '{text}'); COMMIT", "shop"
    )


@pytest.mark.parametrize("options", [{}, {"max-bytes-per-batch": [1]}], ids=["one batch", "small batches"])
def test_a_signal_copies_a_table_again_once(database: Database, options: dict[str, list[Any]]) -> None:
    all_options: dict[str, list[Any]] = {"signal-table": [TABLE], "chunk-rows": [7], **options}
    follower = Follower(database, ["shop.*"], Random(1), all_options)
    follower.run()
    database.execute("SET sql_log_bin = 0; DELETE FROM a WHERE id % 3 = 0; INSERT INTO log VALUES (7)", "shop")
    signal(database, "one", {"data-collections": [r"shop\.a"], "type": "incremental"})
    assert differing(follower, follower.run(), database) == {"log"}
    signal(database, "two", {"data-collections": ["shop.*"], "type": "BLOCKING"})
    state = follower.run()
    assert differing(follower, state, database) == set()
    assert read(str(state.source)).requests == ()
    database.execute("SET sql_log_bin = 0; DELETE FROM a WHERE id % 5 = 0", "shop")
    database.execute(
        f"UPDATE {TABLE} SET id = CONCAT(id, 'x'); DELETE FROM {TABLE}; INSERT INTO log VALUES (8)", "shop"
    )
    assert differing(follower, follower.run(), database) == {"a"}


def test_a_run_to_the_end_of_the_log_carries_out_its_signals(database: Database) -> None:
    source = open_changes(section(database, tables=["shop.*"], **{"signal-table": TABLE}))
    before = None
    while (plan := source.plan(before, None)) is not None:
        before = plan.after.text()
    signal(database, "one", {"data-collections": ["shop.a"]})
    plan = source.plan(before, None)
    assert plan is not None
    assert (plan.caught_up, plan.after.requests) == (False, (CopyRequest((("shop", "a"),), None, "one"),))
    copying = source.plan(plan.after.text(), None)
    assert copying is not None
    assert copying.after.is_copying
    source.close()


def test_a_filter_copies_some_rows(database: Database) -> None:
    follower = Follower(database, ["shop.*"], Random(1), {"signal-table": [TABLE]})
    follower.run()
    database.execute("SET sql_log_bin = 0; UPDATE a SET v = 'unlogged' WHERE id % 2 = 0", "shop")
    filters = [{"data-collection": "shop.a", "filter": "id < 20 AND v <> '%'"}]
    signal(database, "some", {"data-collections": ["shop.a", "shop.log"], "additional-conditions": filters})
    [path] = [table.path for table in follower.run().tables.values() if table.table.name == "a"]
    rows = follower.storage.tables.rows(path)
    assert {row["id"] for row in rows if row["v"] == "unlogged"} == set(range(0, 20, 2))


def test_a_table_of_signals_that_is_not_there_is_named(database: Database) -> None:
    source = open_changes(section(database, tables=["shop.*"], **{"signal-table": "ops.nothing"}))
    [note] = source.compared(None, source.end(None, None)).notes  # type: ignore[arg-type]
    statement = note.partition("come: ")[2]
    assert note.startswith("source.signal-table")
    database.execute(statement)
    assert source.compared(None, source.end(None, None)).notes == ()  # type: ignore[arg-type]
    source.close()


@pytest.mark.parametrize(
    "kind, data, wanted",
    [
        (
            "execute-snapshot",
            '{"data-collections": ["shop.log", "shop.a"]}',
            [CopyRequest((TABLES[1], TABLES[0]), None, "one")],
        ),
        (
            "execute-snapshot",
            '{"data-collections": [".*"], "type": "incremental"}',
            [CopyRequest(tuple(TABLES), None, "one")],
        ),
        (
            "execute-snapshot",
            '{"data-collections": [".*.a"], "additional-conditions": [{"data-collection": "shop.a", "filter": "id = 5"}]}',
            [CopyRequest((TABLES[2],), None, "one"), CopyRequest((TABLES[0],), "id = 5", "one")],
        ),
        (
            "execute-snapshot",
            '{"data-collections": ["shop.a"], "additional-condition": "v"}',
            [CopyRequest((TABLES[0],), "v", "one")],
        ),
        ("execute-snapshot", '{"data-collections": ["hop.a", "shop.A"]}', "it names no table that is captured"),
        ("execute-snapshot", '{"data-collections": ["("]}', "missing ), unterminated subpattern"),
        ("execute-snapshot", '{"data-collections": ["shop.a"], "type": "x"}', "the snapshot's type is 'x'"),
        ("execute-snapshot", '{"tables": []}', "data-collections"),
        ("execute-snapshot", "[]", "has no attribute"),
        ("execute-snapshot", "no json", "Expecting value"),
        ("execute-snapshot", "", "data-collections"),
        (
            "execute-snapshot",
            '{"data-collections": ["shop.a"], "additional-condition": " select * from a"}',
            "a filter is a SELECT statement",
        ),
        ("stop-snapshot", "{}", "its type is 'stop-snapshot'"),
    ],
)
def test_what_a_signal_asks_for(
    kind: str, data: str, wanted: str | list[CopyRequest], caplog: pytest.LogCaptureFixture
) -> None:
    sent = [Signal("binlog.000003:154", "one", kind, data)]
    assert copies_of(sent, lambda: TABLES) == (() if isinstance(wanted, str) else tuple(wanted))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == isinstance(wanted, str)
    if isinstance(wanted, str):
        assert "one at binlog.000003:154 is passed over" in warnings[0]
        assert wanted in warnings[0]


def test_a_signal_can_say_something_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "changefeed")
    sent = [Signal("binlog.000003:154", "note", "log", '{"message": "after the repair"}')]
    assert copies_of(sent, lambda: []) == ()
    assert "signal note at binlog.000003:154: after the repair" in caplog.messages
