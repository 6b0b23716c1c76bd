"""Tables whose DDL is in a connector's schema-change topic, and whose rows it does not send."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from changefeed.cli import run as command
from changefeed.errors import UnsupportedError
from changefeed.pipeline.planning.captured import TopicNames
from tests.pipeline.kit.connector import Connector, MemoryRun

LOG = Path(__file__).parents[2] / "data" / "field" / "uncaptured_tables.jsonl.gz"
BOTH = pytest.mark.parametrize("consistency", ["transaction", "key"])
_T = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `a` INT)"


def _begun(consistency: str, **options: Any) -> tuple[Connector, MemoryRun]:
    """A pipeline with one captured table, `shop.orders`, and one that is not, `web.t`."""
    connector = Connector()
    connector.ddl("shop", "orders", "CREATE TABLE `orders` (`id` INT PRIMARY KEY)")
    connector.ddl("web", "t", _T)
    connector.rows(("shop", "orders", {"id": 1}))
    run = MemoryRun(connector, consistency=consistency, **options)
    run.take()
    assert (run.tables, run.left_out) == (["shop.orders"], ["web.t"])
    return connector, run


@BOTH
def test_a_table_without_rows_and_topic_is_left_out_and_made_by_its_first_row(consistency: str) -> None:
    connector, run = _begun(consistency)
    connector.ddl("web", "t", "ALTER TABLE `t` ADD COLUMN `b` VARCHAR(9) AFTER `id`, MODIFY `a` DECIMAL(10,2)")
    run.take()
    run.restart()
    assert (run.tables, run.left_out) == (["shop.orders"], ["web.t"])
    assert sorted(run.storage.tables.tables) == ["shop/orders"]
    connector.rows(("web", "t", {"id": 1, "b": "x", "a": "MDk="}), ("shop", "orders", {"id": 2}))
    connector.rows(("web", "t", {"id": 2, "b": None, "a": None}))
    run.take()
    assert (run.tables, run.left_out) == (["shop.orders", "web.t"], [])
    columns = run.flow.ledger.state.tables["web.t"].table.columns
    assert [(c.name, str(c.type)) for c in columns] == [("id", "int"), ("b", "varchar(9)"), ("a", "decimal(10,2)")]
    assert [row["id"] for row in run.rows("web.t")] == [1, 2]


@BOTH
@pytest.mark.parametrize(
    "statements, name, columns",
    [
        (["RENAME TABLE `t` TO `u`"], "u", "id a"),
        (["ALTER TABLE `t` RENAME TO `u`", "ALTER TABLE `u` DROP COLUMN `a`"], "u", "id"),
        (["CREATE TABLE `u` LIKE `t`"], "u", "id a"),
        (["DROP TABLE `t`", "CREATE TABLE `t` (`id` INT PRIMARY KEY, `z` INT)"], "t", "id z"),
        (["TRUNCATE TABLE `t`", "ALTER TABLE `t` RENAME COLUMN `a` TO `c`"], "t", "id c"),
        (["RENAME TABLE `t` TO `x`, `x` TO `u`"], "u", "id a"),
        (["DROP DATABASE `web`", "CREATE DATABASE `web`", "CREATE TABLE `t` (`id` INT PRIMARY KEY)"], "t", "id"),
    ],
)
def test_all_schema_changes_are_followed_until_rows_come(
    statements: list[str], name: str, columns: str, consistency: str
) -> None:
    connector, run = _begun(consistency)
    for statement in statements:
        connector.ddl("web", name, statement)
        run.take()
        assert run.tables == ["shop.orders"]
    connector.rows(("web", name, dict.fromkeys(columns.split(), 1)))
    run.take()
    assert run.rows(f"web.{name}") == [dict.fromkeys(columns.split(), 1)]


@BOTH
def test_a_table_whose_topic_appears_is_made_without_a_row(consistency: str) -> None:
    connector, run = _begun(consistency)
    run.partitions.add(("srv.web.t", 0))
    connector.rows(("shop", "orders", {"id": 2}))
    run.take()
    assert (run.tables, run.left_out, run.rows("web.t")) == (["shop.orders", "web.t"], [], [])


@BOTH
def test_a_new_table_whose_topic_is_there_is_made_at_once(consistency: str) -> None:
    connector = Connector()
    connector.ddl("shop", "empty", "CREATE TABLE `empty` (`id` INT PRIMARY KEY)")
    run = MemoryRun(connector, topics=["srv.shop.empty"], consistency=consistency)
    run.take()
    assert (run.tables, run.left_out) == (["shop.empty"], [])


@BOTH
def test_nothing_about_a_table_that_is_left_out_stops_the_run(consistency: str) -> None:
    connector, run = _begun(consistency)
    connector.ddl("web", "odd", "CREATE TABLE `odd` (`id` INT PRIMARY KEY, `sp ace` GEOGRAPHY_OF_NOTHING)")
    connector.ddl("web", "t", "ALTER TABLE `t` DROP COLUMN `gone`")
    connector.ddl("web", "t", "ALTER TABLE `t` ADD COLUMN `n` INT NOT NULL DEFAULT (uuid_short())")
    connector.ddl("web", "p", "CREATE TABLE `p` (`id` INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 4")
    connector.ddl("web", "p", "ALTER TABLE `p` DROP PARTITION p1")
    connector.rows(("shop", "orders", {"id": 2}))
    run.take()
    assert run.tables == ["shop.orders"]
    assert [row["id"] for row in run.rows("shop.orders")] == [1, 2]


@BOTH
@pytest.mark.parametrize("behavior", ["evolve", "exception", "try_evolve", "lenient", "ignore"])
def test_what_was_refused_counts_when_rows_come(behavior: str, consistency: str) -> None:
    connector, run = _begun(consistency, **{"schema.change.behavior": behavior})
    connector.ddl("web", "t", "ALTER TABLE `t` DROP COLUMN `gone`")
    run.take()
    assert run.tables == ["shop.orders"]
    connector.rows(("web", "t", {"id": 1, "a": 1}))
    if behavior in ("evolve", "exception"):
        with pytest.raises(
            UnsupportedError, match=r"^'ALTER TABLE `t` DROP COLUMN `gone`' at srv:0:2: .*has no column gone"
        ):
            run.take()
        return
    run.take()
    assert run.rows("web.t") == [{"id": 1, "a": 1}]


@BOTH
@pytest.mark.parametrize("statement", ["CREATE TABLE `u` LIKE `t`", "ALTER TABLE `t` RENAME COLUMN `a` TO `b`"])
def test_what_was_refused_counts_for_rows_before_another_statement(statement: str, consistency: str) -> None:
    """A copy of the table took it over, as a statement that nobody has to know of."""
    connector, run = _begun(consistency)
    connector.ddl("web", "t", "ALTER TABLE `t` DROP COLUMN `gone`")
    run.take()
    connector.rows(("web", "t", {"id": 1, "a": 1}))
    connector.ddl("web", "u", statement)
    with pytest.raises(UnsupportedError, match="has no column gone"):
        run.take()


@BOTH
@pytest.mark.parametrize("behavior", ["evolve", "exception", "try_evolve"])
def test_a_create_that_was_refused_counts_when_rows_come(behavior: str, consistency: str) -> None:
    """Rows of JSON without schemas have none of the types of a CREATE TABLE that cannot be read."""
    connector, run = _begun(consistency, **{"schema.change.behavior": behavior})
    connector.ddl("web", "u", "CREATE TABLE `u` (`id` INT PRIMARY KEY, `d` DATE, `x` FANCY(3))")
    run.take()
    run.restart()
    assert (run.tables, run.left_out) == (["shop.orders"], ["web.t", "web.u"])
    connector.rows(("web", "u", {"id": 1, "d": 20001, "x": "1"}), ("web", "u", {"id": 2, "d": 20002, "x": "2"}))
    if behavior != "try_evolve":
        with pytest.raises(UnsupportedError, match="DDL that cannot be read: expected a column type, found 'FANCY'"):
            run.take()
        return
    run.take()
    assert run.rows("web.u") == [{"id": 1, "d": 20001, "x": "1"}, {"id": 2, "d": 20002, "x": "2"}]


@BOTH
def test_a_create_that_was_refused_does_not_count_for_a_table_that_was_made_again(consistency: str) -> None:
    connector, run = _begun(consistency)
    connector.ddl("web", "u", "CREATE TABLE `u` (`id` INT PRIMARY KEY, `x` FANCY(3))")
    run.take()
    connector.ddl("web", "u", "DROP TABLE `u`")
    connector.ddl("web", "u", "CREATE TABLE `u` (`id` INT PRIMARY KEY)")
    run.take()
    connector.rows(("web", "u", {"id": 1}))
    run.take()
    assert run.rows("web.u") == [{"id": 1}]


@BOTH
def test_a_table_without_a_key_gets_the_rows_of_its_first_snapshot(consistency: str) -> None:
    connector, run = _begun(consistency, keyless="append")
    connector.ddl("web", "log", "CREATE TABLE `log` (`id` INT)")
    connector.rows(("shop", "orders", {"id": 2}))
    run.take()
    assert run.left_out == ["web.log", "web.t"]
    connector.read("web", "log", {"id": 5}, "incremental")
    connector.read("web", "log", {"id": 6}, "incremental")
    connector.rows(("shop", "orders", {"id": 3}))
    run.take()
    assert [row["id"] for row in run.rows("web.log")] == [5, 6]


@BOTH
def test_a_table_that_was_dropped_is_made_again_without_rows(consistency: str) -> None:
    """It was captured: the pipeline has written it."""
    connector, run = _begun(consistency)
    connector.ddl("shop", "orders", "DROP TABLE `orders`")
    run.take()
    connector.ddl("shop", "orders", "CREATE TABLE `orders` (`id` INT PRIMARY KEY, `b` INT)")
    run.take()
    assert (run.tables, run.left_out, run.rows("shop.orders")) == (["shop.orders"], ["web.t"], [])


@BOTH
def test_with_routed_topics_rows_alone_show_what_is_captured(consistency: str) -> None:
    connector = Connector(routed="everything")
    connector.ddl("shop", "a", "CREATE TABLE `a` (`id` INT PRIMARY KEY)")
    connector.ddl("shop", "b", "CREATE TABLE `b` (`id` INT PRIMARY KEY)")
    connector.rows(("shop", "a", {"id": 1}))
    run = MemoryRun(connector, consistency=consistency)
    run.take()
    assert (run.tables, run.left_out) == (["shop.a"], ["shop.b"])
    connector.rows(("shop", "b", {"id": 1}))
    run.take()
    assert (run.tables, run.left_out) == (["shop.a", "shop.b"], [])


@BOTH
def test_a_table_is_neither_included_nor_left_out_if_it_is_excluded(consistency: str) -> None:
    connector = Connector()
    connector.ddl("web", "t", _T)
    connector.ddl("shop", "orders", "CREATE TABLE `orders` (`id` INT PRIMARY KEY)")
    connector.rows(("shop", "orders", {"id": 1}), ("web", "u", {"id": 1}))
    run = MemoryRun(connector, consistency=consistency, include=["shop.*"])
    run.take()
    assert (run.tables, run.left_out) == (["shop.orders"], [])


@pytest.mark.parametrize(
    "topics, has",
    [
        (["srv.shop.orders"], True),
        (["shop.orders"], True),
        (["cdc.prod.shop.orders"], True),
        (["srv-shop-orders"], True),
        (["srv__shop__orders"], True),
        (["srv.my_shop.orders"], False),
        (["srv.my-shop.orders"], False),
        (["srv.shop.orders2"], False),
        (["srv.shop2.orders", "srv", "srv.transaction", "orders"], False),
    ],
)
def test_a_topic_is_named_like_a_table(topics: list[str], has: bool) -> None:
    assert TopicNames.of(topics, ["srv"]).has("shop.orders") == has


def test_characters_that_no_topic_has_are_written_as_debezium_does() -> None:
    assert TopicNames.of(["srv.web.Weird_n_me__.x"], ["srv"]).has("web.`Weird näme=/.x`")


@pytest.mark.parametrize("exclude", [[], ["web.`Weird näme=/.x`"], ["web.*"]])
@BOTH
def test_explain_and_check_name_the_tables_of_the_other_databases(
    consistency: str, exclude: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`database.include.list=big`, with Debezium's defaults: eight tables of `web` are in the DDL."""
    shutil.copy(LOG, tmp_path)
    (tmp_path / "p.yaml").write_text(
        f"source: {{type: files, path: {LOG.name}, protocol: debezium-mysql}}\nsink: {{type: delta, path: lake}}\n"
        f"pipeline: {{name: u, consistency: {consistency}, exclude: {json.dumps(exclude, ensure_ascii=False)}}}\n"
    )
    assert command(["explain", str(tmp_path / "p.yaml"), "--json"]) == 0
    explained = json.loads(capsys.readouterr().out)
    assert [table["table"] for table in explained["tables"]] == ["big.facts"]
    names = (
        []
        if exclude == ["web.*"]
        else ["audit_events", "order_lines", "orders", "products", "refunds", "tags", "tmp_b", "users"]
    )
    assert [n for n in explained["not_captured"] if "`" not in n] == [f"web.{name}" for name in names]
    note = f"big.web.{', big.web.'.join(names)}: left out, because no row and no topic shows that the connector captures them"
    assert [n.endswith(note) for n in explained["notes"] if n.startswith("no topic")] == ([True] if names else [])
    assert command(["check", str(tmp_path / "p.yaml"), "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)["checks"]
    tables = [(one["status"], one["message"]) for one in checked if one["name"] == "tables"]
    assert [(status, message.endswith(note)) for status, message in tables] == ([("ok", True)] if names else [])


def test_the_log_is_that_of_a_connector_for_one_database() -> None:
    with gzip.open(LOG, "rt") as lines:
        assert {json.loads(line)["topic"] for line in lines} == {"big", "big.big.facts"}


@BOTH
def test_a_captured_table_is_captured_under_its_new_name_before_its_rows_come(consistency: str) -> None:
    """A change that cannot be applied stops the run, as under the old name; it was dropped without a note."""
    connector, run = _begun(consistency)
    connector.ddl("shop", "bills", "RENAME TABLE `orders` TO `bills`")
    connector.ddl("shop", "bills", "ALTER TABLE `bills` ADD COLUMN `p` POINT NOT NULL")
    connector.rows(("web", "t", {"id": 1, "a": 1}))
    with pytest.raises(UnsupportedError, match="MySQL has no implicit default for a NOT NULL column of type point"):
        run.take()
