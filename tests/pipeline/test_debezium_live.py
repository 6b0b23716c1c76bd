"""Debezium's own engine on a real server: snapshots of every kind, then the tables against the database, value by value."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed.pipeline.run import run
from tests.pipeline.databases import check_equal, content
from tests.pipeline.debezium_histories import HISTORIES, SERVERS, SHOP, TWICE
from tests.pipeline.test_debezium_recorded import pipeline
from tests.services.debezium import write_log

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
