"""Rows of chunks that span a bound are counted alike by the driver and by a Spark job."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from changefeed.errors import SinkError
from changefeed.frames.chunk_files import rename, write_files
from changefeed.pipeline.pending import store as pending_store
from changefeed.pipeline.pending.counting import Across, across_here
from changefeed.pipeline.pending.store import PendingStore
from changefeed.stages.changes import Window
from changefeed.storage.local import LocalFolder
from tests.sinks.delta_native.histories import History, all_types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def staged(root: Path, seed: int) -> tuple[dict[str, list[int]], str]:
    """Three folders with a file of changes each, commit_ts 1, 2, …; returns the commit_ts of each folder, and the shape."""
    history, dated, shape = History(all_types("id"), seed), dict[str, list[int]](), ""
    for number in range(3):
        folder = f"000001-{number}"
        (root / folder).mkdir()
        first = history.ts
        chunks = [history.step(20 + number), history.step(7)]
        dated[folder] = list(range(first + 1, history.ts + 1))
        [shape] = set(chunks[0].column("shape").to_pylist())
        [file] = [
            row
            for batch in write_files(LocalFolder(str(root / folder)), cuts=True)(iter(chunks))
            for row in batch.to_pylist()
        ]
        rename(LocalFolder(str(root / folder)), [file["name"]])
    return dated, shape


@pytest.mark.spark
def test_the_driver_counts_as_a_spark_job_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(5)
    dated, shape = staged(tmp_path, 5)
    store = PendingStore(spark, str(tmp_path), folder=LocalFolder(str(tmp_path)))
    for _ in range(3):
        window = Window(random.choice([None, random.randint(1, 40)]), random.randint(41, 80))
        tables = [*((folder, "t") for folder in dated), ("000001-0", "other")]
        wanted: Across = {(folder, "app", table, shape): [("applied", window)] for folder, table in tables}
        counts = store.across(wanted)
        with monkeypatch.context() as patch:
            patch.setattr(pending_store, "_HERE_BYTES", -1)
            assert store.across(wanted) == counts
        assert 0 < counts["applied"] <= sum(_in(window, ts) for of in dated.values() for ts in of)


def _in(window: Window, ts: int) -> bool:
    return (window.after is None or ts > window.after) and (window.upto is None or ts <= window.upto)


def test_only_chunks_that_span_a_bound_are_counted(tmp_path: Path) -> None:
    dated, shape = staged(tmp_path, 1)
    store, files = LocalFolder(str(tmp_path)), {f"{folder}/part-00000.parquet": 0 for folder in dated}
    last = dated["000001-2"]
    window = Window(last[0], last[-2])  # both bounds lie in the last folder, which has two batches from two partitions
    wanted: Across = {(folder, "app", "t", shape): [("a", window), ("b", Window())] for folder in dated}
    counted = across_here(store, files, wanted)
    assert set(counted) == {"a"}
    assert 0 < counted["a"] <= len(last) - 2
    assert across_here(store, files, {("000001-0", "app", "t", shape): [("a", window)]}) == Counter()


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    _, shape = staged(tmp_path, 2)
    file = tmp_path / "000001-0" / "part-00000.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(data)
    with pytest.raises(SinkError, match="pending changes cannot be read"):
        across_here(
            LocalFolder(str(tmp_path)),
            {"000001-0/part-00000.parquet": len(data)},
            {("000001-0", "app", "t", shape): [("a", Window(3, 9))]},
        )
