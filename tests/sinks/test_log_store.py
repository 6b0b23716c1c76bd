"""Commits of Spark to tables on a local disk: of several writers of one version, native or not, one succeeds."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

from changefeed.model.definition import Table
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.sinks.base import WriteRequest, write_alone
from changefeed.sinks.delta.log import delta_log
from changefeed.sinks.delta.native import log_file
from changefeed.sinks.delta.sink import DeltaTables
from changefeed.sinks.writes import Create, Touch, WriteId
from changefeed.storage.local import LocalFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS, WRITERS = 60, 3  # one of the writers is native
PAUSE = 1.5  # seconds before a file gets its name


def _create(spark: SparkSession, root: str) -> None:
    """Lets Spark create a table `shop/t` below a folder or URL, and commit to it."""
    sink = DeltaTables(root, (), spark, "changefeed:shop:1", native=False)
    table = Table("shop", "t", (Column("id", ColumnType.parse("int")),), ("id",))
    writes = (Create(path="shop/t", number=1, table=table), Touch(path="shop/t", number=2, table=table))
    for write in writes:
        write_alone(sink, WriteRequest(write, None, WriteId(1, 1, write.number), "{}"))


def _store(spark: SparkSession, root: str) -> Any:
    """The log store of a table, as Delta has it in a new session."""
    return delta_log(spark.newSession(), f"{root}/shop/t").store()


def _write(spark: SparkSession, store: Any, file: Path, text: str) -> bool:
    jvm: Any = spark._jvm
    lines = jvm.java.util.ArrayList()
    lines.add(text)
    iterator = jvm.scala.jdk.javaapi.CollectionConverters.asScala(lines).iterator()
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    try:
        store.write(jvm.org.apache.hadoop.fs.Path(file.as_uri()), iterator, False, configuration)
    except Py4JJavaError as error:
        if "java.nio.file.FileAlreadyExistsException" not in str(error.java_exception):
            raise
        return False
    return True


@contextmanager
def delayed(process: int, calls: str) -> Iterator[None]:
    """Delays system calls of a process, in all of its threads."""
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(process), "-e", f"trace={calls}"]
    tracer = subprocess.Popen([*command, "-e", f"inject={calls}:delay_enter={int(PAUSE * 1e6)}"])
    try:
        until = time.monotonic() + 30
        while "TracerPid:\t0\n" in Path(f"/proc/{process}/status").read_text():
            if tracer.poll() is not None or time.monotonic() > until:
                pytest.skip("this process may not trace another one")
            time.sleep(0.05)
        yield
    finally:
        tracer.terminate()
        tracer.wait()


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_version_that_is_taken_while_spark_gives_a_file_its_name_is_not_replaced(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Delta's own way has looked by then, and renames."""
    _create(spark, str(tmp_path))
    store, log, results = _store(spark, str(tmp_path)), tmp_path / "shop" / "t" / "_delta_log", list[bool]()
    jvm: Any = spark._jvm
    process = int(jvm.java.lang.ProcessHandle.current().pid())
    version = log / f"{5:020d}.json"
    with delayed(process, "rename,link,linkat"):
        thread = Thread(target=lambda: results.append(_write(spark, store, version, "of Spark")))
        thread.start()
        until = time.monotonic() + 60
        while not list(log.glob(f".{version.name}.*.tmp")) and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(PAUSE / 2)
        assert not version.exists(), "the file has its name already"
        log_file.put(LocalFolder(str(log.parent)), 5, [log_file.commit_info("WRITE", {}, 4)])
        native = version.read_bytes()
        thread.join()
    assert results == [False]
    assert version.read_bytes() == native
    assert list(log.glob(".*.tmp")) == []


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_one_of_several_writers_of_a_version_succeeds(scheme: str, spark: SparkSession, tmp_path: Path) -> None:
    """Two sessions of Spark, and a native writer."""
    root = f"{scheme}{tmp_path}"
    _create(spark, root)
    log, stores = tmp_path / "shop" / "t" / "_delta_log", [_store(spark, root) for _ in range(WRITERS - 1)]
    names = [f"{number:020d}.json" for number in range(10, 10 + VERSIONS)]
    barrier = Barrier(WRITERS)

    def write(writer: int) -> list[bool]:
        won = []
        for name in names:
            barrier.wait(60)
            if writer < len(stores):
                won.append(_write(spark, stores[writer], log / name, str(writer)))
                continue
            try:
                log_file._link(log, int(name.removesuffix(".json")), f"{writer}\n".encode())
                won.append(True)
            except FileExistsError:
                won.append(False)
        return won

    with ThreadPoolExecutor(WRITERS) as pool:
        results = list(pool.map(write, range(WRITERS)))
    for place, name in enumerate(names):
        winners = [writer for writer in range(WRITERS) if results[writer][place]]
        assert winners == [int((log / name).read_text())]
    assert list(log.glob(".*.tmp")) == []


@pytest.mark.parametrize("setting", ["spark.delta.logStore.file.impl", "spark.delta.logStore.class"])
def test_a_log_store_of_the_users_own_is_left(setting: str, spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    conf, ours = jvm.org.apache.spark.SparkEnv.get().conf(), "spark.delta.logStore.file.impl"
    _create(spark, str(tmp_path / "ours"))
    own = conf.get(ours)
    assert own.endswith(".LinkLogStore")
    conf.remove(ours)
    try:
        conf.set(setting, "io.delta.storage.HDFSLogStore")
        _create(spark, str(tmp_path / "theirs"))
        assert conf.get(setting) == "io.delta.storage.HDFSLogStore"
        assert conf.contains(ours) == (setting == ours)
    finally:
        conf.remove(setting)
        conf.set(ours, own)
