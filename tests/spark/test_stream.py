"""A stream over record logs has each change once, for any growth of logs, ends of batches, and stops of the query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from changefeed import record_log
from changefeed.sources.files.progress import read_offset
from changefeed.spark.log_reader import Logs, LogStreamReader, Piece, pieces
from tests.spark.shop import LOGS, OPEN, SPLIT, Log, Row, changes, in_order, shown
from tests.spark.streaming import follow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def grow(log: Path, whole: Path, share: float) -> None:
    """Gives a plain log this share of its bytes; the last line may be incomplete."""
    data = whole.read_bytes()
    log.write_bytes(data[: int(len(data) * share)])


@pytest.mark.heavy
@pytest.mark.parametrize("log", [pytest.param(OPEN, marks=pytest.mark.nightly), SPLIT], ids=str)
def test_a_log_that_grows_and_new_ones_come_once_over_restarts(log: Log, spark: SparkSession, tmp_path: Path) -> None:
    """`tencent-dts` has rows in several records, which batches cut."""
    records, logs = log.records(), tmp_path / "logs"
    logs.mkdir()
    half = len(records) // 2
    for name, part in (("first", records.slice(0, half)), ("second", records.slice(half))):
        record_log.write(tmp_path / f"{name}.jsonl", [part])
    log.reader(spark)

    def read(**more: Any) -> list[Row]:
        reader = spark.readStream.format("changefeed").options(protocol=log.protocol, **log.options)
        return follow(reader.load(f"{logs}/*.jsonl"), tmp_path / "checkpoint", **more)

    grow(logs / "a.jsonl", tmp_path / "first.jsonl", 0.6)
    rows = read()
    assert len(rows) > 0
    grow(logs / "a.jsonl", tmp_path / "first.jsonl", 1)
    assert read(fails=True) == []
    grow(logs / "b.jsonl", tmp_path / "second.jsonl", 0.3)
    rows += read()
    grow(logs / "b.jsonl", tmp_path / "second.jsonl", 1)
    rows += read()
    assert read() == []
    wanted = changes(log)
    for row in wanted:
        row["commit_time"] = row["commit_time"] and row["commit_time"].timestamp()
    assert in_order(rows) == wanted


@pytest.mark.heavy
@pytest.mark.parametrize("log", LOGS[2:8:3], ids=str)
def test_a_stream_has_the_rows_of_a_batch(log: Log, spark: SparkSession, tmp_path: Path) -> None:
    batch = shown(log.reader(spark).load(str(log.path)))
    stream = spark.readStream.format("changefeed").options(protocol=log.protocol, **log.options).load(str(log.path))
    assert follow(stream, tmp_path) == batch


def test_a_log_that_became_shorter_is_refused() -> None:
    reader = LogStreamReader(Logs("unused"), None)
    with pytest.raises(Exception) as caught:
        reader.partitions({"files": {"a.jsonl": [7, 70]}}, {"files": {"a.jsonl": [6, 60]}})
    assert str(caught.value) == (
        "a.jsonl has become shorter: 7 records of it have been read. A log may grow, but not be replaced: restore it, or "
        "give the new log another name"
    )


def test_logs_are_cut_where_records_need_none_before_them() -> None:
    start = read_offset('{"files":{"a":[5,50],"b":[9,90]}}')
    end = read_offset('{"files":{"a":[100005,5000],"b":[9,90],"c":[3,0]}}')
    cut = [piece for piece in pieces(start, end, whole=False) if isinstance(piece, Piece)]
    assert [(s.path, s.bytes, s.start, s.stop) for piece in cut for s in piece.slices] == [
        *(("a", 50, 5 + n * 12500, 5 + (n + 1) * 12500) for n in range(8)),
        ("c", 0, 0, 3),
    ]
    whole = [piece for piece in pieces(start, end, whole=True) if isinstance(piece, Piece)]
    assert [piece.share for piece in whole] == [(n, 4) for n in range(4)]
    assert [(s.path, s.start, s.stop) for s in whole[0].slices] == [("a", 5, 100005), ("c", 0, 3)]
    assert [(s.path, s.start, s.stop) for s in whole[0].before] == [("a", 0, 5), ("b", 0, 9)]
