"""Rows of chunks that span a bound are counted alike by the driver and by a Spark job."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from changefeed.errors import SinkError
from changefeed.frames.chunk_files import rename, write_files
from changefeed.frames.chunks import pack
from changefeed.model.batch import BatchBuilder, Decoded, record_batch
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.pipeline.pending import store as pending_store
from changefeed.pipeline.pending.counting import Across, across_here, rows_within
from changefeed.pipeline.pending.memory import MemoryPending
from changefeed.pipeline.pending.store import PendingStore
from changefeed.pipeline.state import Stretches, merged
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
        wanted: Across = {
            (folder, "app", table, shape, "t", partition): [("applied", window)]
            for folder, table in tables
            for partition in (0, 1)
        }
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
    wanted: Across = {
        (folder, "app", "t", shape, "t", partition): [("a", window), ("b", Window())]
        for folder in dated
        for partition in (0, 1)
    }
    counted = across_here(store, files, wanted)
    assert set(counted) == {"a"}
    assert 0 < counted["a"] <= len(last) - 2
    assert across_here(store, files, {("000001-0", "app", "t", shape, "t", 0): [("a", window)]}) == Counter()


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
            {("000001-0", "app", "t", shape, "t", 0): [("a", Window(3, 9))]},
        )


def test_stretches_that_overlap_are_one() -> None:
    old: Stretches = {"t": {0: ((10, 0, 11, 0), (20, 0, 20, 5)), 1: ((1, 0, 1, 0),)}}
    new: Stretches = {"t": {0: ((10, 0, 17, 0), (20, 6, 21, 0), (30, 0, 30, 0))}, "u": {0: ((1, 0, 2, 0),)}}
    assert merged(old, new) == {
        "t": {0: ((10, 0, 17, 0), (20, 0, 20, 5), (20, 6, 21, 0), (30, 0, 30, 0)), 1: ((1, 0, 1, 0),)},
        "u": {0: ((1, 0, 2, 0),)},
    }


def test_rows_of_one_partition_are_counted_alone() -> None:
    """Chunks of other partitions, with the same table and shape, may have rows in a window that this one only spans."""
    storage = MemoryPending()
    records, shape = [], TableShape("app", "t", (Column("id", ColumnType.parse("int")),))
    builder = BatchBuilder()
    for n, (partition, ts) in enumerate([(0, 1), (0, 9), (1, 5)]):
        builder.add(shape, Place("t", partition, n, None, n), "insert", before=None, after={"id": n}, commit_ts=ts)
        records.append({"topic": "t", "partition": partition, "offset": n})
    folder, total = storage.stage([pack(Decoded(builder.build(), [], []), record_batch(records))], 1)
    of_partition = {
        chunk.partition: chunk for chunk in storage.index([folder], {folder: total}) if chunk.kind == "rows"
    }
    windows = [Window(2, 6)]
    assert rows_within(storage, [of_partition[0]], rows=lambda _: windows) == {"rows": 0}
    assert rows_within(storage, [of_partition[1]], rows=lambda _: windows) == {"rows": 1}
