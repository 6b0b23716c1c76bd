"""The checks of a run before it writes: of two commits, the storage must let one succeed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed.errors import ChangefeedError, ConfigError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.operations.check import checks
from changefeed.pipeline.operations.explain import explain
from changefeed.pipeline.operations.repair import repair, start_over
from changefeed.pipeline.run import run
from changefeed.pipeline.store.hadoop import check_file_system
from changefeed.storage.folders import folder_at
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition, published
from tests.services.fault_proxy import FaultProxy, without_condition
from tests.services.s3 import S3Server
from tests.toys import sqlite_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, _ = small_history(tmp_path_factory.mktemp("history") / "app.jsonl")
    return path


@pytest.fixture
def proxy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """Before a server that has the bucket; the tests' own reader of tables asks the server."""
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    with FaultProxy(s3.url) as proxy:
        yield proxy


def _refusal(folder: str) -> str:
    return (
        f"{folder}: this storage does not support conditional writes: of two files with one name that may only be created "
        "once, it has accepted both. Two runs could overwrite each other's commits. Use a storage that supports If-None-Match, "
        "as Amazon S3 does"
    )


def _into(lake: str, own: str | None, log: Path, s3: S3Server, url: str, **options: object) -> Definition:
    made = definition(log, Path("lake"), limit=20, parallelism=1, folder=own, **options)  # type: ignore[arg-type]
    sink = made.sink.model_copy(update={"path": lake})
    return made.model_copy(update={"sink": sink, "storage": s3.storage(url)})


def _names(folder: str, s3: S3Server) -> list[str]:
    opened = folder_at(folder, s3.storage())
    assert opened is not None
    return [info.name for info in opened.files_below()]


def test_the_storage_of_the_tables_is_checked_where_the_ledger_is_on_another(
    spark: SparkSession, s3: S3Server, proxy: FaultProxy, log: Path, tmp_path: Path
) -> None:
    lake, own = f"s3://lake/{uuid.uuid4().hex}", tmp_path / "own"
    pipeline = _into(lake, str(own), log, s3, proxy.url)
    proxy.add(without_condition, "PUT", times=None)
    for begin in (
        lambda: run(pipeline, spark, once=True),
        lambda: repair(pipeline, spark, ["app.sales"], "restore"),
        lambda: start_over(pipeline, spark),
    ):
        with pytest.raises(ConfigError) as caught:
            begin()
        assert str(caught.value) == _refusal(lake)
    assert _names(lake, s3) == [".create-probe"]
    assert not (own / "ledger").exists(), "a run that is refused does not take the pipeline over"


def test_the_check_of_the_tables_storage_is_one_request_of_a_run(
    spark: SparkSession, s3: S3Server, proxy: FaultProxy, log: Path, tmp_path: Path
) -> None:
    lake = f"s3://lake/{uuid.uuid4().hex}"
    apart = _into(lake, str(tmp_path / "own"), log, s3, proxy.url)
    run(apart, spark, once=True)
    check_cuts(apart, History(log))
    assert proxy.count("PUT", "create-probe") == 2
    run(apart, spark, once=True)
    assert proxy.count("PUT", "create-probe") == 3
    proxy.clear()
    beside = _into(f"s3://lake/{uuid.uuid4().hex}", None, log, s3, proxy.url)
    run(beside, spark, once=True)
    assert proxy.count("PUT", "create-probe") == proxy.count("PUT", "ledger/.create-probe") == 2


@pytest.mark.parametrize("own", ["beside", "apart"])
def test_the_own_folder_is_checked_where_the_ledger_is_in_a_module(
    own: str, spark: SparkSession, s3: S3Server, proxy: FaultProxy, log: Path, tmp_path: Path
) -> None:
    """Dead letters are files that are created once, too."""
    bucket = f"s3://lake/{uuid.uuid4().hex}"
    lake, folder = (f"{bucket}/lake", None) if own == "beside" else (str(tmp_path / "lake"), f"{bucket}/own")
    made = _into(lake, folder, log, s3, proxy.url)
    ledger = sqlite_store.SECTION.model_validate(
        {"type": "tests.toys.sqlite_store", "path": str(tmp_path / "ledger.sqlite")}
    )
    pipeline = made.model_copy(update={"ledger": ledger})
    proxy.add(without_condition, "PUT", times=None)
    with pytest.raises(ConfigError) as caught:
        run(pipeline, spark, once=True)
    assert str(caught.value) == _refusal(folder or f"{lake}/_changefeed")
    proxy.clear()
    run(pipeline, spark, once=True)


def test_iceberg_tables_need_no_conditional_writes(
    spark: SparkSession, s3: S3Server, proxy: FaultProxy, log: Path, tmp_path: Path
) -> None:
    """Their catalog decides which of two commits succeeds, and names of files are random."""
    proxy.add(without_condition, "PUT", times=None)
    catalog = {"catalog-properties": {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}}
    lake = f"s3://lake/{uuid.uuid4().hex}"
    pipeline = _into(lake, str(tmp_path / "own"), log, s3, proxy.url, sink="iceberg", options=catalog)
    assert [check.message for check in checks(pipeline) if check.status == "fail"] == []
    run(pipeline, spark, once=True)
    assert len(published(pipeline)) > 1
    beside = _into(lake, None, log, s3, proxy.url, sink="iceberg", options=catalog)
    (sink,) = [check for check in checks(beside) if check.name == "sink"]
    assert (sink.status, sink.message) == ("fail", _refusal(lake)), "the ledger is in the bucket"


# File systems that only Spark reaches.


@pytest.mark.parametrize("scheme", ["oss", "cosn", "obs", "swift", "tos", "alluxio"])
def test_tables_on_a_file_system_that_may_replace_a_commit_are_refused(
    scheme: str, spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    """No jar for it is there: the refusal comes before the file system is opened."""
    lake, own = f"{scheme}://bucket/lake", tmp_path / "own"
    for writer in ("native", "spark"):
        made = definition(log, Path("lake"), folder=str(own), writer=writer)
        pipeline = made.model_copy(update={"sink": made.sink.model_copy(update={"path": lake})})
        refusal = (
            f"{lake}: changefeed cannot create files on {scheme}:// so that two runs never overwrite each other's commits. Use a "
            f"local folder, hdfs://, s3://, abfss:// or gs://; or set spark.delta.logStore.{scheme}.impl to a LogStore of Delta "
            "that excludes concurrent writers"
        )
        for command in (lambda p=pipeline: run(p, spark, once=True), lambda p=pipeline: explain(p)):
            with pytest.raises(ConfigError) as caught:
                command()
            assert str(caught.value) == refusal
        (sink,) = [check for check in checks(pipeline) if check.name == "sink"]
        assert (sink.status, sink.message) == ("fail", refusal)
        assert not (own / "ledger").exists()


def test_a_log_store_of_the_users_own_is_taken(log: Path, tmp_path: Path) -> None:
    made = definition(log, Path("lake"), folder=str(tmp_path / "own"))
    chosen = {"spark.delta.logStore.oss.impl": "com.example.LogStore", "spark.jars": "oss.jar"}
    sink = made.sink.model_copy(update={"path": "oss://bucket/lake"})
    pipeline = made.model_copy(update={"sink": sink, "spark": chosen})
    (check,) = [check for check in checks(pipeline) if check.name == "sink"]
    assert "cannot create files" not in check.message
    with pytest.raises(ChangefeedError) as caught:  # nothing here reads the tables
        explain(pipeline)
    assert "cannot create files" not in str(caught.value)


@pytest.mark.parametrize(
    "path", ["/lake", "file:/lake", "file:///lake", "hdfs://name/lake", "ofs://name/lake", "s3://bucket/lake",
             "s3a://bucket/lake", "abfss://container@account/lake", "gs://bucket/lake"],
)  # fmt: skip
def test_file_systems_on_which_two_runs_exclude_each_other(path: str) -> None:
    check_file_system(path, lambda name: None)
