from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from changefeed.spark_runtime.daemon import without_archives, without_trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
