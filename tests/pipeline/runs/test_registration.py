"""The tables' names in the catalog of a Spark session are those of the ledger, whatever happens to tables, runs and names."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from changefeed import telemetry
from changefeed.errors import SinkError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import read as definition_of
from changefeed.pipeline.run import run
from changefeed.sinks.catalog import Comparison, EntryName
from changefeed.sinks.spark_catalog import SparkCatalog
from tests.killed import Killed
from tests.pipeline.kit.history import HistoryBuilder
from tests.pipeline.kit.running import published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYED = "CREATE TABLE `app`.`{}` (`id` BIGINT NOT NULL,`note` VARCHAR(20),PRIMARY KEY(`id`))"
pytestmark = pytest.mark.heavy


@pytest.fixture
def database(spark: SparkSession) -> Iterator[str]:
    """The name of a database that is not there yet."""
    name = f"t{uuid.uuid4().hex}"
    yield name
    spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that ask the catalog."""
    calls: list[str] = []
    compare, apply = SparkCatalog.compare, SparkCatalog.apply

    def compared(self: SparkCatalog, *entries: Any) -> Comparison:
        calls.append("compare")
        return compare(self, *entries)

    def applied(self: SparkCatalog, comparison: Comparison) -> None:
        calls.append("apply")
        apply(self, comparison)

    monkeypatch.setattr(SparkCatalog, "compare", compared)
    monkeypatch.setattr(SparkCatalog, "apply", applied)
    return calls


class Shop:
    """A history that grows, and the pipeline that follows it into a database of the catalog."""

    def __init__(self, folder: Path, database: str, spark: SparkSession) -> None:
        self.history, self.folder, self.database, self.spark = HistoryBuilder(), folder, database, spark
        self.lake = folder / "a lake"
        self.ids = 0
        self.history.schema("app", None, "CREATE DATABASE `app`")

    def ddl(self, table: str, statement: str) -> None:
        self.history.schema("app", table, statement)

    def create(self, *tables: str) -> None:
        """Creates tables with one row each."""
        for table in tables:
            self.ddl(table, KEYED.format(table))
            self.insert(table)

    def insert(self, table: str) -> None:
        self.ids += 1
        self.history.rows((table, None, {"id": self.ids, "note": table}))

    def pipeline(self, **sink: Any) -> Definition:
        self.history.resolved()
        log = self.history.write(self.folder / "app.jsonl")
        names = {"catalog": "spark_catalog", "catalog-names": f"{self.database}.{{table}}"}
        return definition_of(
            {
                "source": {"type": "files", "path": str(log), "protocol": "ticdc-open"},
                "sink": {"type": "delta", "path": str(self.lake), **names, **sink},
                "pipeline": {"name": "test", "max-retries": 0},
            }
        )

    def run(self, **sink: Any) -> None:
        run(self.pipeline(**sink), self.spark, once=True)

    def names(self) -> set[str]:
        """The names in the database, all of which must be entries of this pipeline."""
        if not self.spark.catalog.databaseExists(self.database):
            return set()
        return {row.tableName for row in self.spark.sql(f"SHOW TABLES IN {self.database}").collect()}

    def notes(self, table: str) -> list[str]:
        """The notes in a table, by its name."""
        rows = self.spark.sql(f"SELECT note FROM {self.database}.{table} ORDER BY id").collect()
        return [row.note for row in rows]

    def logs(self) -> dict[str, list[str]]:
        """Table -> the files of its log."""
        folders = (self.lake / "app").iterdir()
        return {table.name: sorted(f.name for f in (table / "_delta_log").iterdir()) for table in folders}


@pytest.fixture
def shop(tmp_path: Path, database: str, spark: SparkSession) -> Shop:
    return Shop(tmp_path, database, spark)


def test_names_follow_tables_that_are_made_renamed_and_dropped(shop: Shop) -> None:
    shop.create("orders", "notes", "drafts")
    shop.run()
    assert shop.names() == {"orders", "notes", "drafts"}
    assert shop.notes("orders") == ["orders"]

    shop.ddl("orders", "RENAME TABLE `app`.`orders` TO `app`.`sales`")
    shop.insert("sales")
    shop.ddl("drafts", "DROP TABLE `app`.`drafts`")
    shop.run()
    assert shop.names() == {"sales", "notes"}
    assert shop.notes("sales") == ["orders", "sales"]


def test_a_table_that_is_dropped_and_created_again_has_its_name(shop: Shop) -> None:
    shop.create("orders")
    shop.run()
    shop.ddl("orders", "DROP TABLE `app`.`orders`")
    shop.create("orders")
    shop.insert("orders")
    shop.run()
    assert (shop.names(), shop.notes("orders")) == ({"orders"}, ["orders", "orders"])
    shop.ddl("orders", "DROP TABLE `app`.`orders`")
    shop.run()
    assert shop.names() == set()
    shop.create("orders")
    shop.run()
    assert (shop.names(), shop.notes("orders")) == ({"orders"}, ["orders"])


def test_a_truncated_table_keeps_its_name(shop: Shop) -> None:
    shop.create("orders")
    shop.run()
    shop.ddl("orders", "TRUNCATE TABLE `app`.`orders`")
    shop.run()
    assert (shop.names(), shop.notes("orders")) == ({"orders"}, [])


@pytest.mark.parametrize("at_once", [True, False], ids=["in one step", "in three"])
def test_tables_that_swap_their_names(shop: Shop, at_once: bool) -> None:
    shop.create("a", "b")
    shop.run()
    for old, new in (("a", "tmp"), ("b", "a"), ("tmp", "b")):
        shop.ddl(old, f"RENAME TABLE `app`.`{old}` TO `app`.`{new}`")
        if not at_once:
            shop.run()
            assert shop.names() == {name.table for name in _ledger(shop)}
    shop.run()
    assert shop.names() == {"a", "b"}
    assert (shop.notes("a"), shop.notes("b")) == (["b"], ["a"])


def _ledger(shop: Shop) -> list[EntryName]:
    state = published(shop.pipeline())[-1].state
    return [EntryName(shop.database, table.table.name) for table in state.tables.values()]


def test_a_move_between_databases_that_are_one_in_the_catalog_moves_the_entry(shop: Shop) -> None:
    shop.create("orders")
    shop.run()
    shop.ddl("orders", "RENAME TABLE `app`.`orders` TO `past`.`orders`")
    shop.run()
    assert (shop.names(), shop.notes("orders")) == ({"orders"}, ["orders"])
    assert "a lake/past/orders\n" in _shown(shop, "orders")
    shop.ddl("orders", "RENAME TABLE `past`.`orders` TO `app`.`orders`")
    shop.insert("orders")
    shop.run(catalog=None)
    shop.run()
    assert shop.notes("orders") == ["orders", "orders"]
    assert "a lake/app/orders\n" in _shown(shop, "orders")
    assert "changefeed.pipeline=test" in _shown(shop, "orders")
    shop.ddl("orders", "DROP TABLE `app`.`orders`")
    shop.run(catalog=None)
    shop.run()
    assert shop.names() == set()


def test_nothing_is_written_to_the_tables(shop: Shop) -> None:
    shop.create("orders", "notes")
    shop.run(catalog=None)
    before = shop.logs()
    shop.run()
    assert shop.names() == {"orders", "notes"}
    assert shop.logs() == before
    assert shop.notes("orders") == ["orders"]
    assert shop.logs() == before


def test_a_step_without_new_names_asks_nothing(shop: Shop, requests: list[str]) -> None:
    shop.create("orders")
    shop.run()
    requests.clear()
    shop.run()
    assert requests == ["compare", "apply"], "once, when a run begins"
    requests.clear()
    shop.insert("orders")
    shop.ddl("orders", "ALTER TABLE `app`.`orders` ADD COLUMN `qty` INT NULL")
    shop.insert("orders")
    shop.run()
    assert requests == ["compare", "apply"]
    assert shop.notes("orders") == ["orders"] * 3


def test_a_catalog_is_switched_on_for_tables_that_are_there_and_off_again(shop: Shop, requests: list[str]) -> None:
    tables = [f"t{n}" for n in range(20)]
    shop.create(*tables)
    shop.run(catalog=None)
    assert (shop.names(), requests) == (set(), [])
    shop.run()
    assert shop.names() == set(tables)
    shop.ddl("t0", "DROP TABLE `app`.`t0`")
    shop.run(catalog=None)
    assert shop.names() == set(tables), "entries stay"
    shop.run()
    assert shop.names() == {*tables} - {"t0"}


def test_a_run_that_ends_before_the_catalog_is_made_up_for(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.create("orders", "drafts")
    shop.run()
    shop.ddl("orders", "RENAME TABLE `app`.`orders` TO `app`.`sales`")
    shop.ddl("drafts", "DROP TABLE `app`.`drafts`")

    def on_pass(name: str) -> None:
        if name == "cleanup.after":  # the cut is in the ledger
            raise Killed(name)

    with monkeypatch.context() as patch:
        patch.setattr(telemetry, "on_pass", on_pass)
        with pytest.raises(Killed):
            shop.run()
    assert {name.table for name in _ledger(shop)} == {"sales"}
    assert shop.names() == {"orders", "drafts"}
    shop.run()
    assert shop.names() == {"sales"}


def test_a_catalog_that_fails_after_a_step_loses_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.create("orders")

    def failing(self: SparkCatalog, comparison: Comparison) -> None:
        if comparison.missing:
            raise SinkError("spark_catalog does not answer", transient=True)

    with monkeypatch.context() as patch:
        patch.setattr(SparkCatalog, "apply", failing)
        with pytest.raises(SinkError, match="does not answer"):
            shop.run()
    shop.insert("orders")
    shop.run()
    assert shop.notes("orders") == ["orders", "orders"]
    counts = published(shop.pipeline())[-1].state.counts
    assert (counts.applied, counts.repeated, counts.pending) == (2, 0, 0)


OTHERS = {
    "CREATE VIEW {0}.orders AS SELECT 1 AS x": "a view. Remove it (DROP VIEW {0}.orders), or give it another name",
    "CREATE TABLE {0}.orders (x INT) USING parquet": "a table that owns its files of parquet at file:",
    "CREATE TABLE {0}.orders (x INT) USING parquet LOCATION '{1}/other'": "another table of parquet at file:{1}/other. "
    "Remove it (DROP TABLE {0}.orders deletes no file), or set sink.catalog-names",
    "CREATE TABLE {0}.orders (x INT) USING delta LOCATION '{1}/other'": "another table of delta at file:{1}/other. ",
}


@pytest.mark.parametrize("statement", OTHERS, ids=["view", "managed", "parquet", "delta"])
def test_an_entry_of_others_stays_and_is_named(statement: str, shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.spark.sql(f"CREATE DATABASE {shop.database}")
    shop.spark.sql(statement.format(shop.database, shop.folder))
    entry = _shown(shop, "orders")
    shop.create("orders", "notes")
    with caplog.at_level(logging.WARNING):
        shop.run()
    (warning,) = [r.getMessage() for r in caplog.records if r.name == "changefeed.pipeline.registration"]
    reason = OTHERS[statement].format(shop.database, shop.folder)
    assert warning.startswith(f"{shop.database}.orders in the catalog is not this pipeline's, but {reason}")
    assert shop.names() == {"orders", "notes"}
    shop.ddl("orders", "DROP TABLE `app`.`orders`")
    shop.run()
    assert _shown(shop, "orders") == entry
    assert shop.names() == {"orders", "notes"}


def _shown(shop: Shop, table: str) -> str:
    (row,) = shop.spark.sql(f"SHOW TABLE EXTENDED IN {shop.database} LIKE '{table}'").collect()
    return str(row.information)


def test_an_entry_at_the_tables_location_that_someone_else_made_is_used_and_never_removed(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.create("orders", "notes")
    shop.run(catalog=None)
    shop.spark.sql(f"CREATE DATABASE {shop.database}")
    shop.spark.sql(f"CREATE TABLE {shop.database}.orders USING delta LOCATION '{shop.lake}/app/orders'")
    entry = _shown(shop, "orders")
    with caplog.at_level(logging.WARNING):
        shop.run()
    assert not caplog.records
    assert (_shown(shop, "orders"), shop.names()) == (entry, {"orders", "notes"})
    shop.ddl("orders", "RENAME TABLE `app`.`orders` TO `app`.`sales`")
    shop.run()
    assert (_shown(shop, "orders"), shop.names()) == (entry, {"orders", "sales", "notes"})


def test_an_entry_of_another_pipeline_stays(shop: Shop) -> None:
    """Its name and mark are those of this pipeline's entries, but its location is not."""
    shop.create("orders")
    shop.run()
    other = Shop(shop.folder / "other", shop.database, shop.spark)
    other.folder.mkdir()
    other.create("notes")
    other.run()
    assert shop.names() == {"orders", "notes"}
    shop.create("notes")
    shop.ddl("notes", "DROP TABLE `app`.`notes`")
    shop.run()
    assert shop.names() == {"orders", "notes"}
    assert other.notes("notes") == ["notes"]


def test_tables_whose_names_differ_by_case_alone_have_none(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.create("orders", "Orders", "notes")
    with caplog.at_level(logging.WARNING):
        shop.run()
    assert shop.names() == {"notes"}
    (warning, other) = [r.getMessage() for r in caplog.records if r.name == "changefeed.pipeline.registration"]
    assert warning == (
        f"app.Orders is not in the catalog: app.Orders and app.orders would both be {shop.database}.orders, since a catalog has "
        "names in lower case. Exclude one of them, or query them by path"
    )
    assert other.startswith("app.orders is not in the catalog: app.Orders and app.orders would both be")
    shop.ddl("Orders", "DROP TABLE `app`.`Orders`")
    shop.run()
    assert (shop.names(), shop.notes("orders")) == ({"notes", "orders"}, ["orders"])


def test_a_name_that_a_catalog_does_not_have_is_refused(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.create("orders", "order-items", "订单")
    with caplog.at_level(logging.WARNING):
        shop.run()
    assert shop.names() == {"orders"}
    warnings = [r.getMessage() for r in caplog.records if r.name == "changefeed.pipeline.registration"]
    only = "only letters of ASCII, digits and `_`, 128 at most. Query"
    assert warnings == [
        f"app.order-items is not in the catalog: a catalog has no name 'order-items': {only} app.order-items by path",
        f"app.订单 is not in the catalog: a catalog has no name '订单': {only} app.订单 by path",
    ]


def test_names_by_a_pattern(shop: Shop) -> None:
    shop.create("Orders", "select")
    shop.run(**{"catalog-names": f"{shop.database}.{{database}}_{{table}}"})
    assert shop.names() == {"app_orders", "app_select"}
    assert shop.notes("app_orders") == ["Orders"]
