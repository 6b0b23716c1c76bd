"""Iceberg's own implementation reads the tables as they are, and looks after them between runs of the pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed.errors import SinkError
from changefeed.pipeline.operations.repair import repair
from changefeed.pipeline.run import run
from tests.pipeline.kit.history import HistoryBuilder
from tests.pipeline.kit.oracle import History, same_rows
from tests.pipeline.kit.running import SHOP, definition, published
from tests.pipeline.kit.tables import canonical_rows, iceberg_table, sink_rows
from tests.services.iceberg_spark import results_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.nightly


def test_every_cut_is_read_exactly(spark: SparkSession, tmp_path: Path) -> None:
    """Columns were dropped, renamed, moved and widened by field id."""
    log, lake = SHOP / "ticdc-open" / "open-3.newarch.jsonl.gz", tmp_path / "lake"
    pipeline = definition(log, lake, limit=1500, sink="iceberg")
    run(pipeline, spark, once=True)
    cuts = [(cut.state.barrier, table) for cut in published(pipeline) for table in cut.state.tables.values()]
    names = [f"changefeed.{table.path.replace('/', '.')} VERSION AS OF {table.version}" for _, table in cuts]
    assert len(names) > 5
    results, history = results_of(lake, [f"SELECT * FROM {name}" for name in names]), History(log)
    for (barrier, table), read in zip(cuts, results, strict=True):
        wanted = history.at(barrier)[table.table.name]
        difference = same_rows(canonical_rows(read, table.table), wanted)
        assert not difference, f"{table.path} at {barrier}: {difference}"


def test_filters_find_every_row(spark: SparkSession, tmp_path: Path) -> None:
    """Readers skip files by their bounds."""
    lake = tmp_path / "lake"
    pipeline = definition(SHOP / "ticdc-open" / "open-3.newarch.jsonl.gz", lake, limit=500, sink="iceberg")
    run(pipeline, spark, once=True)
    rows = iceberg_table(lake, "shop/customers").to_pylist()
    columns = [name for name in rows[0] if isinstance(rows[0][name], int | str)]
    pairs = [(name, row[name]) for row in rows[:: len(rows) // 4] for name in columns if row[name] is not None]
    statements = [
        f"SELECT COUNT(*) AS n FROM changefeed.shop.customers WHERE `{name}` = {_literal(value)}"
        for name, value in pairs
    ]
    wanted = [sum(other[name] == value for other in rows) for name, value in pairs]
    assert [read.to_pylist() for read in results_of(lake, statements)] == [[{"n": count}] for count in wanted]


def _literal(value: int | str) -> str:
    if isinstance(value, str):
        return "decode(unhex('" + value.encode().hex() + "'), 'utf-8')"
    return str(value)


def test_maintenance_between_runs(spark: SparkSession, tmp_path: Path) -> None:
    """Compaction, rewritten manifests, orphan files and the expiry of old snapshots change no row."""
    log, marks = _notes(tmp_path / "app.jsonl")
    lake = tmp_path / "lake"
    pipeline = definition(log, lake, parallelism=1, sink="iceberg")
    for mark in marks[:3]:
        run(pipeline, spark, once=True, until=mark)
    call = "CALL changefeed.system"
    compacted = results_of(
        lake,
        [
            f"{call}.rewrite_data_files(table => 'app.orders', options => map('rewrite-all', 'true'))",
            f"{call}.expire_snapshots(table => 'app.orders', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)",
            f"{call}.remove_orphan_files(table => 'app.orders', older_than => TIMESTAMP '2000-01-01 00:00:00')",
        ],
    )
    assert compacted[0].to_pylist()[0]["rewritten_data_files_count"] > 0
    run(pipeline, spark, once=True)
    state = published(pipeline)[-1].state
    table = state.tables["app.orders"]
    wanted = History(log).at(state.barrier)["orders"]
    assert not same_rows(sink_rows(pipeline, table.path, table.version, table.table), wanted)
    [read] = results_of(lake, ["SELECT id, qty FROM changefeed.app.orders ORDER BY id"])
    assert [(row["id"], row["qty"]) for row in read.to_pylist()] == [
        (row["id"], row["qty"]) for row in sorted(wanted, key=lambda r: r["id"])
    ]


def test_a_merge_on_read_by_others_is_honoured(spark: SparkSession, tmp_path: Path) -> None:
    """The run stops at the change of another program; once that is accepted, the rows that it deleted stay away."""
    log, marks = _notes(tmp_path / "app.jsonl")
    lake = tmp_path / "lake"
    pipeline = definition(log, lake, parallelism=1, sink="iceberg")
    run(pipeline, spark, once=True, until=marks[1])
    results_of(
        lake,
        [
            "ALTER TABLE changefeed.app.orders SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
            "DELETE FROM changefeed.app.orders WHERE id = 1",
        ],
    )
    with pytest.raises(SinkError, match="was not made by this pipeline and changes the table"):
        run(pipeline, spark, once=True, until=marks[2])
    repair(pipeline, spark, ["app.orders"], "accept")
    run(pipeline, spark, once=True)
    state = published(pipeline)[-1].state
    table = state.tables["app.orders"]
    wanted = [row for row in History(log).at(state.barrier)["orders"] if row["id"] != 1]
    assert not same_rows(sink_rows(pipeline, table.path, table.version, table.table), wanted)


def _notes(path: Path) -> tuple[Path, list[int]]:
    """Four steps of a table; the commit_ts of each."""
    h, marks = HistoryBuilder(), list[int]()
    h.schema("app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`qty` INT,PRIMARY KEY(`id`))")
    for step in range(4):
        h.rows(*(("orders", None, {"id": 10 * step + n, "qty": step}) for n in range(3)))
        marks.append(h.resolved())
    return h.write(path), marks
