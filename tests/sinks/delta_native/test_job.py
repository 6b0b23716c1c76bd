"""The writes of many tables in one Spark job."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from changefeed.errors import SinkError
from changefeed.frames.chunk_files import StoredChunks
from changefeed.sinks.apply.item import TaskResult
from changefeed.sinks.apply.job import StepWrite, split, write_all, write_here
from changefeed.sinks.delta.native.commit import commit
from changefeed.sinks.writes import WriteId
from changefeed.stages.changes import Window
from changefeed.storage.local import LocalFolder
from tests.sinks.delta_native.applying import apply, create, item, opened, read
from tests.sinks.delta_native.histories import History, all_types, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lake:
    """Tables with histories of their own; their chunks are in one store."""

    def __init__(self, spark: SparkSession | None, folder: Path, count: int) -> None:
        self.spark, self.folder, self.store = spark, folder, LocalFolder(str(folder))
        self.histories = {f"t{i}": History(all_types(), i, irregular=True) for i in range(count)}
        for name, history in self.histories.items():
            create(folder / name, history.table)

    def apply(self, way: str, changes: int, writes: list[StepWrite], *least: int, silent: str = "") -> list[TaskResult]:
        """Makes writes of the next changes of all tables except `silent`: sent to tasks, read by tasks, or here."""
        if way == "sent":
            assert self.spark is not None
            chunks = self.spark.createDataFrame(self.table(changes, silent)).repartition(3)
            return write_all(self.spark, writes, 2, *least, chunks=chunks)
        reading = [replace(write, files=self.files(changes, silent), store=self.store) for write in writes[:1]]
        reading += [replace(write, files=reading[0].files, store=self.store) for write in writes[1:]]
        if way == "here":
            return write_here(reading)
        assert self.spark is not None
        return write_all(self.spark, reading, 2, *least)

    def files(self, changes: int, silent: str = "") -> frozenset[str]:
        """The next changes in two files of two row groups."""
        chunks, folder = self.table(changes, silent), self.folder / f"chunks-{uuid.uuid4().hex}"
        folder.mkdir()
        for n in range(2):
            part = chunks.take(list(range(n, len(chunks), 2)))
            pq.write_table(part, folder / f"{n}.parquet", row_group_size=max(1, (len(part) + 1) // 2))
        return frozenset(f"{folder.name}/{file.name}" for file in folder.iterdir())

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


WAYS = pytest.mark.parametrize("way", ["sent", "read by tasks", "here"])


@WAYS
def test_all_tables_of_a_step_are_written_together(way: str, spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, 4)
    for step, silent in ((1, ""), (2, "t2")):
        done = lake.apply(way, 30, lake.writes(), silent=silent)
        assert [w.read for w in done] == [0 if name == silent else 30 for name in lake.histories]
        for name, written in zip(lake.histories, done, strict=True):
            commit(opened(tmp_path / name), [written], WriteId(1, step, 1), "{}")
    lake.check()


@WAYS
def test_a_large_table_is_dealt_to_several_tasks(way: str, spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, 2)
    for name, history in lake.histories.items():
        apply(tmp_path / name, history.table, history.step(300), 1)
    writes = lake.writes()
    parts = split(writes[0], 3, 5_000)
    assert len(parts) == 3
    assert sum(len(p.item.files) for p in parts) == len(writes[0].item.files)
    done = lake.apply(way, 100, writes, *([5_000] if way != "here" else []))
    for name, written in zip(lake.histories, done, strict=True):
        assert written.read == 100
        commit(opened(tmp_path / name), [written], WriteId(1, 2, 1), "{}")
    lake.check()


@WAYS
def test_chunks_outside_the_window_are_not_taken(way: str, spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, 1)
    [write] = lake.writes()
    reading: Any = write.item.changes
    inner = replace(write.item, changes=replace(reading, window=Window(5, 9)))
    [written] = lake.apply(way, 20, [replace(write, item=inner, after=5, upto=9)])
    assert written.read == 4
    assert lake.apply(way, 20, [replace(write, after=1000)])[0].read == 0


def test_each_write_reads_its_own_files(tmp_path: Path) -> None:
    """Tables of one step may have their changes in different folders, and a folder changes of a table that are applied."""
    lake = Lake(None, tmp_path, 3)
    first, second = lake.files(30), lake.files(20)
    writes = [
        replace(write, files=files, store=lake.store)
        for write, files in zip(lake.writes(), (first, first | second, second), strict=True)
    ]
    assert [written.read for written in write_here(writes)] == [30, 50, 20]


def test_payloads_are_read_again_if_few_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, real = list[tuple[str, int]](), pq.ParquetFile.read_row_group

    def counted(parquet: Any, number: int, columns: list[str], **options: Any) -> Any:
        if columns == ["payload"]:
            read.append((str(id(parquet)), number))
        return real(parquet, number, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    lake = Lake(None, tmp_path, 2)
    files = sorted(lake.files(60))
    payloads = {}
    for most in (0, 1 << 30):
        read.clear()
        stored = StoredChunks(lake.store, most)
        chunks = [row for file in files for group in stored.find(file, ["kind"], _all) for row in group.to_pylist()]
        places = sorted((c["row"], c["group"], c["file"]) for c in chunks)  # from group to group and back
        payloads[most] = [stored.payload(file, group, row) for row, group, file in places]
        groups = len({place[1:] for place in places})
        assert len(read) == (groups if most else len(places))
    assert payloads[0] == payloads[1 << 30]


def _all(chunks: pa.Table) -> Any:
    return pc.is_valid(chunks.column("kind"))


def test_a_damaged_file_of_the_pending_store_is_named(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, 1)
    files = lake.files(20)
    (tmp_path / sorted(files)[1]).write_bytes(b"PAR1")
    writes = [replace(write, files=files, store=lake.store) for write in lake.writes()]
    with pytest.raises(SinkError, match="pending changes cannot be read"):
        write_here(writes)
    with pytest.raises(Exception, match="pending changes cannot be read"):
        write_all(spark, writes, 2)


def test_an_error_in_a_task_reaches_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, 1)
    apply(tmp_path / "t0", lake.histories["t0"].table, lake.histories["t0"].step(30), 1)
    for file in (tmp_path / "t0").glob("*.parquet"):
        file.unlink()
    with pytest.raises(Exception, match="a data file of the table cannot be read"):
        lake.apply("sent", 30, lake.writes())
    assert not list((tmp_path / "t0").glob("*.parquet"))


def test_without_writes_there_is_no_job() -> None:
    nothing: Any = None
    assert write_all(nothing, [], 2) == []


def test_slots_are_evenly_loaded() -> None:
    from changefeed.sinks.apply.job import _slots

    slots = _slots([1, 1, 1, 1, 100, 1], 2)
    assert [slots.count(n) for n in (slots[4], 1 - slots[4])] == [1, 5]
