"""A pipeline continues where a Debezium connector ended, with the rows that it has not sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from changefeed import record_log
from changefeed.api.events import EventPipeline
from changefeed.errors import ConfigError, SourceError
from changefeed.mysql.binlog import Parser
from changefeed.mysql.binlog.events import MariaDbGtid, Query, Rows
from changefeed.sources.mysql.debezium_offset import DebeziumOffset, read_offset
from changefeed.sources.mysql.source_offset import LogPosition
from tests.services.database import Database
from tests.services.debezium import Debezium


@pytest.fixture
def database(server: Database) -> Database:
    """The server with the empty table `shop.orders`."""
    server.execute("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY)")
    return server


def continued(folder: Path, database: Database, offset: dict[str, Any] | Path) -> list[int | None]:
    """The ids in the events that a pipeline writes which continues at an offset; None for a transaction's mark."""
    path = offset if isinstance(offset, Path) else folder / "offset.json"
    if isinstance(offset, dict):
        path.write_text(json.dumps(offset))
    source = {
        "type": "mysql", "host": "127.0.0.1", "port": database.port, "user": "dbz", "password": "dbz", "tables": ["shop.orders"],
        "snapshot.mode": "no_data", "from-debezium": str(path),
    }  # fmt: skip
    protocol = {
        "name": "debezium-mysql", "connector": database.connector, "topic.prefix": "srv", "schemas.enable": False,
        "provide.transaction.metadata": True,
    }  # fmt: skip
    sink = {"type": "files", "path": str(folder / "events"), "protocol": protocol}
    EventPipeline.from_dict(
        {"source": source, "sink": sink, "pipeline": {"folder": str(folder / "state")}}, base=folder
    ).run()
    values = [
        json.loads(row["value"])
        for batch in record_log.read(folder / "events")
        for row in batch.select(["value"]).to_pylist()
    ]
    return [value["after"]["id"] if "after" in value else None for value in values]


def transaction(database: Database) -> tuple[str, int, list[int]]:
    """File and position of the last transaction's beginning, as a connector has it, and the numbers of its row events."""
    file = database.binlogs()[-1]
    begins, number, rows = 0, 0, list[int]()
    for event in Parser().file(file.read_bytes()):
        is_begin = isinstance(event, MariaDbGtid) or (isinstance(event, Query) and event.text == "BEGIN")
        if is_begin:
            begins, number, rows = event.header.position or 0, 0, []
        if isinstance(event, Rows):
            rows.append(number)
        number += 1
    return file.name, begins, rows


@pytest.mark.parametrize(
    "sent, rest", [((0, 1), [2, 3, 4, 5, None]), ((0, 3), [4, 5, None]), ((1, 1), [5, None]), ((1, 2), [None])]
)
def test_the_rest_of_a_transaction_is_sent(
    tmp_path: Path, database: Database, sent: tuple[int, int], rest: list[int | None]
) -> None:
    """`sent`: the number of the row event at which the connector ended, and its rows that were sent."""
    database.execute(
        "BEGIN; INSERT INTO orders VALUES (1), (2), (3); INSERT INTO orders VALUES (4), (5); COMMIT", "shop"
    )
    file, position, events = transaction(database)
    offset = {"ts_sec": 1, "file": file, "pos": position, "event": events[sent[0]], "row": sent[1], "server_id": 1}
    assert continued(tmp_path, database, offset) == rest


def test_between_transactions_everything_that_follows_is_sent(tmp_path: Path, database: Database) -> None:
    database.execute("INSERT INTO orders VALUES (1)", "shop")
    file = database.binlogs()[-1]
    offset = {"file": file.name, "pos": file.stat().st_size}
    database.execute("INSERT INTO orders VALUES (2)", "shop")
    assert continued(tmp_path, database, offset) == [None, 2, None]


@pytest.mark.nightly
@pytest.mark.xdist_group("processes")
def test_a_connector_is_replaced_without_gap_and_repeat(tmp_path: Path, database: Database) -> None:
    database.execute("INSERT INTO orders VALUES (1)", "shop")
    with Debezium(database, tmp_path / "engine", {"database.include.list": "shop"}) as engine:
        engine.follow("shop")
        database.execute("INSERT INTO orders VALUES (2), (3)", "shop")
        engine.wait(lambda events: any('"id":3' in (event["key"] or "") for event in events), "the last row")
    database.execute("INSERT INTO orders VALUES (4)", "shop")
    ids = [number for number in continued(tmp_path, database, tmp_path / "engine" / "offsets") if number is not None]
    assert ids == [4]


@pytest.mark.parametrize(
    "text, message",
    [
        ("nothing", "has no offset of a MySQL or MariaDB connector"),
        ('{"file": "binlog.000001", "pos": 4, "snapshot": "INITIAL"}', "inside of the connector's snapshot"),
        ('{"file": "binlog", "pos": 4}', "is not a position in a binary log"),
        (
            '["a",{"server":"x"}]\t{"file":"b.1","pos":4}\n["a",{"server":"y"}]\t{"file":"b.1","pos":4}',
            "of several connectors",
        ),
    ],
)
def test_an_offset_that_cannot_be_used_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "offset"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_offset(str(path))


def test_a_log_that_was_purged_is_named(tmp_path: Path, database: Database) -> None:
    with pytest.raises(SourceError, match=r"no longer has binlog\.000099"):
        continued(tmp_path, database, {"file": "binlog.000099", "pos": 4})


def test_offsets_are_read_from_the_text_of_their_topic(tmp_path: Path) -> None:
    path = tmp_path / "offset"
    path.write_text(
        '["shop",{"server":"srv"}]\t{"file":"b.000001","pos":4}\n["shop",{"server":"srv"}]\t{"file":"b.000002","pos":9,"event":2}\n'
    )
    assert read_offset(str(path)) == DebeziumOffset(LogPosition("b.000002", 9), 2)


def test_an_offset_of_another_server_is_refused(tmp_path: Path, database: Database) -> None:
    gtids = "7-1-5" if database.connector == "mariadb" else "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
    offset = {"file": database.binlogs()[-1].name, "pos": 4, "gtids": gtids}
    with pytest.raises(ConfigError, match=f"it has not {gtids}. The offset is of another server"):
        continued(tmp_path, database, offset)
