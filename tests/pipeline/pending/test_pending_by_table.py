"""The pending rows of each table, as `status`, `explain`, the metrics and the page show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from changefeed.api.pipeline import Pipeline
from changefeed.cli import run as command
from changefeed.pipeline.ledger import read_ledger
from changefeed.pipeline.monitoring.metrics import BY_TABLE, sight_of
from changefeed.pipeline.monitoring.view import RunView
from changefeed.pipeline.run import run
from changefeed.telemetry import observed, passed
from tests.monitor.site import Site
from tests.pipeline.kit.history import HistoryBuilder
from tests.pipeline.kit.running import definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _history(log: Path) -> None:
    """Two tables with rows below and above the last resolved event."""
    history = HistoryBuilder()
    for name in ("orders", "items"):
        history.schema("app", name, f"CREATE TABLE `app`.`{name}` (`id` BIGINT NOT NULL,PRIMARY KEY(`id`))")
    history.rows(*(("orders", None, {"id": number}) for number in range(5)), ("items", None, {"id": 1}))
    history.resolved()
    history.rows(*(("orders", None, {"id": number}) for number in range(5, 8)), ("items", None, {"id": 2}))
    history.rows(("orders", {"id": 7}, None))
    history.write(log)


@pytest.mark.parametrize("limit", [100_000, 4])
def test_rows_above_the_cut_count_for_their_tables(
    spark: SparkSession, tmp_path: Path, limit: int, capsys: pytest.CaptureFixture[str]
) -> None:
    _history(tmp_path / "app.jsonl")
    pipeline = definition(tmp_path / "app.jsonl", tmp_path / "lake", limit=limit)
    run(pipeline, spark, once=True)
    expected = {"app.orders": 4, "app.items": 1}
    report = Pipeline(pipeline).status()
    assert (report.pending, report.pending_by_table) == (5, expected)

    document: dict[str, Any] = {
        "source": {"type": "files", "path": "app.jsonl", "protocol": "ticdc-open"},
        "sink": {"type": "delta", "path": "lake"},
        "pipeline": {"name": "test", "metrics-by-table": True},
    }
    (tmp_path / "pipeline.yaml").write_text(json.dumps(document))
    assert command(["status", str(tmp_path / "pipeline.yaml")]) == 0
    assert "\npending 4 of app.orders, 1 of app.items\n" in capsys.readouterr().out
    assert "5 rows pending" in Pipeline(pipeline).explain().lag

    view, latest = RunView("test", 5.0), read_ledger(pipeline).latest()
    assert latest is not None
    with observed(view):
        passed("run.begun", epoch=1, state=latest.state)
    [metric] = [metric for metric in BY_TABLE if metric.name == "cdc_table_pending_rows"]
    assert dict(metric.values(sight_of(pipeline, view))) == {("app.items",): 1, ("app.orders",): 4}

    with Site([str(tmp_path)]) as site:
        [shown] = site.json("/overview.json")["pipelines"]
        assert site.json(f"/pipelines/{shown['id']}.json")["pending_by_table"] == expected
        assert "4 of <b>app.orders</b>" in site.html(f"/pipelines/{shown['id']}")


def test_without_pending_rows_nothing_is_read(spark: SparkSession, tmp_path: Path) -> None:
    history = HistoryBuilder()
    history.schema("app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,PRIMARY KEY(`id`))")
    history.rows(("orders", None, {"id": 1}))
    history.resolved()
    history.write(tmp_path / "app.jsonl")
    pipeline = definition(tmp_path / "app.jsonl", tmp_path / "lake")
    run(pipeline, spark, once=True)
    assert "pending_by_table" not in Pipeline(pipeline).status().to_dict()
