"""Following files: the cost of a batch, and that reading continues exactly at every source offset."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from changefeed import record_log
from changefeed.errors import SourceError
from changefeed.frames.slices import Slice, Slices, pack, read
from changefeed.model.batch import record_batch
from changefeed.record_log import lines, stream
from changefeed.sources import NextBatch
from changefeed.sources.files import LogFiles, spool

NO_SPARK: Any = None  # only tasks need it
COMPRESSED = ["log.jsonl.gz", "log.jsonl.zst"]
Row = dict[str, Any]


def _log(path: Path, first: int, last: int) -> None:
    rows = [{"topic": "t", "partition": n % 3, "offset": n, "value": b"%d" % n} for n in range(first, last)]
    whole = path.with_name("whole.jsonl") if path.suffix == ".jsonl" else path
    record_log.write(whole, [record_batch(rows)])
    if whole is not path:
        with path.open("ab") as out:
            out.write(whole.read_bytes())
        whole.unlink()


def _batch(source: LogFiles, before: str | None, end: str | None = None) -> tuple[list[Row], str | None]:
    """The rows of the next batch, and the source offset after it; without a batch no rows, and that before it."""
    batch = source.next_batch(NO_SPARK, before, end)
    return ([], before) if batch is None else (_rows(batch), batch.source_offset)


def _all(source: LogFiles, before: str | None = None, end: str | None = None) -> Iterator[tuple[list[Row], str]]:
    while (batch := source.next_batch(NO_SPARK, before, end)) is not None:
        before = batch.source_offset
        yield _rows(batch), before


def _slices(batch: NextBatch) -> Sequence[Slice]:
    assert isinstance(batch.records, Slices)
    return batch.records.slices


def _rows(batch: NextBatch) -> list[Row]:
    return [row for records in read([pack(_slices(batch))]) for row in records.to_pylist()]


def _numbers(rows: list[Row]) -> list[int]:
    return [row["offset"] for row in rows]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def read_lines(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of lines read of all files, as the only entry."""
    count = [0]

    def counted(path: Path, at: int = 0) -> Iterator[bytes]:
        for line in stream.lines(path, at):
            count[0] += 1
            yield line

    monkeypatch.setattr(lines, "lines", counted)
    monkeypatch.setattr(spool, "lines", counted)
    return count


def test_a_log_that_grows_is_read_a_few_times_not_once_a_batch(tmp_path: Path, read_lines: list[int]) -> None:
    path = tmp_path / "log.jsonl"
    _log(path, 0, 100)
    source, at = LogFiles(str(path), 1000), None
    for first in range(100, 5100, 100):
        rows, at = _batch(source, at)
        assert _numbers(rows) == list(range(first - 100, first))
        assert source.partitions("") == {("t", 0), ("t", 1), ("t", 2)}
        _log(path, first, first + 100)
    assert read_lines[0] <= 3.1 * 5000  # to count, to read, to find partitions


def test_a_backlog_is_counted_once(tmp_path: Path, read_lines: list[int]) -> None:
    path = tmp_path / "log.jsonl"
    _log(path, 0, 5000)
    source, at = LogFiles(str(path), 100), None
    for first in range(5000, 5500, 10):
        rows, at = _batch(source, at)
        assert len(rows) == 100
        _log(path, first, first + 10)
    assert read_lines[0] <= 4.2 * 5500  # to count, to find the end of the batch, to read, to find partitions


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_compressed_log_is_decompressed_once_to_count_and_once_to_read(
    name: str, tmp_path: Path, read_lines: list[int], scratch: Path
) -> None:
    path = tmp_path / name
    _log(path, 0, 5000)
    source = LogFiles(str(path), 100)
    batches = list(_all(source))
    assert len(batches) == 50
    assert [n for rows, _ in batches for n in _numbers(rows)] == list(range(5000))
    assert read_lines[0] <= 4 * 5000 + 100  # to count, to read, to read the copies, to find partitions
    assert not any(scratch.rglob("*.jsonl"))
    source.close()
    assert not any(scratch.iterdir())


@pytest.mark.parametrize("name", ["log.jsonl", *COMPRESSED, "log.parquet"])
def test_every_source_offset_goes_on_in_another_process(name: str, tmp_path: Path) -> None:
    path, chance = tmp_path / name, random.Random(4)
    _log(path, 0, 1000)
    whole = LogFiles(str(path), 1).end(NO_SPARK, None)
    batches = list(_all(LogFiles(str(path), 70)))
    for rows, at in chance.sample(batches, 5):
        rest = [n for more, _ in _all(LogFiles(str(path), 333), at, whole) for n in _numbers(more)]
        assert rest == list(range(_numbers(rows)[-1] + 1, 1000))


@pytest.mark.parametrize("name", ["log.jsonl", *COMPRESSED, "log.parquet"])
def test_a_log_that_was_replaced_by_a_shorter_one_is_an_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    _log(path, 0, 1000)
    source_offset = LogFiles(str(path), 1).end(NO_SPARK, None)
    path.unlink()
    _log(path, 0, 10)
    with pytest.raises(SourceError) as error:
        LogFiles(str(path), 1).end(NO_SPARK, source_offset)
    assert str(error.value) == (
        f"{path} has become shorter: 1,000 records of it have been read. A log may grow, but not be replaced: restore it, "
        "or give the new log another name"
    )


def test_a_log_that_was_replaced_by_a_longer_one_with_other_lines_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    _log(path, 0, 100)  # the values of a later one are longer
    source_offset = LogFiles(str(path), 1).end(NO_SPARK, None)
    path.unlink()
    _log(path, 10_000, 11_000)
    with pytest.raises(SourceError) as error:
        LogFiles(str(path), 1).compared(None, source_offset)
    assert str(error.value) == (
        f"{path} was replaced: 100 records of it have been read. A log may grow, but not be replaced: restore it, or give the "
        "new log another name"
    )


def test_a_log_whose_last_line_has_no_line_feed_yet_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"value_text": "0"}\n{"value_text": "1"}')
    source_offset = LogFiles(str(path), 9).end(NO_SPARK, None)
    again = LogFiles(str(path), 9)
    assert again.compared(None, source_offset).source_offset == source_offset
    assert again.next_batch(NO_SPARK, source_offset, None) is None
    with path.open("a") as log:
        log.write('\n{"value_text": "2"}\n')
    batch = again.next_batch(NO_SPARK, source_offset, None)
    assert batch is not None
    [one] = _slices(batch)
    assert (one.start, one.stop) == (2, 3)


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_task_that_does_not_see_the_scratch_file_reads_the_log(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    _log(path, 0, 1000)
    source = LogFiles(str(path), 300)
    _, at = _batch(source, None)
    batch = source.next_batch(NO_SPARK, at, None)
    assert batch is not None
    [one] = _slices(batch)
    assert one.copy is not None
    Path(one.copy).unlink()
    assert _numbers(_rows(batch)) == list(range(300, 600))


def test_lines_that_leave_out_topic_and_offset_get_those_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl.zst"
    with pa.output_stream(path, compression="zstd") as out:
        out.write(b"{}\n" * 50)
    rows = [row for batch, _ in _all(LogFiles(str(path), 20)) for row in batch]
    assert [(row["topic"], row["offset"]) for row in rows] == [("orders", n) for n in range(50)]


def test_a_batch_that_is_planned_again_is_the_same(tmp_path: Path, scratch: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    _log(path, 0, 100)
    source = LogFiles(str(path), 30)
    batches = [*_all(source)]
    (_, first), (rows, second), *_ = batches
    for _ in range(2):
        assert _batch(source, first) == (rows, second)
        assert len([*scratch.rglob("*.jsonl")]) == 1
    assert _numbers(rows) == list(range(30, 60))
    earlier = json.dumps({"files": {str(path): [10, 0]}})
    assert _numbers(_batch(source, earlier)[0]) == list(range(10, 40))


def test_a_compressed_log_that_became_shorter_is_not_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    _log(path, 0, 100)
    source = LogFiles(str(path), 30)
    end = source.end(NO_SPARK, None)
    _, at = _batch(source, None, end)
    path.unlink()
    _log(path, 0, 50)
    with pytest.raises(SourceError) as caught:
        source.next_batch(NO_SPARK, at, end)
    assert str(caught.value) == f"{path} has 50 records, and had 60 when they were counted"


def test_partitions_that_appear_later_are_read_in_every_form(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"partition":0}\n{"partition":1}')
    folder = LogFiles(str(tmp_path / "log*"), 10)
    assert folder.partitions("") == {("log", 0), ("log", 1)}
    with path.open("a") as out:
        out.write('\n{"partition":7}\n{"partit')
    assert folder.partitions("") == {("log", 0), ("log", 1), ("log", 7)}
    with path.open("a") as out:
        out.write('ion":8}\n')
    parts = tmp_path / "logs"
    parts.mkdir()
    record_log.write(parts / "a.parquet", [record_batch([{"topic": "p", "partition": 0, "offset": 0}])])
    assert folder.partitions("") == {("log", 0), ("log", 1), ("log", 7), ("log", 8), ("p", 0)}
    record_log.write(parts / "b.parquet", [record_batch([{"topic": "p", "partition": 1, "offset": 0}])])
    assert ("p", 1) in folder.partitions("")
