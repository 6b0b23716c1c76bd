from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from changefeed.spark_runtime.daemon import without_archives, without_trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def test_archives_stay_if_pyspark_is_not_installed() -> None:
    assert without_archives(["somewhere", "pyspark.zip"]) == ["somewhere", "pyspark.zip"]


def test_archives_are_removed_if_pyspark_is_installed() -> None:
    assert without_archives([*sys.path, "pyspark.zip", "spark-core.jar"]) == without_archives(sys.path)


def test_workers_have_no_archives_on_their_path(spark: SparkSession) -> None:
    def path(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"p": sys.path})

    paths = [row.p for row in spark.range(1).mapInArrow(path, "p string").collect()]
    assert paths
    assert not [p for p in paths if p.endswith((".zip", ".jar"))]


def test_workers_do_not_import_pandas_until_they_use_it(spark: SparkSession) -> None:
    def imported(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            before = "pandas" in sys.modules
            table = pa.table({"n": [1]}).to_pandas()
            yield pa.RecordBatch.from_pydict({"before": [before], "rows": [len(table)]})

    own = spark.newSession()
    assert own.range(1, numPartitions=1).mapInArrow(imported, "before boolean, rows long").first() == (False, 1)


def test_the_worker_of_a_streaming_source_imports_pyspark_from_where_it_is_installed(spark: SparkSession) -> None:
    class Path(DataSource):
        @classmethod
        def name(cls) -> str:
            return "path-of-the-worker"

        def schema(self) -> str:
            return "p string"

        def streamReader(self, schema: StructType) -> Reader:
            return Reader()

    class Reader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, Any]:
            return {"paths": []}

        def latestOffset(self) -> dict[str, Any]:
            return {"paths": [*sys.path, sys.modules["pyspark"].__file__]}

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            return [InputPartition(path) for path in end["paths"]]

        def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
            yield (partition.value,)

    own = spark.newSession()
    own.dataSource.register(Path)
    paths = list[str]()
    stream = own.readStream.format("path-of-the-worker").load()
    query = stream.writeStream.foreachBatch(lambda rows, _: paths.extend(row.p for row in rows.collect())).start()
    while not paths and query.isActive:
        query.awaitTermination(1)
    query.stop()
    assert paths
    assert not [path for path in paths if ".zip" in path or ".jar" in path]


def test_a_worker_without_a_reader_ends_silently(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def answer(sock: socket.socket, authenticated: bool) -> int:
        sock.sendall(b"answer")
        return 0

    monkeypatch.setattr(os, "_exit", sys.exit)
    ours, theirs = socket.socketpair()
    with ours:
        assert without_trace(answer)(ours, True) == 0
        assert theirs.recv(6) == b"answer"
        theirs.close()
        with pytest.raises(SystemExit, match=r"^1$"):
            without_trace(answer)(ours, True)
    assert capfd.readouterr() == ("", "")


def test_garbage_is_searched_among_objects_of_tasks_alone() -> None:
    code = """
import gc
from changefeed.spark_runtime.daemon import with_modules_frozen
kept = []
def task(sock, authenticated):
    kept.append([[] for _ in range(10_000)])
    return 7
worker = with_modules_frozen(task)
assert len(gc.get_objects()) < 1000
assert [worker(None, True), len(gc.get_objects()) < 1000] == [7, True], "what the first task has imported"
assert [worker(None, True), len(gc.get_objects()) > 10_000] == [7, True]
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library is not glibc")
def test_threads_of_workers_have_memory_of_their_own() -> None:
    code = """
import ctypes, os, tempfile, threading
from changefeed.spark_runtime.daemon import keep_memory
keep_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fdopen.restype = ctypes.c_void_p
started = threading.Barrier(4)
def thread():
    started.wait()
    libc.malloc(ctypes.c_size_t(1000))
    started.wait()
threads = [threading.Thread(target=thread) for _ in range(4)]
for one in threads: one.start()
for one in threads: one.join()
with tempfile.NamedTemporaryFile() as file:
    stream = ctypes.c_void_p(libc.fdopen(os.dup(file.fileno()), b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    print(open(file.name).read().count("<heap nr="))
"""
    environment = os.environ | {"MALLOC_ARENA_MAX": "2"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 2
