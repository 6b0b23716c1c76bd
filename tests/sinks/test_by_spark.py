"""Commands that read a sink without Spark, on a file system that only Spark can read."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from changefeed.errors import SinkError
from changefeed.pipeline.ledger import occupied, read_ledger, strangers
from changefeed.pipeline.operations.expired import read_deleted_folders
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.state import State
from changefeed.pipeline.store.files import FileStore
from changefeed.pipeline.store.hadoop import folder_of_session
from changefeed.sinks.delta import read
from changefeed.spark_runtime.files import read_by
from tests.pipeline.kit.running import definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 'SELECT * FROM t WHERE "index" IS NULL ORDER BY topic, partition, "offset", "index"'


@pytest.fixture
def viewed(spark: SparkSession, tmp_path: Path) -> tuple[SparkSession, str]:
    """A session, and the URL by which it alone reaches the folder."""
    own, name = spark.newSession(), tmp_path.name.replace("_", "-")
    own.conf.set(f"fs.viewfs.mounttable.{name}.link./tables", tmp_path.as_uri())
    return own, f"viewfs://{name}/tables"


def _row(offset: int) -> dict[str, Any]:
    at = datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    return {
        "topic": "a",
        "partition": 0,
        "offset": offset,
        "index": None if offset % 5 else 1,
        "value": b"\xff",
        "at": at,
    }


def test_tables_are_read_as_without_spark(viewed: tuple[SparkSession, str], tmp_path: Path) -> None:
    spark, url = viewed
    read.append(f"{tmp_path}/t", [_row(offset) for offset in (7, 30, 2, 11, 1)])
    without = read.query(f"{tmp_path}/t", ROWS)
    assert [row["offset"] for row in without] == [1, 2, 7, 11]
    with pytest.raises(SinkError):
        read.query(f"{url}/t", ROWS)
    with read_by(spark):
        assert read.query(f"{url}/t", ROWS) == without
        assert read.query(f"{url}/none", ROWS) == []
        assert read.properties(f"{url}/t") == DeltaTable(f"{tmp_path}/t").metadata().configuration
        assert (read.wrote(f"{url}/t", "x"), read.wrote(f"{url}/none", "x")) == (False, None)


def test_the_ledger_is_read_through_the_session(viewed: tuple[SparkSession, str], tmp_path: Path) -> None:
    spark, url = viewed
    beside = definition(tmp_path / "x.jsonl", tmp_path)
    pipeline = beside.model_copy(update={"sink": beside.sink.model_copy(update={"path": url})})
    store = FileStore(folder_of_session(spark, f"{url}/_changefeed/ledger"), "test")
    store.claim()
    for step in range(1, 4):
        store.finish(State(barrier=step))
    expired = tmp_path / "_changefeed" / "expired"
    expired.mkdir()
    (expired / "1.json").write_text('[{"path": "app/t", "step": 1, "at": "2024-01-02T03:04:05Z"}]')
    with pytest.raises(SinkError):
        read_ledger(pipeline)
    with read_by(spark):
        assert read_ledger(pipeline).latest() == read_ledger(beside).latest()
        assert status(pipeline).to_dict() == status(beside).to_dict()
        assert [one.path for one in read_deleted_folders(pipeline)] == ["app/t"]
    assert status(beside).to_dict()["epoch"] == 1


@pytest.mark.parametrize("by", ["viewfs", "file URL", "path"])
def test_a_folder_of_others_is_found_on_every_file_system(
    by: str, viewed: tuple[SparkSession, str], tmp_path: Path
) -> None:
    (tmp_path / "app" / "files").mkdir(parents=True)
    (tmp_path / "app" / "files" / "report.csv").write_text("a,b\n")
    (tmp_path / "app" / "one").write_text("a file")
    (tmp_path / "app" / "empty").mkdir()
    read.append(f"{tmp_path}/app/table", [_row(1)])
    root = {"viewfs": viewed[1], "file URL": tmp_path.as_uri(), "path": str(tmp_path)}[by]
    pipeline = definition(tmp_path / "x.jsonl", tmp_path)
    pipeline = pipeline.model_copy(update={"sink": pipeline.sink.model_copy(update={"path": root})})
    tables = {f"app.{name}": f"app/{name}" for name in ("files", "one", "empty", "table", "new")}
    with read_by(viewed[0]) if by == "viewfs" else nullcontext():
        assert occupied(pipeline, tables) == [f"{root}/app/files", f"{root}/app/one"]
        assert strangers(pipeline, tables) == [f"{root}/app/table"]
