"""A pipeline in Python; the commands print its values."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import changefeed as cf
from changefeed.api.moments import moment_of
from changefeed.cli import run as command
from tests.example_files import copy_examples
from tests.pipeline.kit.history import small_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOP = Path(__file__).parents[2] / "examples" / "shop"


def shop(lake: Path, **pipeline: Any) -> cf.Pipeline:
    source = {"type": "files", "path": str(SHOP / "history.jsonl.gz"), "protocol": "ticdc-open"}
    sections = {
        "source": source,
        "sink": {"type": "delta", "path": str(lake)},
        "pipeline": {"name": "shop", **pipeline},
    }
    return cf.Pipeline.from_dict(sections)


def test_a_pipeline_comes_from_a_file_or_a_dict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copy_examples(tmp_path) / "shop"
    loaded = cf.Pipeline.load(folder / "pipeline.yaml")
    assert repr(loaded) == f"<changefeed pipeline shop: files to delta at {folder}/out/lake>"
    monkeypatch.chdir(tmp_path)
    relative = {
        "source": {"type": "files", "path": "a.jsonl", "protocol": "ticdc-open"},
        "sink": {"type": "delta", "path": "x"},
    }
    assert cf.Pipeline.from_dict(relative).definition.sink.path == str(tmp_path / "x")
    assert cf.Pipeline.from_dict(relative, base="/data").definition.sink.path == "/data/x"


def test_a_wrong_definition_is_refused_with_all_its_errors(tmp_path: Path) -> None:
    with pytest.raises(cf.ConfigError) as raised:
        cf.Pipeline.from_dict(
            {"source": {"type": "files", "path": "x", "protocol": "ticdc-opne"}, "sink": {"type": "delta"}}
        )
    assert "ticdc-opne" in str(raised.value)
    assert "sink.path" in str(raised.value)
    with pytest.raises(cf.ConfigError, match="does not exist"):
        cf.Pipeline.load(tmp_path / "no.yaml")


def document(args: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert command([*args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_explain_is_a_value_and_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    definition = copy_examples(tmp_path) / "shop" / "pipeline.yaml"
    explanation = cf.Pipeline.load(definition).explain()
    orders = next(table for table in explanation.tables if table.table == "shop.orders")
    assert (orders.keys, orders.types_from, orders.columns[0]) == (
        ("id",), "DDL", cf.ExplainedColumn("id", "bigint unsigned", "decimal(20,0)", None)
    )  # fmt: skip
    assert explanation.to_dict() == document(["explain", str(definition)], capsys)
    with pytest.raises(FrozenInstanceError):
        explanation.records = 1  # type: ignore[misc]


def test_check_is_a_value_that_prints_as_the_command_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    definition = copy_examples(tmp_path) / "shop" / "pipeline.yaml"
    report = cf.Pipeline.load(definition).check()
    assert command(["check", str(definition)]) == (0 if report.ok else 2)
    assert capsys.readouterr().out == f"{report}\n"
    assert [check.name for check in report.checks][:3] == ["definition", "java", "jars"]


def test_a_pipeline_that_has_not_run_has_no_cut(tmp_path: Path) -> None:
    pipeline = shop(tmp_path / "lake")
    status = pipeline.status()
    assert (status.epoch, status.cut, status.cuts, status.positions) == (0, None, (), {})
    assert pipeline.dead_letters() == []


@pytest.mark.parametrize(
    "value, moment",
    [
        (7, 7),
        ("7", 7),
        (datetime(2026, 1, 1, tzinfo=UTC), 463267587686662143),
        (datetime(2026, 1, 1), 463267587686662143),
        ("2026-01-01T00:00:00Z", 463267587686662143),
    ],
)
def test_until_is_a_number_a_time_or_a_gtid(value: Any, moment: Any) -> None:
    assert moment_of(value) == moment


GTID, PLACE, TIME = "0-1-306", "000001:14624", "2026-01-01T00:00:00Z"
KAFKA: dict[str, Any] = {"type": "kafka", "servers": "127.0.0.1:1", "topics": ["shop"]}


@pytest.mark.parametrize(
    "source, stops_at, refused",
    [
        ({"type": "mysql", "host": "127.0.0.1", "user": "u"}, [PLACE, "7", 7], [GTID, TIME, datetime(2026, 1, 1)]),
        ({**KAFKA, "protocol": "debezium-mysql"}, [PLACE, "7", GTID], [TIME, "2026-03-01"]),
        ({**KAFKA, "protocol": "ticdc-open"}, [TIME, "7"], []),
        ({**KAFKA, "protocol": "tencent-dts"}, [TIME, GTID], []),
    ],
)
def test_a_run_takes_points_at_which_it_can_stop(source: Any, stops_at: list[Any], refused: list[Any]) -> None:
    pipeline = cf.Pipeline.from_dict(
        {"source": source, "sink": {"type": "delta", "path": "lake"}, "pipeline": {"name": "p"}}
    )
    assert [pipeline.point(until) for until in stops_at] == [moment_of(until) for until in stops_at]
    for until in refused:
        with pytest.raises(cf.ConfigError, match=r"cannot stop there exactly: name a place in the binlog"):
            pipeline.run(until=until)


def test_a_time_before_1970_is_refused(tmp_path: Path) -> None:
    with pytest.raises(cf.ConfigError, match="1969-01-01T00:00:00 is before 1970"):
        shop(tmp_path / "lake").run(until=datetime(1969, 1, 1))


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_a_run_applies_everything_and_leaves_the_session_running(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline, seen = shop(tmp_path / "lake"), list[cf.Progress]()
    summary = pipeline.run(spark, progress=seen.append)
    assert (summary.applied, summary.schema_changes, summary.stopped, summary.reached) == (705, 13, False, None)
    assert summary.counts == seen[-1].counts
    assert summary.commit_ts == seen[-1].commit_ts == 463268005898553859
    assert summary.commit_time == "2026-01-01T00:26:35.352Z"
    orders = summary.tables["shop.orders"]
    assert (orders.before, orders.held) == (None, False)
    assert spark.read.format("delta").load(orders.path).count() > 0, "the session runs on"
    cut = pipeline.status().cut
    assert cut is not None
    assert cut.tables == {name: table.version for name, table in summary.tables.items()}
    assert json.loads(json.dumps(summary.to_dict()))["tables"]["shop.orders"]["version"] == orders.version
    begun = list[cf.Progress]()
    again = pipeline.run(spark, begun=begun.append, progress=seen.append)
    assert (again.steps, [at.cut for at in begun]) == (0, [seen[-1].cut]), "where it goes on, although nothing is read"


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_stop_ends_a_run_that_follows(spark: SparkSession, tmp_path: Path) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    pipeline = cf.Pipeline.from_dict(
        {"source": {"type": "files", "path": str(log), "protocol": "ticdc-open"},
         "sink": {"type": "delta", "path": str(tmp_path / "lake")}}
    )  # fmt: skip
    summary = pipeline.run(spark, once=False, progress=lambda _: pipeline.stop())
    assert summary.stopped
    assert summary.steps >= 1
    done = list[cf.Summary]()
    thread = threading.Thread(target=lambda: done.append(pipeline.run(spark, once=False, stopping=lambda: True)))
    thread.start()
    thread.join(200)
    assert done[0].stopped


@pytest.mark.timeout(300)
def test_ctrl_c_ends_a_run_after_the_step(spark: SparkSession, tmp_path: Path) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    pipeline = cf.Pipeline.from_dict(
        {"source": {"type": "files", "path": str(log), "protocol": "ticdc-open"},
         "sink": {"type": "delta", "path": str(tmp_path / "lake")}}
    )  # fmt: skip
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        pipeline.run(spark, once=False, progress=lambda _: os.kill(os.getpid(), signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) == before
    assert pipeline.status().cut is not None
