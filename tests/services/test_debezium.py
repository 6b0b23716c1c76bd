"""Debezium's engine as `debezium.py` starts it: which events it writes to its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.database import MariaDb
from tests.services.debezium import MARKER, PREFIX, Debezium


@pytest.mark.nightly
@pytest.mark.xdist_group("processes")
def test_events_of_other_topics_are_counted(tmp_path: Path) -> None:
    settings = {"snapshot.mode": "initial", "include.schema.changes": "false", "provide.transaction.metadata": "false"}
    with MariaDb() as database:
        database.execute(
            "CREATE DATABASE shop; USE shop; CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)"
        )
        with Debezium(database, tmp_path, settings, written=MARKER) as engine:
            database.execute("INSERT INTO t VALUES (3)", "shop")
            events = engine.follow("shop")
    assert [event["topic"] for event in events] == [f"{PREFIX}.shop.{MARKER}"]
    assert events[0]["skipped"] == 3
