"""Following files: the cost of a batch, and that reading continues exactly at every source offset."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from changefeed import record_log
from changefeed.errors import SourceError
from changefeed.frames.slices import read
from changefeed.model.batch import record_batch
from changefeed.record_log import lines, stream
from changefeed.sources.files import LogFiles, spool
from changefeed.sources.files.progress import write_offset
from changefeed.sources.files.reader import RecordLogReader

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


def _reader(path: Path, limit: int, source_offset: str | None = None, end: str = "") -> RecordLogReader:
    scratch = path.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    options = {"pattern": str(path), "limit": str(limit), "start": source_offset or write_offset({}), "end": end}
    return RecordLogReader({**options, "scratch": str(scratch)})


def _batch(reader: RecordLogReader, start: dict[str, Any]) -> tuple[list[Row], dict[str, Any]]:
    end = reader.latestOffset()
    slices = reader.partitions(start, end)
    rows = _rows(reader, slices)
    reader.commit(end)
    return rows, end


def _all(reader: RecordLogReader) -> Iterator[tuple[list[Row], dict[str, Any]]]:
    at = reader.initialOffset()
    while (batch := _batch(reader, at))[1] != at:
        yield batch
        at = batch[1]


def _rows(reader: RecordLogReader, parts: list[Any]) -> list[Row]:
    slices = (batch for part in parts for batch in reader.read(part))
    return [row for batch in read(slices) for row in batch.to_pylist()]


def _numbers(rows: list[Row]) -> list[int]:
    return [row["offset"] for row in rows]


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
    reader, folder, at = _reader(path, 1000), LogFiles(str(path), 1000), None
    at = reader.initialOffset()
    for first in range(100, 5100, 100):
        rows, at = _batch(reader, at)
        assert _numbers(rows) == list(range(first - 100, first))
        assert folder.partitions("") == {("t", 0), ("t", 1), ("t", 2)}
        _log(path, first, first + 100)
    assert read_lines[0] <= 3.1 * 5000  # to count, to read, to find partitions


def test_a_backlog_is_counted_once(tmp_path: Path, read_lines: list[int]) -> None:
    path = tmp_path / "log.jsonl"
    _log(path, 0, 5000)
    reader = _reader(path, 100)
    at = reader.initialOffset()
    for first in range(5000, 5500, 10):
        rows, at = _batch(reader, at)
        assert len(rows) == 100
        _log(path, first, first + 10)
    assert read_lines[0] <= 3.2 * 5500  # to count, to find the end of the batch, to read


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_compressed_log_is_decompressed_once_to_count_and_once_to_read(
    name: str, tmp_path: Path, read_lines: list[int]
) -> None:
    path = tmp_path / name
    _log(path, 0, 5000)
    batches = list(_all(_reader(path, 100)))
    assert len(batches) == 50
    assert [n for rows, _ in batches for n in _numbers(rows)] == list(range(5000))
    assert read_lines[0] <= 3 * 5000 + 100
    assert not any((tmp_path / "scratch").iterdir())


@pytest.mark.parametrize("name", ["log.jsonl", *COMPRESSED, "log.parquet"])
def test_every_source_offset_goes_on_in_another_process(name: str, tmp_path: Path) -> None:
    path, chance = tmp_path / name, random.Random(4)
    _log(path, 0, 1000)
    whole = LogFiles(str(path), 1).end(None, None)  # type: ignore[arg-type]
    batches = list(_all(_reader(path, 70)))
    for rows, end in chance.sample(batches, 5):
        source_offset = write_offset({p: record_log.LogPosition(*c) for p, c in end["files"].items()})
        rest = [n for more, _ in _all(_reader(path, 333, source_offset, whole or "")) for n in _numbers(more)]
        assert rest == list(range(_numbers(rows)[-1] + 1, 1000))


@pytest.mark.parametrize("name", ["log.jsonl", *COMPRESSED, "log.parquet"])
def test_a_log_that_was_replaced_by_a_shorter_one_is_an_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    _log(path, 0, 1000)
    source_offset = LogFiles(str(path), 1).end(None, None)  # type: ignore[arg-type]
    path.unlink()
    _log(path, 0, 10)
    with pytest.raises(SourceError) as error:
        LogFiles(str(path), 1).end(None, source_offset)  # type: ignore[arg-type]
    assert str(error.value) == (
        f"{path} has become shorter: 1,000 records of it have been read. A log may grow, but not be replaced: restore it, "
        "or give the new log another name"
    )


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_task_that_does_not_see_the_scratch_file_reads_the_log(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    _log(path, 0, 1000)
    reader = _reader(path, 300)
    _, start = next(_all(reader))
    end = reader.latestOffset()
    [one] = reader.partitions(start, end)
    assert one.slice.copy is not None  # type: ignore[attr-defined]
    Path(one.slice.copy).unlink()  # type: ignore[attr-defined]
    rows = _rows(reader, [one])
    assert _numbers(rows) == list(range(300, 600))


def test_lines_that_leave_out_topic_and_offset_get_those_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl.zst"
    with pa.output_stream(path, compression="zstd") as out:
        out.write(b"{}\n" * 50)
    rows = [row for batch, _ in _all(_reader(path, 20)) for row in batch]
    assert [(row["topic"], row["offset"]) for row in rows] == [("orders", n) for n in range(50)]


def test_a_batch_that_is_requested_again_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    _log(path, 0, 100)
    reader = _reader(path, 30)
    next(_all(reader))
    start, end = {"files": {str(path): [30, 0]}}, reader.latestOffset()
    assert reader.partitions(start, end) == reader.partitions(start, end)
    assert len(list((tmp_path / "scratch").iterdir())) == 1
    earlier = {"files": {str(path): [10, 0]}}
    [one] = reader.partitions(earlier, start)
    rows = _rows(reader, [one])
    assert _numbers(rows) == list(range(10, 30))


def test_a_compressed_log_that_became_shorter_is_not_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    _log(path, 0, 100)
    reader = _reader(path, 30)
    _, at = next(_all(reader))
    end = reader.latestOffset()
    path.unlink()
    _log(path, 0, 50)
    with pytest.raises(SourceError) as caught:
        reader.partitions(at, end)
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
