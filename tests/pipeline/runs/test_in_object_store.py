"""Pipelines into a bucket of S3, with a session that has no jar for it: exact cuts through crashes, fences and repairs."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from changefeed import telemetry
from changefeed.errors import FencedError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.operations.repair import repair
from changefeed.pipeline.run import run
from changefeed.storage.folders import folder_at
from tests.examples import by_turns
from tests.killed import Killed
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.in_bucket import into_bucket
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition, published
from tests.services.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POINTS = [
    "stage.after",
    "begun.after",
    "load.after",
    "addcolumns.after",
    "upsert.after",
    "rewrite.after",
    "done.before",
]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, History]:
    path, _ = small_history(tmp_path_factory.mktemp("history") / "app.jsonl")
    return path, History(path)


@pytest.fixture
def lake(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new folder, which the tests' own reader of tables can reach."""
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    return f"s3://lake/{uuid.uuid4().hex}"


def pipeline_into(lake: str, log: Path, s3: S3Server, write_mode: str = "copy-on-write") -> Definition:
    made = definition(log, Path("lake"), limit=20, write_mode=write_mode, parallelism=1)
    return into_bucket(made, lake, s3.storage())


@pytest.mark.heavy
@pytest.mark.parametrize("write_mode", by_turns(["copy-on-write", "merge-on-read"], 2))
def test_a_pipeline_that_ends_at_one_point_after_another_has_exact_cuts(
    write_mode: str,
    spark: SparkSession,
    s3: S3Server,
    lake: str,
    log: tuple[Path, History],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = pipeline_into(lake, log[0], s3, write_mode)
    for point in POINTS:
        with monkeypatch.context() as patch:
            patch.setattr(telemetry, "on_pass", lambda name, point=point: _kill(name == point, name))
            with pytest.raises(Killed, match=point):
                run(pipeline, spark, once=True)
    assert run(pipeline, spark, once=True).epoch == len(POINTS) + 1
    check_cuts(pipeline, log[1])
    counts = published(pipeline)[-1].state.counts
    assert (counts.applied, counts.pending, counts.repeated) == (counts.rows - 1, 1, 0)
    folder = folder_at(f"{lake}/_changefeed/pending", pipeline.storage)
    assert folder is not None
    assert len(folder.folders()) <= 1, "folders that are no longer needed are deleted"


def _kill(is_point: bool, name: str) -> None:
    if is_point:
        raise Killed(name)


@pytest.mark.parametrize("point", by_turns(["load.before", "upsert.before", "append.before", "done.before"], 2))
def test_a_run_that_was_paused_before_a_commit_cannot_make_it(
    point: str,
    spark: SparkSession,
    s3: S3Server,
    lake: str,
    log: tuple[Path, History],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another run does the whole step in the meantime."""
    pipeline, paused = pipeline_into(lake, log[0], s3), list[str]()

    def on_pass(name: str) -> None:
        if name == point and not paused:
            paused.append(name)
            run(pipeline, spark, once=True)

    monkeypatch.setattr(telemetry, "on_pass", on_pass)
    with pytest.raises(FencedError, match="epoch 2"):
        run(pipeline, spark, once=True)
    assert paused
    check_cuts(pipeline, log[1])
    assert {cut.epoch for cut in published(pipeline)} <= {1, 2}


@pytest.mark.heavy
def test_a_table_is_restored_and_rebuilt(
    spark: SparkSession, s3: S3Server, lake: str, log: tuple[Path, History]
) -> None:
    pipeline = pipeline_into(lake, log[0], s3)
    run(pipeline, spark, once=True)
    ways: tuple[Literal["restore", "rebuild"], ...] = ("restore", "rebuild")
    for way in ways:
        repair(pipeline, spark, ["app.sales"], way)
        check_cuts(pipeline, log[1])
