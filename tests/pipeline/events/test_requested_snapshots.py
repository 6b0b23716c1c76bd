"""Rows that are sent again on request, while the log goes on: `changefeed snapshot`, and signals in a table or a topic."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from random import Random
from typing import Any

import pytest

from changefeed import record_log, telemetry
from changefeed.api.events import load_pipeline
from tests.cli.command import invoke
from tests.pipeline.events.stopping import StopError, stop_at
from tests.pipeline.kit.server_log import run, tables
from tests.protocols.debezium_mysql.records import log
from tests.services.database import Database
from tests.services.kafka import KafkaBroker

ORDERS = [{"id": number, "note": f"n{number}"} for number in range(1, 6)]


@pytest.fixture
def database(server: Database) -> Database:
    """The server with two tables in `shop`, and a signal table."""
    values = ", ".join(f"({row['id']}, '{row['note']}')" for row in ORDERS)
    server.execute(
        "DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; DROP DATABASE IF EXISTS ops; CREATE DATABASE ops;"
        "CREATE TABLE ops.signals (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048));"
        f"CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20)); INSERT INTO shop.orders VALUES {values};"
        "CREATE TABLE shop.visits (at INT); INSERT INTO shop.visits VALUES (7), (7)"
    )
    return server


def write(folder: Path, database: Database, **source: Any) -> Path:
    """The file of a pipeline of all tables of `shop` to a folder, with further options of the source."""
    own = {"type": "mysql", "host": "127.0.0.1", "port": database.port, "user": "dbz", "password": "dbz"}
    protocol = {
        "name": "debezium-mysql",
        "connector": database.connector,
        "topic.prefix": "srv",
        "schemas.enable": False,
    }
    path = folder / "pipeline.yaml"
    document = {
        "source": {**own, "tables": ["shop.*"], **source},
        "sink": {"type": "files", "path": "events", "protocol": protocol | {"provide.transaction.metadata": True}},
        "pipeline": {"name": "shop", "folder": "state"},
    }
    path.write_text(json.dumps(document))
    return path


def records(folder: Path) -> list[dict[str, Any]]:
    """The records that were appended."""
    return [record for batch in record_log.read(folder / "events") for record in batch.to_pylist()]


def sent(folder: Path, table: str, mark: str | None = None) -> list[tuple[int, Any, Any]]:
    """Position in the log, op, and image of each row of a table; `mark`: only those with this mark of a snapshot."""
    values = [json.loads(r["value"]) for r in records(folder) if r["topic"] == f"srv.shop.{table}" and r["value"]]
    return [
        (value["source"]["pos"], value["op"], value["after"] or value["before"])
        for value in values
        if mark is None or value["source"]["snapshot"] == mark
    ]


def members(notification: dict[str, Any]) -> tuple[str, ...]:
    """Type and names of the members of a notification."""
    return (notification["type"], *notification, *sorted(notification["additional_data"]))


def check_tables(folder: Path, database: Database) -> None:
    """Asserts that pipelines into tables, which read the records in parts, have the rows of the server.

    With cuts, the rows of a snapshot wait for something behind them: a row of another table.
    """
    database.execute("INSERT INTO visits VALUES (9)", "shop")
    load_pipeline(folder / "pipeline.yaml").run()
    wanted = [list(map(str, row)) for row in database.selected("SELECT * FROM orders ORDER BY id", "shop")]
    for consistency in ("transaction", "key"):
        for chance in (None, Random(1), Random(2)):
            storage, _ = run(records(folder), chance=chance, consistency=consistency, keyless="inserts")
            lines = sorted(tables(storage)["shop.orders"], key=lambda row: int(row["id"]))
            assert [[str(value) for value in row.values()] for row in lines] == wanted, consistency


def test_rows_are_sent_again_at_one_position_of_the_log(tmp_path: Path, database: Database) -> None:
    path = write(tmp_path, database)
    assert invoke("run", path, "--once").return_value == 0
    database.execute("UPDATE orders SET note = 'before' WHERE id = 1", "shop")
    requested = invoke("snapshot", path, "shop.orders")
    assert requested.stdout == "requested: the next run sends the rows of shop.orders again\n"
    assert "copies  shop.orders again: requested, not complete" in invoke("status", path).stdout
    assert json.loads(invoke("status", path, "--json").stdout)["snapshots"] == [{"tables": [["shop", "orders"]]}]
    assert invoke("run", path, "--once").return_value == 0
    database.execute("UPDATE orders SET note = 'after' WHERE id = 2; DELETE FROM orders WHERE id = 3", "shop")
    assert invoke("run", path, "--once").return_value == 0
    again = sent(tmp_path, "orders", "incremental")
    assert [(op, row) for _, op, row in again] == [
        ("r", row | {"note": "before"} if row["id"] == 1 else row) for row in ORDERS
    ]
    [place] = {place for place, _, _ in again}
    streamed = sent(tmp_path, "orders", "false")
    assert [(at > place, op, row["note"]) for at, op, row in streamed] == [
        (False, "u", "before"), (True, "u", "after"), (True, "d", "n3"),
    ]  # fmt: skip
    assert sent(tmp_path, "visits", "incremental") == []
    assert "snapshots" not in json.loads(invoke("status", path, "--json").stdout)
    check_tables(tmp_path, database)


def test_a_condition_chooses_the_rows(tmp_path: Path, database: Database) -> None:
    path = write(tmp_path, database, **{"snapshot.mode": "no_data"})
    pipeline = load_pipeline(path)
    pipeline.run()
    pipeline.snapshot(["shop.orders"], "id > 2 AND id < 5 OR note = 'n1'")
    pipeline.snapshot(["shop.visits"])
    pipeline.run()
    assert [row["id"] for _, _, row in sent(tmp_path, "orders")] == [1, 3, 4]
    assert [row for _, _, row in sent(tmp_path, "visits")] == [{"at": 7}, {"at": 7}]


@pytest.mark.parametrize("place", ["begun.after", "append.after", "done.before", "done.after"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_run_that_ends_anywhere_is_continued(
    tmp_path: Path, database: Database, place: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = load_pipeline(write(tmp_path, database))
    pipeline.run()
    pipeline.snapshot(["shop.orders"])
    database.execute("UPDATE orders SET note = 'x' WHERE id = 4", "shop")
    with monkeypatch.context() as patch:
        patch.setattr(telemetry, "on_pass", stop_at(place, number))
        try:
            pipeline.run()
        except StopError:
            database.execute("UPDATE orders SET note = 'y' WHERE id = 5; INSERT INTO orders VALUES (6, 'new')", "shop")
    pipeline.run()
    again = [row["id"] for _, _, row in sent(tmp_path, "orders", "incremental")]
    assert {*again} >= {1, 2, 3, 4, 5}
    check_tables(tmp_path, database)


def test_a_signal_in_the_log_is_carried_out_once(tmp_path: Path, database: Database) -> None:
    path = write(tmp_path, database, **{"signal-table": "ops.signals", "max-bytes-per-batch": 1})
    pipeline = load_pipeline(path)
    pipeline.run()
    order = json.dumps({"data-collections": ["shop.orders"], "type": "incremental"})
    database.execute(
        f"INSERT INTO orders VALUES (7, 'a'); INSERT INTO ops.signals VALUES ('one', 'execute-snapshot', '{order}');"
        "UPDATE orders SET note = 'b' WHERE id = 7; INSERT INTO ops.signals VALUES ('two', 'no-such', '{}')",
        "shop",
    )
    pipeline.run()
    pipeline.run()
    assert [row["id"] for _, _, row in sent(tmp_path, "orders", "incremental")] == [1, 2, 3, 4, 5, 7]
    assert not any("signals" in record["topic"] for record in records(tmp_path))
    check_tables(tmp_path, database)


def test_a_signal_in_a_topic_is_carried_out_once(tmp_path: Path, database: Database, kafka: KafkaBroker) -> None:
    topic = f"signals-{uuid.uuid4().hex}"
    kafka.create_topic(topic)
    pipeline = load_pipeline(write(tmp_path, database, **{"signal-topic": topic, "signal-servers": kafka.bootstrap}))
    pipeline.run()
    pipeline.run()  # it reads the topic from its end on
    order = {"type": "execute-snapshot", "data": {"data-collections": ["shop.orders"], "type": "incremental"}}
    kafka.produce(topic, [(None, json.dumps(order).encode(), [], 0)])
    database.execute("INSERT INTO orders VALUES (7, 'a')", "shop")
    pipeline.run()
    pipeline.run()
    assert [row["id"] for _, _, row in sent(tmp_path, "orders", "incremental")] == [1, 2, 3, 4, 5, 7]
    check_tables(tmp_path, database)


def test_rows_that_change_meanwhile_are_right(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is written while the rows are read and appended."""
    pipeline = load_pipeline(write(tmp_path, database))
    pipeline.run()
    pipeline.snapshot(["shop.orders"])
    chance, writes = Random(3), 0

    def change(point: str) -> None:
        nonlocal writes
        writes += 1
        number = chance.randint(1, 8)
        database.execute(
            f"REPLACE INTO orders VALUES ({number}, 'w{writes}'); DELETE FROM orders WHERE id = {chance.randint(1, 8)}",
            "shop",
        )

    with monkeypatch.context() as patch:
        patch.setattr(telemetry, "on_pass", change)
        pipeline.run()
    assert writes > 3
    pipeline.run()
    check_tables(tmp_path, database)


def test_notifications_show_how_far_a_snapshot_is(tmp_path: Path, database: Database) -> None:
    """They have the members of those that the connector has sent."""
    database.execute("CREATE TABLE shop.empty (id INT PRIMARY KEY)")
    path = write(tmp_path, database, **{"signal-table": "ops.signals", "notification-topic": "notes"})
    pipeline = load_pipeline(path)
    pipeline.run()
    order = json.dumps({"data-collections": ["shop.orders"]})
    database.execute(f"INSERT INTO ops.signals VALUES ('one', 'execute-snapshot', '{order}')")
    pipeline.run()
    values = [(r["topic"], r["key"], json.loads(r["value"])) for r in records(tmp_path) if r["value"]]
    places = [
        (
            value["type"],
            value["additional_data"].get("scanned_collection"),
            value["additional_data"].get("total_rows_scanned"),
        )
        if topic == "notes"
        else topic
        for topic, _, value in values
        if topic in ("notes", "srv.shop.orders", "srv.shop.visits")
    ]
    assert places == [
        ("STARTED", None, None),
        ("IN_PROGRESS", None, None), ("TABLE_SCAN_COMPLETED", "shop.empty", "0"),
        ("IN_PROGRESS", None, None), *["srv.shop.orders"] * 5, ("TABLE_SCAN_COMPLETED", "shop.orders", "5"),
        ("IN_PROGRESS", None, None), *["srv.shop.visits"] * 2, ("TABLE_SCAN_COMPLETED", "shop.visits", "2"),
        ("COMPLETED", None, None),
        ("STARTED", None, None),
        ("IN_PROGRESS", None, None), *["srv.shop.orders"] * 5, ("TABLE_SCAN_COMPLETED", "shop.orders", "5"),
        ("COMPLETED", None, None),
    ]  # fmt: skip
    notes = [(json.loads(key), value) for topic, key, value in values if topic == "notes"]
    assert all(key == {"id": value["id"]} for key, value in notes)
    assert {(v["aggregate_type"], v["id"]) for _, v in notes if v["aggregate_type"] != "Initial Snapshot"} == {
        ("Incremental Snapshot", "one")
    }
    assert {v["additional_data"]["connector_name"] for _, v in notes} == {"srv"}
    recorded = [
        json.loads(r["value"])["payload"] for r in log("mariadb-opt_notif") if r["topic"] == "notif" and r["value"]
    ]
    assert {members(v) for _, v in notes if v["aggregate_type"] == "Initial Snapshot"} == {members(v) for v in recorded}
    check_tables(tmp_path, database)
