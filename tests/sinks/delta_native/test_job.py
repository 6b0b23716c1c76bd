"""The writes of many tables in one Spark job."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from changefeed.errors import SinkError
from changefeed.sinks.base import WriteId
from changefeed.sinks.delta.native.commit import commit
from changefeed.sinks.delta.native.job import ChunkFiles, StepWrite, split, write_all, write_here
from changefeed.stages.changes import Window
from tests.sinks.delta_native.applying import apply, create, item, opened, read
from tests.sinks.delta_native.histories import History, all_types, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Lake:
    """Tables with histories of their own; their chunks are in one store."""

    def __init__(self, spark: SparkSession | None, folder: Path, count: int) -> None:
        self.spark, self.folder = spark, folder
        self.histories = {f"t{i}": History(all_types(), i, irregular=True) for i in range(count)}
        for name, history in self.histories.items():
            create(folder / name, history.table)

    def chunks(self, changes: int, silent: str = "") -> DataFrame:
        """The next changes of all tables except `silent`."""
        assert self.spark is not None
        return self.spark.createDataFrame(self.table(changes, silent)).repartition(3)

    def files(self, changes: int, silent: str = "") -> ChunkFiles:
        """The same changes in two files of two row groups."""
        assert self.spark is not None
        chunks, folder = self.table(changes, silent), self.folder / f"chunks-{uuid.uuid4().hex}"
        folder.mkdir()
        for n in range(2):
            part = chunks.take(list(range(n, len(chunks), 2)))
            pq.write_table(part, folder / f"{n}.parquet", row_group_size=max(1, (len(part) + 1) // 2))
        return ChunkFiles(self.spark, tuple(str(file) for file in sorted(folder.iterdir())))

    def table(self, changes: int, silent: str = "") -> pa.Table:
        """The same chunks in memory."""
        made = []
        for name, history in self.histories.items():
            if name == silent:
                continue
            chunks = pa.Table.from_batches([history.step(changes)])
            place = chunks.schema.get_field_index("table")
            made.append(chunks.set_column(place, "table", pa.array([name] * len(chunks), pa.string())))
        return pa.concat_tables(made)

    def writes(self, **options: Any) -> list[StepWrite]:
        return [
            StepWrite(item(opened(self.folder / name), history.table, **options), ("app", name), weight=i)
            for i, (name, history) in enumerate(self.histories.items())
        ]

    def check(self) -> None:
        for name, history in self.histories.items():
            wanted = history.expected()
            assert sorted_rows(read(self.folder / name, wanted.column_names)) == sorted_rows(wanted)


Chunks = Callable[[Lake, int, str], Any]


@pytest.mark.parametrize("of", [Lake.chunks, Lake.files], ids=["sent", "read by tasks"])
def test_all_tables_of_a_step_are_one_job(of: Chunks, spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, 4)
    for step, silent in ((1, ""), (2, "t2")):
        chunks, writes = of(lake, 30, silent), lake.writes()
        done = write_all(chunks, writes, 2)
        assert [w.read for w in done] == [0 if name == silent else 30 for name in lake.histories]
        for name, written in zip(lake.histories, done, strict=True):
            commit(opened(tmp_path / name), [written], WriteId(1, step, 1), "{}")
    lake.check()


def test_a_few_rows_are_written_in_this_process(tmp_path: Path) -> None:
    lake = Lake(None, tmp_path, 3)
    for step, silent in ((1, ""), (2, "t2")):
        chunks = lake.table(30, silent)
        files = [str(tmp_path / f"part-{step}-{n}.parquet") for n in range(2)]
        for n, file in enumerate(files):
            pq.write_table(chunks.take(list(range(n, len(chunks), 2))), file)
        done = write_here(files, lake.writes())
        assert [w.read for w in done] == [0 if name == silent else 30 for name in lake.histories]
        for name, written in zip(lake.histories, done, strict=True):
            commit(opened(tmp_path / name), [written], WriteId(1, step, 1), "{}")
    lake.check()


def test_chunks_outside_the_window_are_not_read_in_this_process(tmp_path: Path) -> None:
    lake = Lake(None, tmp_path, 1)
    pq.write_table(lake.table(20), tmp_path / "part-0.parquet")
    [write] = lake.writes()
    reading: Any = write.item.changes
    inner = replace(write, item=replace(write.item, changes=replace(reading, window=Window(5, 9))), after=5, upto=9)
    assert [w.read for w in write_here([str(tmp_path / "part-0.parquet")], [inner])] == [4]
    assert [w.read for w in write_here([str(tmp_path / "part-0.parquet")], [replace(write, after=1000)])] == [0]


def test_a_damaged_file_of_the_pending_store_is_named(tmp_path: Path) -> None:
    lake = Lake(None, tmp_path, 1)
    (tmp_path / "part-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(SinkError, match="pending changes cannot be read"):
        write_here([str(tmp_path / "part-0.parquet")], lake.writes())


@pytest.mark.parametrize("of", [Lake.chunks, Lake.files], ids=["sent", "read by tasks"])
def test_a_large_table_is_dealt_to_several_tasks(of: Chunks, spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, 2)
    for name, history in lake.histories.items():
        apply(tmp_path / name, history.table, history.step(300), 1)
    writes = lake.writes()
    parts = split(writes[0], 3, 5_000)
    assert len(parts) == 3
    assert sum(len(p.item.files) for p in parts) == len(writes[0].item.files)
    done = write_all(of(lake, 100, ""), writes, 3, 5_000)
    for name, written in zip(lake.histories, done, strict=True):
        assert written.read == 100
        commit(opened(tmp_path / name), [written], WriteId(1, 2, 1), "{}")
    lake.check()


@pytest.mark.parametrize("of", [Lake.chunks, Lake.files], ids=["sent", "read by tasks"])
def test_chunks_outside_the_window_are_not_taken(of: Chunks, spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, 1)
    chunks = of(lake, 20, "")
    [write] = lake.writes()
    reading: Any = write.item.changes
    inner = replace(write.item, changes=replace(reading, window=Window(5, 9)))
    [written] = write_all(chunks, [replace(write, item=inner, after=5, upto=9)], 2)
    assert written.read == 4
    assert write_all(chunks, [replace(write, after=1000)], 2)[0].read == 0


def test_a_damaged_file_that_a_task_reads_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, 1)
    files = lake.files(20)
    Path(files.paths[1]).write_bytes(b"PAR1")
    with pytest.raises(Exception, match="pending changes cannot be read"):
        write_all(files, lake.writes(), 2)


def test_an_error_in_a_task_reaches_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, 1)
    apply(tmp_path / "t0", lake.histories["t0"].table, lake.histories["t0"].step(30), 1)
    for file in (tmp_path / "t0").glob("*.parquet"):
        file.unlink()
    with pytest.raises(Exception, match="a data file of the table cannot be read"):
        write_all(lake.chunks(30), lake.writes(), 2)
    assert not list((tmp_path / "t0").glob("*.parquet"))


def test_without_writes_there_is_no_job() -> None:
    nothing: Any = None
    assert write_all(nothing, [], 2) == []


def test_slots_are_evenly_loaded() -> None:
    from changefeed.sinks.delta.native.job import _slots

    slots = _slots([1, 1, 1, 1, 100, 1], 2)
    assert [slots.count(n) for n in (slots[4], 1 - slots[4])] == [1, 5]
