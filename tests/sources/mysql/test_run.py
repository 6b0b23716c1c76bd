"""A pipeline from a live server into Delta: a first copy, then its log, with the rows of every table as the server has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed.errors import ConfigError, UnsupportedError
from tests.cli.command import invoke
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.pipelines import load, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BY_OPTIONS = "snapshot.mode.configuration.based"


@pytest.fixture(params=[MariaDb, pytest.param(MySql, marks=pytest.mark.nightly)], ids=["mariadb", "mysql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        server.execute(
            "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY, total DECIMAL(10,2), note VARCHAR(20));"
            "CREATE TABLE shop.items (a INT, b VARCHAR(10), PRIMARY KEY (a, b));"
            "INSERT INTO shop.orders VALUES (1, 12.50, 'first'), (2, NULL, NULL), (3, 0.10, 'é')"
        )
        yield server


def test_tables_follow_the_server(tmp_path: Path, spark: SparkSession, database: Database) -> None:
    pipeline = load(tmp_path, database, **{"chunk-rows": 2})
    pipeline.run(spark)
    first = tables(pipeline, tmp_path)
    assert first["shop.orders"] == [
        {"id": 1, "total": "12.50", "note": "first"},
        {"id": 2, "total": None, "note": None},
        {"id": 3, "total": "0.10", "note": "é"},
    ]
    assert first["shop.items"] == []
    database.execute(
        "USE shop; UPDATE orders SET note = 'later' WHERE id = 2; DELETE FROM orders WHERE id = 1;"
        "BEGIN; INSERT INTO items VALUES (1, 'x'), (1, 'y'); UPDATE items SET b = 'z' WHERE b = 'x'; COMMIT;"
        "ALTER TABLE orders ADD COLUMN count INT NOT NULL DEFAULT 7; INSERT INTO orders VALUES (4, 1, 'new', 8);"
        "CREATE TABLE more (id INT PRIMARY KEY); INSERT INTO more VALUES (5); RENAME TABLE more TO others"
    )
    summary = pipeline.run(spark)
    assert tables(pipeline, tmp_path) == {
        "shop.orders": [
            {"id": 2, "total": None, "note": "later", "count": 7}, {"id": 3, "total": "0.10", "note": "é", "count": 7},
            {"id": 4, "total": "1.00", "note": "new", "count": 8},
        ],
        "shop.items": [{"a": 1, "b": "y"}, {"a": 1, "b": "z"}],
        "shop.others": [{"id": 5}],
    }  # fmt: skip
    assert "binlog 000001:" in summary.cut


def test_a_generated_column_that_is_added(tmp_path: Path, spark: SparkSession, database: Database) -> None:
    pipeline = load(tmp_path, database, **{"chunk-rows": 2})
    pipeline.run(spark)
    database.execute(
        "ALTER TABLE shop.orders ADD COLUMN doubled INT AS (id * 2) STORED; DELETE FROM shop.orders WHERE id = 1"
    )
    with pytest.raises(UnsupportedError, match=r"Copy the table again \(`changefeed snapshot … shop.orders`\), or set"):
        pipeline.run(spark)
    pipeline = load(tmp_path, database, **{"chunk-rows": 2, "snapshot.mode": "when_needed"})
    pipeline.run(spark)
    assert [(row["id"], row["doubled"]) for row in tables(pipeline, tmp_path)["shop.orders"]] == [(2, 4), (3, 6)]


def test_a_table_without_a_key(tmp_path: Path, spark: SparkSession, database: Database) -> None:
    database.execute("USE shop; CREATE TABLE log (n INT); INSERT INTO log VALUES (1), (1), (NULL)")
    pipeline = load(tmp_path, database)
    pipeline.run(spark)
    database.execute("USE shop; INSERT INTO log VALUES (1), (2)")
    pipeline.run(spark)
    rows_of_log = tables(pipeline, tmp_path)["shop.log"]
    assert rows_of_log == [{"n": 1}, {"n": 1}, {"n": 1}, {"n": 2}, {"n": None}]


def test_the_command_copies_a_table_again(tmp_path: Path, spark: SparkSession, database: Database) -> None:
    pipeline = load(tmp_path, database)
    pipeline.run(spark)
    database.execute("SET sql_log_bin = 0; USE shop; DELETE FROM orders WHERE id = 1; UPDATE orders SET note = 'new'")
    result = invoke("snapshot", tmp_path / "pipeline.yaml", "shop.orders", "--json")
    assert json.loads(result.stdout) == {"tables": ["shop.orders"], "where": None, "running": False}
    assert pipeline.status().to_dict()["snapshots"] == [{"tables": [["shop", "orders"]]}]
    shown = invoke("status", tmp_path / "pipeline.yaml")
    assert "copies  shop.orders again: requested, not complete" in shown.stdout
    pipeline.run(spark)
    assert tables(pipeline, tmp_path)["shop.orders"] == [
        {"id": 2, "total": None, "note": "new"}, {"id": 3, "total": "0.10", "note": "new"},
    ]  # fmt: skip
    assert "snapshots" not in pipeline.status().to_dict()
    with pytest.raises(ConfigError, match=r"the condition 'nothing = 1' cannot be used for shop\.orders"):
        invoke("snapshot", tmp_path / "pipeline.yaml", "shop.orders", "--where", "nothing = 1")


def test_every_run_copies_the_tables_with_always(tmp_path: Path, spark: SparkSession, database: Database) -> None:
    pipeline = load(tmp_path, database, **{"snapshot.mode": "always"})
    pipeline.run(spark)
    database.execute(
        "SET sql_log_bin = 0; USE shop; DELETE FROM orders WHERE id < 3; INSERT INTO items VALUES (1, 'x')"
    )
    pipeline.run(spark)
    copied = tables(pipeline, tmp_path)
    assert copied["shop.orders"] == [{"id": 3, "total": "0.10", "note": "é"}]
    assert copied["shop.items"] == [{"a": 1, "b": "x"}]


def test_a_mode_by_options(tmp_path: Path, spark: SparkSession, database: Database) -> None:
    """First a copy alone, then its log; a change in between is not read before that."""
    options = {"snapshot.mode": "configuration_based", f"{_BY_OPTIONS}.snapshot.data": "true"}
    load(tmp_path, database, **options).run(spark)
    database.execute("USE shop; DELETE FROM orders WHERE id > 1; INSERT INTO items VALUES (1, 'x')")
    pipeline = load(tmp_path, database, **options)
    pipeline.run(spark)
    copied = tables(pipeline, tmp_path)
    assert ([row["id"] for row in copied["shop.orders"]], copied["shop.items"]) == ([1, 2, 3], [])
    pipeline = load(tmp_path, database, **options, **{f"{_BY_OPTIONS}.start.stream": "true"})
    pipeline.run(spark)
    followed = tables(pipeline, tmp_path)
    assert ([row["id"] for row in followed["shop.orders"]], followed["shop.items"]) == ([1], [{"a": 1, "b": "x"}])
