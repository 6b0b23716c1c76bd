"""Event pipelines and transactions in two phases: their rows are events from XA COMMIT on, and never after XA ROLLBACK."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from changefeed import telemetry
from changefeed.api.events import load_pipeline
from tests.pipeline.events.appended import payloads, rows, write
from tests.pipeline.events.stopping import StopError, stop_at
from tests.services.database import Database
from tests.sources.mysql.applications import Applications

pytestmark = pytest.mark.slow


@pytest.fixture
def database(server: Database) -> Database:
    server.execute(
        "DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; USE shop; CREATE TABLE a (id INT PRIMARY KEY, v TEXT);"
        "CREATE TABLE log (n INT, v TEXT); CREATE TABLE zz_other (id INT PRIMARY KEY); FLUSH BINARY LOGS"
    )
    return server


def differing(folder: Path, database: Database) -> dict[str, Any]:
    """The rows that only the events have, or only the server; by the names of the tables."""
    keyed, keyless = dict[int, str](), Counter[tuple[str, ...]]()
    for table, op, _, before, after in rows(folder):
        if table == "log" and after is not None:
            keyless[tuple(map(str, after.values()))] += 1
        if table == "a" and op == "d":
            assert keyed.pop(before["id"]) == before["v"]
        elif table == "a" and op:
            assert keyed.get(after["id"]) == (before and before["v"])
            keyed[after["id"]] = after["v"]
    ours: dict[str, Counter[Any]] = {"a": Counter((str(id), v) for id, v in keyed.items()), "log": keyless}
    right = {name: Counter(map(tuple, database.selected(f"SELECT * FROM {name}", "shop"))) for name in ours}
    return {name: (ours[name] - right[name], right[name] - ours[name]) for name in ours if ours[name] != right[name]}


@pytest.mark.parametrize("histories", [1, pytest.param(10, marks=pytest.mark.nightly)])
def test_events_have_what_is_committed(
    database: Database, histories: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(histories):
        seed = Random().randrange(10**6)
        print(f"seed {seed}")  # shown if the test fails
        database.execute("DELETE FROM a; DELETE FROM log; DELETE FROM zz_other; FLUSH BINARY LOGS", "shop")
        folder = tmp_path / str(number)
        folder.mkdir()
        compare(database, Random(seed), folder, monkeypatch)


def compare(database: Database, random: Random, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Follows applications that write, by runs some of which end anywhere, and compares the events with the server."""
    applications = Applications(database, random)
    for _ in range(random.randrange(6)):  # some are prepared before the pipeline begins
        applications.step()
    for _ in range(12):
        for _ in range(random.randrange(5)):
            applications.step()
        if random.random() < 0.1:
            database.execute("FLUSH BINARY LOGS")
        size = random.choice([1, 300, 2000, 10**6])
        pipeline = load_pipeline(write(folder, database, **{"max-bytes-per-batch": size}))
        if random.random() < 0.3:
            with monkeypatch.context() as patch, suppress(StopError):
                patch.setattr(telemetry, "on_pass", stop_at("append.after", 1))
                pipeline.run()
        else:
            pipeline.run()
            assert differing(folder, database) == {}
    for xid in applications.prepared:
        database.execute(f"XA COMMIT {xid}")
    load_pipeline(write(folder, database)).run()
    assert differing(folder, database) == {}


def test_the_rows_keep_their_place_and_their_transaction(database: Database, tmp_path: Path) -> None:
    path = write(tmp_path, database)
    path.write_text(path.read_text().replace("schemas.enable", "provide.transaction.metadata: true, schemas.enable"))
    pipeline = load_pipeline(path)
    pipeline.run()
    before = len(payloads(tmp_path))
    database.execute(
        "XA START 'x'; INSERT INTO a VALUES (1, 'x'), (2, 'x'); INSERT INTO a VALUES (3, 'x'); XA END 'x'; XA PREPARE 'x'",
        "shop",
    )
    database.execute("INSERT INTO a VALUES (4, 'y')", "shop")
    pipeline.run()
    database.execute("XA COMMIT 'x'")
    pipeline.run()
    events = payloads(tmp_path)[before:]
    sources = {v["after"]["id"]: v["source"] for topic, _, v in events if topic == "srv.shop.a"}
    assert list(sources) == [4, 1, 2, 3]
    places = [(source["pos"], source["row"]) for source in sources.values()]
    assert places[1][0] == places[2][0] < places[3][0] < places[0][0]
    assert [row for _, row in places] == [0, 0, 1, 0]
    marks = [value for topic, _, value in events if topic == "srv.transaction"]
    if database.connector == "mariadb":  # MySQL's has no BEGIN, and Debezium's connector no mark
        assert [(mark["status"], mark["event_count"]) for mark in marks] == [
            ("BEGIN", None), ("END", 1), ("BEGIN", None), ("END", 3),
        ]  # fmt: skip
    else:
        assert [mark["status"] for mark in marks] == ["BEGIN", "END"]
