"""A pattern or a folder without a file: every command that reads it names it, and a run that follows waits for a file."""

from __future__ import annotations

import json
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from changefeed.cli import run as command
from changefeed.errors import ConfigError
from changefeed.pipeline.config.load import read
from changefeed.pipeline.operations.explain import explain
from changefeed.pipeline.run import RunResult, run
from changefeed.pipeline.state import State
from changefeed.sources import record_source
from changefeed.sources.files import LogFiles
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIX = "correct source.path, which is relative to the pipeline's file, or put the files there first"


def _refusal(tmp_path: Path, name: str) -> str:
    missing = record_source(definition(tmp_path / name, tmp_path / "lake").source).missing()
    assert missing is not None
    assert missing.fix == FIX
    return missing.what


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "log.jsonl").write_text("")
    assert _refusal(tmp_path, "*.jsonl.gz") == f"no file matches {tmp_path}/*.jsonl.gz"
    assert _refusal(tmp_path, "empty") == f"{tmp_path}/empty is an empty folder"
    assert _refusal(tmp_path, "emp*") == f"no file matches {tmp_path}/emp*"
    assert _refusal(tmp_path, "other") == (
        f"{tmp_path}/other is a folder without Parquet files, and other logs are named by a pattern as "
        f"{tmp_path}/other/*.jsonl"
    )
    assert record_source(definition(tmp_path / "other" / "*", tmp_path / "lake").source).missing() is None


def test_explain_and_a_run_of_once_end_there(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = definition(tmp_path / "*.jsonl", tmp_path / "lake")
    for attempt in (lambda: explain(pipeline), lambda: run(pipeline, spark, once=True)):
        with pytest.raises(ConfigError) as caught:
            attempt()
        assert str(caught.value) == f"no file matches {tmp_path}/*.jsonl: {FIX}"


@pytest.mark.timeout(300)
def test_a_run_of_once_ends_over_logs_without_a_record(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    pipeline = definition(tmp_path / "*.jsonl", tmp_path / "lake")
    assert run(pipeline, spark, once=True).steps == 0
    log, marks = small_history(tmp_path / "app.jsonl")
    (tmp_path / "part.jsonl").write_text('{"topic": "app", ')
    assert run(pipeline, spark, once=True).state.barrier == marks[-1]
    check_cuts(pipeline, History(log))
    assert run(pipeline, spark, once=True).steps == 0


def test_a_run_may_have_a_session_that_is_not_the_active_one(spark: SparkSession, tmp_path: Path) -> None:
    log, marks = small_history(tmp_path / "app.jsonl")
    run(definition(log, tmp_path / "lake"), spark, once=True)
    other = spark.newSession()
    spark.createDataFrame([(1,)], "n int")  # makes that session the active one
    assert run(definition(log, tmp_path / "again"), other, once=True).state.barrier == marks[-1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A pipeline whose pattern matches nothing."""
    source = {"type": "files", "path": "logs/*.jsonl", "protocol": "ticdc-open"}
    path = tmp_path / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"source": source, "sink": {"type": "delta", "path": "lake"}}))
    return path


def test_explain_is_exit_code_2(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["explain", str(path), "--json"]) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["message"] == f"no file matches {tmp_path}/logs/*.jsonl: {FIX}"


@pytest.mark.parametrize("flags, warned", [([], True), (["--once"], False)])
def test_a_run_that_follows_warns_that_there_is_no_file_yet(
    flags: list[str],
    warned: bool,
    path: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("changefeed.cli.run_.spark_for", lambda _: nullcontext("a session"))
    monkeypatch.setattr("changefeed.pipeline.run.run", lambda *_, **__: RunResult(1, 0, State(), State(), None))
    assert command(["run", str(path), *flags]) == 0
    warning = f"warning: no file matches {tmp_path}/logs/*.jsonl yet; waiting for the first one"
    assert (warning in capsys.readouterr().err.splitlines()) == warned


def test_a_run_that_follows_waits_for_the_first_file(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log, marks = small_history(tmp_path / "app.jsonl")
    later = threading.Timer(3, log.rename, (tmp_path / "logs" / "app.jsonl",))
    later.start()
    pipeline = definition(tmp_path / "logs" / "*.jsonl", tmp_path / "lake")
    summary = run(pipeline, spark, until=marks[-1])
    later.join()
    assert summary.reached
    check_cuts(pipeline, History(tmp_path / "logs" / "app.jsonl"))


URLS: dict[str, Any] = {
    "source": {"type": "files", "protocol": "ticdc-open"},
    "sink": {"type": "delta", "path": "/lake"},
}


@pytest.mark.parametrize("url", ["file:///srv/*.jsonl", "file:/srv/*.jsonl", "file://localhost/srv/*.jsonl"])
def test_logs_of_this_machine_may_be_named_by_a_url(url: str) -> None:
    source = record_source(read({**URLS, "source": {**URLS["source"], "path": url}}, base=Path("/home")).source)
    assert isinstance(source, LogFiles)
    assert source.pattern == "/srv/*.jsonl"


@pytest.mark.parametrize(
    "url",
    ["s3a://logs/*.jsonl", "viewfs:///logs/*.jsonl", "viewfs:/logs", "file://another-machine/logs", "hdfs://logs"],
)
def test_logs_at_a_url_are_refused_with_the_way_out(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        record_source(read({**URLS, "source": {**URLS["source"], "path": url}}, base=Path("/home")).source)
    assert str(caught.value) == (
        f"source.path {url} is a URL, but logs are read from folders only. Copy or mount it at one path on every machine of "
        "the cluster"
    )
