"""Debezium's own engine on a real server: snapshots of every kind, then the tables against the database, value by value."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed.pipeline.run import run
from tests.pipeline.kit.databases import check_equal, content
from tests.pipeline.kit.debezium_histories import HISTORIES, SERVERS, SETTINGS, SHOP, TWICE, Writes
from tests.pipeline.kit.debezium_recorded import pipeline
from tests.services.database import Database
from tests.services.debezium import Debezium, Event, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# test_debezium_recorded.py reads what they sent once
@pytest.mark.nightly
@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("server", ["mariadb", "mysql", "mysql-places"])
def test_tables_end_as_the_databases(server: str, name: str, spark: SparkSession, tmp_path: Path) -> None:
    seed = random.randrange(1000)
    print(f"seed {seed}")  # shown when it fails
    with SERVERS[server]() as database:
        events = HISTORIES[name](database, tmp_path / "engine", seed)
        wanted = content(database, SHOP)
    for consistency in ("transaction", "key"):
        log = write_log(tmp_path / f"{consistency}.jsonl", events, partitions=random.Random(seed).randint(1, 3))
        lake = tmp_path / consistency
        pipe = pipeline(log, lake, consistency=consistency, limit=random.Random(seed).choice([60, 100_000]))
        run(pipe, spark, once=True)
        check_equal(pipe, SHOP, wanted, TWICE.get(name, ()) if consistency == "key" else ())


@pytest.mark.nightly
@pytest.mark.parametrize("server", ["mariadb", "mysql", "mysql-places"])
def test_each_run_between_restarts_ends_as_the_database(server: str, spark: SparkSession, tmp_path: Path) -> None:
    """A snapshot, a run, schema changes under a killed engine, a run, changes of another one, a run: the log grows."""
    seed = random.randrange(1000)
    print(f"seed {seed}")  # shown when it fails
    partitions, settings = random.Random(seed).randint(1, 3), SETTINGS
    pipe = pipeline(tmp_path / "log.jsonl", tmp_path / "lake", limit=random.Random(seed).choice([60, 100_000]))

    def compare(database: Database, events: list[Event]) -> None:
        write_log(tmp_path / "log.jsonl", events, partitions=partitions)
        run(pipe, spark, once=True)
        check_equal(pipe, SHOP, content(database, SHOP))

    with SERVERS[server]() as database:
        writes, folder = Writes(database, seed), tmp_path / "engine"
        writes.create()
        with Debezium(database, folder, settings) as engine:
            compare(database, engine.follow(SHOP))
            writes.change(4, log=False)
            writes.sql("ALTER TABLE customers ADD COLUMN phone VARCHAR(20) DEFAULT 'none' AFTER name")
            writes.change(3, log=False)
            writes.sql(
                "RENAME TABLE items TO positions; ALTER TABLE customers DROP COLUMN seen, ADD COLUMN seen DATETIME(3)"
            )
            engine.follow(SHOP)
            engine.kill()
        writes.sql("DROP TABLE nothing; CREATE TABLE nothing (other INT PRIMARY KEY); INSERT INTO nothing VALUES (3)")
        writes.sql(
            "UPDATE customers SET id = id + 1000 ORDER BY id DESC LIMIT 2; DELETE FROM customers ORDER BY id LIMIT 1"
        )
        with Debezium(database, folder, settings) as engine:
            compare(database, engine.follow(SHOP))
            writes.sql("TRUNCATE TABLE positions; CREATE TABLE fresh (a INT PRIMARY KEY, b VARBINARY(8))")
            writes.sql(
                "INSERT INTO fresh VALUES (1, 'x'); INSERT INTO positions (order_id, line, sku, qty) VALUES (1, 1, 'a', 2)"
            )
        with Debezium(database, folder, settings) as engine:
            compare(database, engine.follow(SHOP))
