"""The ways to write rows into tables: in SQL, natively in the driver, natively in one Spark job for all tables."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from changefeed.pipeline.run import run
from changefeed.sinks.apply import compaction, job
from changefeed.sinks.apply import step as files_step
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.apply.item import Item
from changefeed.sinks.delta.native import step
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    "way", [pytest.param("sql", marks=pytest.mark.nightly), pytest.param("driver", marks=pytest.mark.nightly), "job"]
)
def test_every_way_makes_the_same_cuts(
    way: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together: dict[str, list[int]] = {"driver": [], "job": []}

    def counted(name: str, work: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            together[name].append(len(next(a for a in arguments if isinstance(a, list))))
            return work(*arguments, **options)

        return call

    monkeypatch.setattr(files_step, "write_here", counted("driver", job.write_here))
    monkeypatch.setattr(files_step, "write_all", counted("job", job.write_all))
    if way == "job":
        monkeypatch.setattr(files_step, "_HERE_WEIGHT", -1)
    log, _ = small_history(tmp_path / "app.jsonl")
    pipeline = definition(log, tmp_path / "lake", limit=20, writer="spark" if way == "sql" else "native")
    summary = run(pipeline, spark, once=True)
    check_cuts(pipeline, History(log))
    counts = summary.state.counts
    assert counts.applied + counts.repeated + counts.pending == counts.rows
    assert {name for name, writes in together.items() if writes} == ({way} - {"sql"})
    assert way == "sql" or max(together[way]) > 1, "the tables of a step together"
    engines = {_engine(file) for file in (tmp_path / "lake" / "app").glob("*/_delta_log/*.json")}
    assert engines == {"Apache-Spark" if way == "sql" else "delta-rs"}


@pytest.mark.parametrize("way", ["driver", pytest.param("job", marks=pytest.mark.nightly)])
def test_merge_on_read_makes_the_same_cuts(
    way: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are marked in files of any size, and compacted in every second version."""
    real = step.NativeWrites._item

    def item(*arguments: Any) -> Item:
        return replace(real(*arguments), limits=Limits(least_marked=0))

    monkeypatch.setattr(step.NativeWrites, "_item", item)
    monkeypatch.setattr(
        compaction.CompactionRules, "__init__", partialmethod(compaction.CompactionRules.__init__, many=3, every=2)
    )
    if way == "job":
        monkeypatch.setattr(files_step, "_HERE_WEIGHT", -1)
        monkeypatch.setattr(files_step, "HERE_BYTES", -1)
        monkeypatch.setattr(step, "HERE_BYTES", -1)
    log, _ = small_history(tmp_path / "app.jsonl")
    pipeline = definition(log, tmp_path / "lake", limit=20, write_mode="merge-on-read")
    run(pipeline, spark, once=True)
    check_cuts(pipeline, History(log))
    commits = [file.read_text() for file in (tmp_path / "lake" / "app").glob("*/_delta_log/*.json")]
    assert any('"deletionVector"' in text for text in commits)
    assert any('"OPTIMIZE"' in text for text in commits)


def _engine(file: Path) -> str:
    [info] = [
        action["commitInfo"] for line in file.read_text().splitlines() if "commitInfo" in (action := json.loads(line))
    ]
    return "Apache-Spark" if "Spark" in info.get("engineInfo", "") else "delta-rs"
