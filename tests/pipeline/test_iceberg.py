"""Pipelines into Iceberg tables: exact cuts, through crashes, fences and other writers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed import telemetry
from changefeed.errors import FencedError
from changefeed.pipeline.run import run
from tests.pipeline.history import small_history
from tests.pipeline.oracle import History
from tests.pipeline.running import SHOP, check_cuts, check_expected, definition, published
from tests.pipeline.turns import Killed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POINTS = [
    *("stage.after", "begun.after", "load.after", "fence.after", "addcolumns.after", "upsert.after", "append.after"),
    *("rewrite.after", "create.after", "copy.after", "done.before"),
]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, History]:
    path, _ = small_history(tmp_path_factory.mktemp("history") / "app.jsonl")
    return path, History(path)


def test_every_cut_of_a_small_history_is_exact(spark: SparkSession, log: tuple[Path, History], tmp_path: Path) -> None:
    pipeline = definition(log[0], tmp_path / "lake", limit=20, sink="iceberg")
    run(pipeline, spark, once=True)
    check_cuts(pipeline, log[1])


@pytest.mark.heavy
def test_the_shops_whole_history(spark: SparkSession, tmp_path: Path) -> None:
    log = SHOP / "ticdc-open" / "open-3.newarch.jsonl.gz"
    pipeline = definition(log, tmp_path / "lake", limit=1500, sink="iceberg")
    run(pipeline, spark, once=True)
    check_expected(pipeline, "final")
    check_cuts(pipeline, History(log))


@pytest.mark.heavy
def test_a_pipeline_that_ends_at_one_point_after_another_has_exact_cuts(
    spark: SparkSession, log: tuple[Path, History], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = definition(log[0], tmp_path / "lake", limit=20, parallelism=1, sink="iceberg")
    for point in POINTS:
        with monkeypatch.context() as patch:
            patch.setattr(telemetry, "on_pass", lambda name, point=point: _kill(name == point, name))
            with pytest.raises(Killed, match=point):
                run(pipeline, spark, once=True)
    assert run(pipeline, spark, once=True).epoch == len(POINTS) + 1
    check_cuts(pipeline, log[1])
    counts = published(pipeline)[-1].state.counts
    assert (counts.applied, counts.pending, counts.repeated) == (counts.rows - 1, 1, 0)


def _kill(is_point: bool, name: str) -> None:
    if is_point:
        raise Killed(name)


def test_a_run_that_was_taken_over_stops(
    spark: SparkSession, log: tuple[Path, History], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run starts while the first one stands before a write, and the first then goes on."""
    pipeline = definition(log[0], tmp_path / "lake", parallelism=1, sink="iceberg")
    inner, taken = telemetry.on_pass, list[str]()

    def on_pass(name: str) -> None:
        if name == "rewrite.before" and not taken:
            taken.append(name)
            monkeypatch.setattr(telemetry, "on_pass", inner)
            run(pipeline, spark, once=True)

    monkeypatch.setattr(telemetry, "on_pass", on_pass)
    with pytest.raises(FencedError, match=r"epoch 2 .* this run is epoch 1 and stops"):
        run(pipeline, spark, once=True)
    assert taken
    check_cuts(pipeline, log[1])
