"""Event pipelines from a live server: the events of a snapshot and of the log, each once, and continued."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from changefeed import telemetry
from changefeed.api.events import load_pipeline
from changefeed.errors import ConfigError, UnsupportedError
from tests.cli.command import invoke
from tests.pipeline.events.appended import payloads, rows, write
from tests.pipeline.events.stopping import StopError, stop_at
from tests.services.database import Database, MariaDb118, MySql97


@pytest.fixture
def database(server: Database) -> Database:
    """The server with two tables in `shop`."""
    server.execute(
        "DROP DATABASE IF EXISTS shop; CREATE DATABASE shop;"
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20) DEFAULT 'none');"
        "CREATE TABLE shop.visits (at INT); INSERT INTO shop.orders VALUES (1, 'first'), (2, NULL);"
        "INSERT INTO shop.visits VALUES (7), (7), (8)"
    )
    return server


SNAPSHOT = [
    ("orders", "r", {"id": 1}, None, {"id": 1, "note": "first"}),
    ("orders", "r", {"id": 2}, None, {"id": 2, "note": None}),
    ("visits", "r", None, None, {"at": 7}),
    ("visits", "r", None, None, {"at": 7}),
    ("visits", "r", None, None, {"at": 8}),
]
CHANGES = """
    INSERT INTO orders (id) VALUES (3);
    UPDATE orders SET id = 4 WHERE id = 3;
    BEGIN; DELETE FROM orders WHERE id = 4; INSERT INTO visits VALUES (9); COMMIT;
    ALTER TABLE orders ADD COLUMN total INT NOT NULL DEFAULT 5;
    INSERT INTO orders (id) VALUES (5);
"""
STREAMED = [
    ("orders", "c", {"id": 3}, None, {"id": 3, "note": "none"}),
    ("orders", "d", {"id": 3}, {"id": 3, "note": "none"}, None),
    ("orders", "", {"id": 3}, None, None),
    ("orders", "c", {"id": 4}, None, {"id": 4, "note": "none"}),
    ("orders", "d", {"id": 4}, {"id": 4, "note": "none"}, None),
    ("orders", "", {"id": 4}, None, None),
    ("visits", "c", None, None, {"at": 9}),
    ("orders", "c", {"id": 5}, None, {"id": 5, "note": "none", "total": 5}),
]


def test_a_snapshot_and_the_log_become_events(tmp_path: Path, database: Database) -> None:
    path = write(tmp_path, database)
    assert invoke("run", path, "--once").return_value == 0
    assert rows(tmp_path) == SNAPSHOT
    database.execute(CHANGES, "shop")
    done = invoke("run", path, "--once", "--json")
    assert json.loads(done.stdout.splitlines()[-1])["rows"] == 5
    assert rows(tmp_path) == SNAPSHOT + STREAMED
    source = payloads(tmp_path)[-1][2]["source"]
    assert (source["file"], source["row"], source["snapshot"]) == (database.binlogs()[-1].name, 0, "false")
    assert source["pos"] > 0
    assert invoke("run", path, "--once").return_value == 0
    assert rows(tmp_path) == SNAPSHOT + STREAMED


@pytest.mark.nightly
@pytest.mark.parametrize("server", [MariaDb118, MySql97], ids=["mariadb-11.8", "mysql-9.7"], indirect=True)
def test_the_same_of_newer_servers(tmp_path: Path, database: Database) -> None:
    test_a_snapshot_and_the_log_become_events(tmp_path, database)


def test_batches_that_end_inside_of_a_transaction_continue_it(tmp_path: Path, database: Database) -> None:
    """A run of one batch for each event of the log writes the same events as a run of one batch."""
    database.execute("CREATE TABLE shop.wide (id INT PRIMARY KEY, note VARCHAR(200))")
    folders = {size: tmp_path / str(size) for size in (1, 2**20)}
    pipelines = {}
    for size, folder in folders.items():
        folder.mkdir()
        pipelines[size] = load_pipeline(write(folder, database, **{"max-bytes-per-batch": size}))
        pipelines[size].run()
    values = ", ".join(f"({number}, REPEAT('x', 200))" for number in range(300))
    database.execute(
        f"BEGIN; INSERT INTO wide VALUES {values}; UPDATE wide SET id = id + 1000 WHERE id < 3; COMMIT", "shop"
    )
    counts = {size: pipeline.run().steps for size, pipeline in pipelines.items()}
    assert counts[1] > counts[2**20]
    written = {size: rows(folder)[len(SNAPSHOT) :] for size, folder in folders.items()}
    assert written[1] == written[2**20]
    assert len(written[1]) == 300 + 3 * 3


@pytest.mark.parametrize(
    "place", ["begun.before", "begun.after", "append.before", "append.after", "done.before", "done.after"]
)
def test_a_run_that_ends_anywhere_is_continued_without_gap_and_repeat(
    tmp_path: Path, database: Database, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, database, **{"max-bytes-per-batch": 1})
    pipeline = load_pipeline(path)
    pipeline.run()
    database.execute(CHANGES, "shop")
    for number in range(1, 4):
        with monkeypatch.context() as patch:
            patch.setattr(telemetry, "on_pass", stop_at(place, number))
            with pytest.raises(StopError):
                pipeline.run()
    pipeline.run()
    assert rows(tmp_path) == SNAPSHOT + STREAMED


def test_a_snapshot_that_is_interrupted_begins_again(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = load_pipeline(write(tmp_path, database))
    with monkeypatch.context() as patch:
        patch.setattr(telemetry, "on_pass", stop_at("append.after", 2))  # of the definitions, and of the first table
        with pytest.raises(StopError):
            pipeline.run()
    assert rows(tmp_path) == SNAPSHOT[:2]
    database.execute("INSERT INTO orders VALUES (3, 'new')", "shop")
    pipeline.run()
    assert rows(tmp_path)[2:] == [
        *SNAPSHOT[:2],
        ("orders", "r", {"id": 3}, None, {"id": 3, "note": "new"}),
        *SNAPSHOT[2:],
    ]


def test_every_run_takes_a_snapshot_with_always(tmp_path: Path, database: Database) -> None:
    pipeline = load_pipeline(write(tmp_path, database, **{"snapshot.mode": "always"}))
    pipeline.run()
    pipeline.run()
    assert rows(tmp_path) == SNAPSHOT + SNAPSHOT


def test_a_snapshot_is_taken_when_the_log_is_lost(
    tmp_path: Path, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = load_pipeline(write(tmp_path, database, **{"snapshot.mode": "when_needed"}))
    pipeline.run()
    pipeline.run()
    assert rows(tmp_path) == SNAPSHOT
    database.execute("INSERT INTO orders VALUES (3, 'lost')", "shop")
    database.execute("RESET MASTER")
    pipeline.run()
    assert "A snapshot is taken, because of `snapshot.mode: when_needed`" in " ".join(caplog.messages)
    assert rows(tmp_path)[len(SNAPSHOT) :] == [
        *SNAPSHOT[:2],
        ("orders", "r", {"id": 3}, None, {"id": 3, "note": "lost"}),
        *SNAPSHOT[2:],
    ]
    database.execute("INSERT INTO orders VALUES (4, 'new')", "shop")
    pipeline.run()
    assert rows(tmp_path)[-1] == ("orders", "c", {"id": 4}, None, {"id": 4, "note": "new"})


def test_a_definition_that_was_changed_outside_of_the_log_is_taken_from_the_server(
    tmp_path: Path, database: Database
) -> None:
    """A log that names no columns."""
    before = database.selected("SELECT @@GLOBAL.binlog_row_metadata", "")[0][0]
    database.execute(f"SET GLOBAL binlog_row_metadata = {'NO_LOG' if database.connector == 'mariadb' else 'MINIMAL'}")
    try:
        with pytest.raises(ConfigError, match="this one has not: set it to `initial`"):
            load_pipeline(write(tmp_path, database, **{"snapshot.mode": "recovery"})).run()
        pipeline = load_pipeline(write(tmp_path, database))
        pipeline.run()
        database.execute(
            "INSERT INTO orders VALUES (3, 'a'); ALTER TABLE orders ADD n INT; INSERT INTO orders VALUES (4, 'b', 5);"
            "SET sql_log_bin = 0; ALTER TABLE visits ADD n INT; SET sql_log_bin = 1; INSERT INTO visits VALUES (9, 1)",
            "shop",
        )
        with pytest.raises(UnsupportedError, match=r"shop\.visits.*set `snapshot.mode: recovery` for one run"):
            pipeline.run()
        load_pipeline(write(tmp_path, database, **{"snapshot.mode": "recovery"})).run()
        database.execute("INSERT INTO visits VALUES (10, 2)", "shop")
        pipeline.run()
    finally:
        database.execute(f"SET GLOBAL binlog_row_metadata = {before}")
    assert rows(tmp_path)[len(SNAPSHOT) :] == [
        ("orders", "c", {"id": 3}, None, {"id": 3, "note": "a"}),
        ("orders", "c", {"id": 4}, None, {"id": 4, "note": "b", "n": 5}),
        ("visits", "c", None, None, {"at": 9, "n": 1}),
        ("visits", "c", None, None, {"at": 10, "n": 2}),
    ]


_ROLLED_BACK = """
    BEGIN; INSERT INTO orders VALUES (3, 'a'); CREATE TEMPORARY TABLE a (i INT); INSERT INTO visits VALUES (9); ROLLBACK;
    BEGIN; INSERT INTO orders VALUES (4, 'b'); DROP TEMPORARY TABLE a; UPDATE visits SET at = 1; ROLLBACK;
    BEGIN; INSERT INTO orders VALUES (5, 'c'); SAVEPOINT s; INSERT INTO orders VALUES (6, 'd'); INSERT INTO m VALUES (7);
    INSERT INTO visits VALUES (10); ROLLBACK TO s; INSERT INTO orders VALUES (7, 'e'); COMMIT;
"""


def test_rows_that_are_logged_and_rolled_back_become_no_event(tmp_path: Path, database: Database) -> None:
    """Neither are they counted in their transactions, nor is a transaction without others announced."""
    if database.connector != "mariadb":
        pytest.skip("MySQL with GTIDs writes no such transactions to its log")
    database.execute("CREATE TABLE shop.m (id INT PRIMARY KEY) ENGINE=MyISAM")
    path = write(tmp_path, database)
    path.write_text(path.read_text().replace("schemas.enable", "provide.transaction.metadata: true, schemas.enable"))
    pipeline = load_pipeline(path)
    pipeline.run()
    before = len(payloads(tmp_path))
    database.execute(_ROLLED_BACK, "shop")
    pipeline.run()
    events = payloads(tmp_path)[before:]
    written = [(topic, value["after"]) for topic, _, value in events if topic.startswith("srv.shop.")]
    assert sorted(written, key=str) == [
        ("srv.shop.m", {"id": 7}),
        ("srv.shop.orders", {"id": 5, "note": "c"}),
        ("srv.shop.orders", {"id": 7, "note": "e"}),
    ]
    marks = [value for topic, _, value in events if topic == "srv.transaction"]
    assert [mark["status"] for mark in marks] == ["BEGIN", "END"] * 2
    assert sorted(mark["event_count"] for mark in marks if mark["status"] == "END") == [1, 2]
    assert [value["transaction"]["total_order"] for topic, _, value in events if topic == "srv.shop.orders"] == [1, 2]
    counts = len(payloads(tmp_path))
    pipeline.run()
    assert len(payloads(tmp_path)) == counts


def test_a_rollback_of_rows_that_were_written_is_refused(tmp_path: Path, database: Database) -> None:
    if database.connector != "mariadb":
        pytest.skip("MySQL with GTIDs writes no such transactions to its log")
    pipeline = load_pipeline(write(tmp_path, database, **{"max-bytes-per-batch": 1}))
    pipeline.run()
    database.execute(_ROLLED_BACK.partition("BEGIN; INSERT INTO orders VALUES (5")[0], "shop")
    with pytest.raises(UnsupportedError, match="a transaction that was rolled back has rows"):
        pipeline.run()


def test_a_signal_that_was_rolled_back_is_none(tmp_path: Path, database: Database) -> None:
    database.execute("CREATE TABLE shop.signals (id VARCHAR(64), type VARCHAR(32), data TEXT)")
    pipeline = load_pipeline(write(tmp_path, database, **{"signal-table": "shop.signals"}))
    pipeline.run()
    before = len(rows(tmp_path))
    signal = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["shop.orders"]}')"""
    database.execute(f"BEGIN; {signal}; CREATE TEMPORARY TABLE a (i INT); {signal}; ROLLBACK", "shop")
    pipeline.run()
    assert len(rows(tmp_path)) == before


def test_heartbeats_are_sent_at_an_interval(tmp_path: Path, database: Database) -> None:
    path = write(tmp_path, database)
    path.write_text(
        path.read_text().replace(
            "folder: state}", "folder: state, heartbeat-interval: 1 millisecond, trigger-interval: 1 millisecond}"
        )
    )
    seen: list[Any] = []
    load_pipeline(path).run(once=False, progress=seen.append, stopping=lambda: len(seen) > 6)
    beats = [(key, value.keys()) for topic, key, value in payloads(tmp_path) if topic == "__debezium-heartbeat.srv"]
    assert beats
    assert beats[0] == ({"serverName": "srv"}, {"ts_ms"})


def test_other_commands_name_the_way_out(tmp_path: Path, database: Database) -> None:
    path = write(tmp_path, database)
    with pytest.raises(ConfigError, match="an event pipeline, whose sink is files: only `run`, `check`, `explain`"):
        invoke("dlq", "list", path)
    with pytest.raises(click.UsageError, match="--until is for pipelines to tables"):
        invoke("run", path, "--until", 5)
