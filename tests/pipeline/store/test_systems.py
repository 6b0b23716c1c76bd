"""The store of files through Hadoop's file systems in the JVM, and read by Arrow's; both on this machine's disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyarrow.fs import LocalFileSystem

from changefeed.errors import ConfigError, FencedError, SinkError
from changefeed.pipeline.store import files
from changefeed.pipeline.store import hadoop as hadoop_folders
from changefeed.pipeline.store.arrow import ArrowFolder, arrow_folder
from changefeed.pipeline.store.base import Keep
from changefeed.pipeline.store.files import FileStore
from changefeed.pipeline.store.hadoop import HadoopFolder, folder_of_session, names_of
from changefeed.pipeline.store.reading import FileReader
from changefeed.spark_runtime.files import file_system
from changefeed.storage.local import LocalFolder
from tests.pipeline.store.conformance import check, claimed, go
from tests.pipeline.store.places import Files
from tests.pipeline.store.values import plan, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class OnHadoop(Files):
    """A folder that is written through Spark's JVM."""

    def __init__(self, path: Path, spark: SparkSession) -> None:
        super().__init__(path)
        self.folder: Any = HadoopFolder(spark, f"file://{self.path}")


@pytest.fixture
def hadoop(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnHadoop:
    monkeypatch.setattr(files, "_PAGE", 5)
    return OnHadoop(tmp_path, spark)


@pytest.mark.heavy
def test_steps_through_the_jvm(hadoop: OnHadoop) -> None:
    """Each implementation reads the files of the other, byte for byte."""
    older = claimed(hadoop)
    go(older, 7)
    older.begin(plan(8))
    newer = FileStore(LocalFolder(str(hadoop.path)), "shop", Keep(cuts=100))
    newer.claim()
    assert (newer.step, newer.state, newer.unfinished) == (7, state(7), plan(8))
    with pytest.raises(FencedError):
        older.finish(state(8))
    go(newer, 12)
    again = claimed(hadoop)
    go(again, 24)
    check(hadoop, 24)
    assert [cut.step for cut in again.history(newest_first=True)] == list(range(24, 0, -1))
    assert len([path for path in hadoop.entries() if not path.name.startswith(".")]) <= 13


@pytest.mark.heavy
def test_a_file_is_made_once(hadoop: OnHadoop) -> None:
    folder = hadoop.folder
    assert (folder.names("log"), folder.read("log/a.json")) == ([], None)
    text = '{"é":"\\u2028"}\n'.encode()
    assert folder.create("log/a.json", text)
    assert not folder.create("log/a.json", b"other\n")
    assert folder.read("log/a.json") == text == LocalFolder(str(hadoop.path)).read("log/a.json")
    assert folder.create("log/b.json", b"b\n")
    assert sorted(folder.names("log")) == ["a.json", "b.json"]
    folder.delete(["log/a.json"])
    folder.delete(["log/a.json"])
    assert folder.names("log") == ["b.json"]


def test_file_systems_list_files_as_a_class_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    """The file system of S3 does so; the test imitates it."""
    jvm, gateway = cast(Any, spark._jvm), cast(Any, spark.sparkContext._gateway)
    for name in ("a.json", "b.json"):
        (tmp_path / name).touch()
    folder, system = file_system(spark, tmp_path.as_uri())
    files = system.listLocatedStatus(folder)
    listed = gateway.new_array(jvm.org.apache.hadoop.fs.LocatedFileStatus, 2)
    listed[0], listed[1] = files.next(), files.next()
    assert sorted(names_of(spark, listed)) == ["a.json", "b.json"]
    assert names_of(spark, gateway.new_array(jvm.org.apache.hadoop.fs.LocatedFileStatus, 0)) == []


def test_a_path_of_this_machine_needs_no_jvm(spark: SparkSession, tmp_path: Path) -> None:
    for path in (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}"):
        assert folder_of_session(spark, path) == LocalFolder(str(tmp_path))


@pytest.fixture
def without_log_store(spark: SparkSession) -> Iterator[None]:
    """An application without a `LogStore` of its own for local files: Spark's commits to local tables have set one."""
    conf, name = spark._jvm.org.apache.spark.SparkEnv.get().conf(), "spark.delta.logStore.file.impl"  # type: ignore[union-attr]
    before = conf.get(name, "")
    conf.remove(name)
    yield
    if before:
        conf.set(name, before)


@pytest.mark.usefixtures("without_log_store")
def test_a_file_system_on_which_a_rename_may_replace_a_file_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hadoop_folders, "_RENAME_EXCLUDES", ("hdfs",))
    store = FileStore(HadoopFolder(spark, f"file://{tmp_path}"), "shop")
    with pytest.raises(ConfigError) as caught:
        store.claim()
    assert str(caught.value) == (
        f"file://{tmp_path}: changefeed cannot create files on file:// so that two runs never overwrite each other's commits. "
        "Use a local folder, hdfs://, s3://, abfss:// or gs://; or set spark.delta.logStore.file.impl to a LogStore of Delta "
        "that excludes concurrent writers"
    )
    assert list(tmp_path.iterdir()) == []


def test_reading_by_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PAGE", 5)
    place = Files(tmp_path)
    arrow = FileReader(ArrowFolder("hdfs://name/ledger", LocalFileSystem(), str(place.path)), "shop")
    assert (arrow.latest(), list(arrow.history())) == (None, [])
    go(claimed(place), 13)
    assert arrow.latest() == place.reading().latest()
    assert list(arrow.history()) == list(place.reading().history())
    place.entries()[-2].unlink()
    with pytest.raises(SinkError, match=r"^hdfs://name/ledger: the ledger is damaged: log/.* is missing"):
        arrow.latest()


def test_a_url_that_nothing_here_can_read() -> None:
    with pytest.raises(ConfigError, match=r"^swift://x/y cannot be read without Spark: "):
        arrow_folder("swift://x/y")
