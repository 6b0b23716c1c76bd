"""A pipeline whose own files lie apart from the tables: on the same disk, and on another storage than these."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed import telemetry
from changefeed.errors import ConfigError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import load
from changefeed.pipeline.operations.check import checks
from changefeed.pipeline.operations.repair import repair
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.run import run
from tests.killed import Killed
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition, published
from tests.services.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = {"ledger", "pending"}


def files(folder: Path) -> set[str]:
    return {entry.name for entry in os.scandir(folder)}


def run_through(pipeline: Definition, history: History, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs it to the end through two kills, and checks every cut."""
    for point in ("begun.after", "done.before"):
        with monkeypatch.context() as patch:
            patch.setattr(telemetry, "on_pass", lambda name, point=point: _kill(name == point, name))
            with pytest.raises(Killed, match=point):
                run(pipeline, spark, once=True)
    run(pipeline, spark, once=True)
    check_cuts(pipeline, history)
    assert [check.message for check in checks(pipeline) if check.status == "fail"] == []


def _kill(now: bool, name: str) -> None:
    if now:
        raise Killed(name)


def test_nothing_of_the_pipeline_lies_beside_the_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    own, lake = tmp_path / "own", tmp_path / "lake"
    pipeline = definition(log, lake, limit=20, folder=str(own))
    run_through(pipeline, History(log), spark, monkeypatch)
    assert files(own) >= KINDS
    assert files(lake) == {"app"}
    assert status(pipeline).to_dict()["counts"]["records"] == published(pipeline)[-1].state.counts.records
    names = sorted(published(pipeline)[-1].state.tables)
    repair(pipeline, spark, names, "rebuild")
    check_cuts(pipeline, History(log))
    assert files(lake / "_changefeed") == set(), "a rebuild is deleted at its end"


@pytest.mark.heavy
def test_the_own_files_of_a_pipeline_into_a_bucket_may_lie_on_the_disk_and_the_other_way_round(
    spark: SparkSession, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    log, _ = small_history(tmp_path / "app.jsonl")
    bucket = f"s3://lake/{uuid.uuid4().hex}"
    for number, (lake, own) in enumerate(
        [(f"{bucket}/lake", str(tmp_path / "own")), (str(tmp_path / "lake"), f"{bucket}/own")]
    ):
        made = definition(log, Path("lake"), limit=20, parallelism=1, folder=own)
        sink = made.sink.model_copy(update={"path": lake})
        pipeline = made.model_copy(update={"sink": sink, "storage": s3.storage()})
        run_through(pipeline, History(log), spark, monkeypatch)
        assert files(tmp_path / "own") >= KINDS if number == 0 else files(tmp_path / "lake") == {"app"}


def test_a_second_pipeline_in_the_same_folder_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    own = str(tmp_path / "own")
    run(definition(log, tmp_path / "lake", folder=own), spark, once=True)
    with pytest.raises(ConfigError, match="another pipeline"):
        run(definition(log, tmp_path / "other", folder=own, name="second"), spark, once=True)


@pytest.mark.parametrize(
    "folder, reason",
    [
        ("lake/own", "pipeline.folder and sink.path must not be inside each other"),
        ("lake", "pipeline.folder and sink.path must not be inside each other"),
        (".", "pipeline.folder and sink.path must not be inside each other"),
        ("s3://key:secret@bucket/own", "pipeline.folder: takes no keys or passwords"),
        ("a%20b", "take '%20' in"),
        ("lake/_changefeed", ""),
        ("lakes", ""),
        ("", ""),
    ],
)
def test_a_folder_that_cannot_work_is_refused(folder: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "source: {type: files, path: log.jsonl, protocol: ticdc-open}\nsink: {type: delta, path: lake}\n"
        + (f"pipeline: {{folder: '{folder}'}}\n" if folder else "")
    )
    if not reason:
        loaded = load(file).pipeline.folder
        assert loaded == (str(tmp_path / folder) if folder else None)
        return
    with pytest.raises(ConfigError, match=reason.replace(".", r"\.")):
        load(file)
