from __future__ import annotations

import gzip
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changefeed.errors import ConfigError, SinkError, SourceError, UnsupportedError
from changefeed.model.batch import record_batch
from changefeed.model.position import TOPIC_RULE
from changefeed.record_log import START, RecordLogWriter, advance, count, partitions, read, stream, write
from tests.record_log.made import rows_of, some_records

FORMS = ["log.jsonl", "log.jsonl.gz", "log.jsonl.zst", "log.parquet"]
LINES = FORMS[:3]


@pytest.mark.parametrize("name", FORMS)
def test_written_records_are_read(name: str, tmp_path: Path) -> None:
    records = some_records(50)
    assert write(tmp_path / name, [records.slice(0, 20), records.slice(20)]) == 50
    batches = list(read(tmp_path / name, batch_size=15))
    assert [len(batch) for batch in batches] == [15, 15, 15, 5]
    assert pa.Table.from_batches(batches) == pa.Table.from_batches([records])
    assert count(tmp_path / name) == 50
    assert partitions(tmp_path / name) == {"shop": {0, 1, 2}, "other": {0, 1, 2}}
    assert [path.name for path in tmp_path.iterdir()] == [name]


BODY = st.none() | st.binary(max_size=9)
RECORD = st.fixed_dictionaries(
    {
        "key": BODY,
        "value": BODY,
        "topic": st.text(st.characters(exclude_categories=["Cs"], exclude_characters=":"), min_size=1),
        "partition": st.integers(0, 2**31 - 1),
        "offset": st.integers(0, 2**63 - 1),
        "timestamp": st.none() | st.integers(-(10**14), 10**14).map(lambda ms: ms * 1000),
        "headers": st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), BODY), max_size=2),
    }
)


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(RECORD, min_size=1, max_size=5), name=st.sampled_from(FORMS))
def test_any_record_survives(rows: list[dict[str, Any]], name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("log") / name
    records = record_batch(rows)
    write(path, [records])
    assert pa.Table.from_batches(read(path)) == pa.Table.from_batches([records])


def test_a_line_verbatim(tmp_path: Path) -> None:
    line = (
        '{"topic":"shop","partition":0,"offset":41,"timestamp":1767225600123,"key":"AAAB","value":null,'
        '"headers":[["k","AAAD"],["n",null]]}\n'
    )
    (tmp_path / "in.jsonl").write_text(line)
    [batch] = read(tmp_path / "in.jsonl")
    assert batch.to_pylist()[0]["key"] == b"\x00\x00\x01"
    write(tmp_path / "out.jsonl", [batch])
    assert (tmp_path / "out.jsonl").read_text() == line


def test_members_that_a_line_may_leave_out(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    path.write_text('{}\n{"key_text":"ä","value_text":null}\n{"partition":2,"offset":9}\n')
    assert [(r["topic"], r["partition"], r["offset"], r["key"], r["value"], r["headers"]) for r in rows_of(path)] == [
        ("orders", 0, 0, None, None, []),
        ("orders", 0, 1, "ä".encode(), None, []),
        ("orders", 2, 9, None, None, []),
    ]
    assert partitions(path) == {"orders": {0, 2}}


# second line -> the message after the file's name
BAD_LINES = [
    ("", "an empty line is not a record"),
    ("{", "Input data was truncated"),
    ("7", "Expected `object`, got `int`"),
    ('{"tpoic":"x"}', "Object contains unknown field `tpoic`"),
    ('{"topic":null}', "Expected `str`, got `null` - at `$.topic`"),
    ('{"topic":"a:b"}', f"{TOPIC_RULE} - at `$.topic`"),
    ('{"topic":""}', f"{TOPIC_RULE} - at `$.topic`"),
    ('{"partition":-1}', "Expected `int` >= 0 - at `$.partition`"),
    ('{"partition":2147483648}', "Expected `int` <= 2147483647 - at `$.partition`"),
    ('{"offset":1.5}', "Expected `int`, got `float` - at `$.offset`"),
    ('{"key":"AAA"}', "Invalid base64 encoded string - at `$.key`"),
    ('{"key":"AAAA","key_text":"x"}', "it has both `key` and `key_text`: give only one of them"),
    ('{"headers":[["k"]]}', "Expected `array` of length 2 - at `$.headers[0]`"),
    ("{} {}", "JSON is malformed: trailing characters (byte 4)"),
]


@pytest.mark.parametrize("line, message", BAD_LINES)
@pytest.mark.parametrize("name", LINES)
def test_a_line_that_is_not_a_record_is_named(name: str, line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    text = f"{{}}\n{line}\n{{}}\n".encode()
    if name.endswith(".jsonl"):
        path.write_bytes(text)
    else:
        with pa.output_stream(path, compression="gzip" if name.endswith(".gz") else "zstd") as file:
            file.write(text)
    with pytest.raises(SourceError) as raised:
        rows_of(path)
    assert str(raised.value) == f"{path}:2: {message}"


@pytest.mark.parametrize("name", FORMS)
def test_any_part_of_a_log_can_be_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write(path, [some_records(10), some_records(13)])
    whole = rows_of(path)
    for start, stop in [
        (0, None),
        (0, 0),
        (3, 3),
        (5, 2),
        (3, 11),
        (9, 10),
        (10, 23),
        (22, 99),
        (23, None),
        (99, None),
    ]:
        assert rows_of(path, start=start, stop=stop, batch_size=4) == whole[start:stop]


@pytest.mark.parametrize("name", FORMS)
def test_a_cursor_leads_back_to_its_record(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write(path, [some_records(23)])
    whole, at = rows_of(path), START
    while at.records < 23:
        there = advance(path, at, 7)
        assert there.records == min(at.records + 7, 23)
        assert (there.bytes > 0) == (name == "log.jsonl")
        assert rows_of(path, start=at.records, stop=there.records, at=at) == whole[at.records : there.records]
        at = there
    assert at == advance(path) == advance(path, at)


def test_a_growing_log_gives_whole_records_only(tmp_path: Path) -> None:
    path, at = tmp_path / "grows.jsonl", START
    seen: list[int] = []
    text = b"".join(b'{"offset":%d,"value_text":"}"}\n' % n for n in range(3))
    for end in range(len(text) + 1):
        path.write_bytes(text[:end])
        there = advance(path, at)
        seen += [row["offset"] for row in rows_of(path, start=at.records, stop=there.records, at=at)]
        at = there
        whole = text[:end].count(b"}\n") + text[:end].endswith(b'}"}')
        assert at.records == len(seen) == whole == count(path)
    assert (seen, at.bytes) == ([0, 1, 2], len(text))


def test_an_incomplete_last_line_is_an_error_if_the_log_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{}\n{"topic":"sh')
    assert count(path) == 1
    with pytest.raises(SourceError) as raised:
        rows_of(path)
    assert str(raised.value) == f"{path}:2: the last line is incomplete: 12 bytes, and no line feed yet"
    path.write_text('{}\n{"topic":"shop"}')
    assert [row["topic"] for row in rows_of(path)] == ["log", "shop"]


def test_records_before_the_damage_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("{}\n{}\n\n{}\n")
    batches = read(path)
    assert len(next(batches)) == 2
    with pytest.raises(SourceError, match=r":3: an empty line is not a record$"):
        next(batches)


@pytest.mark.parametrize(
    "data, fault",
    [
        (b"\xef\xbb\xbf{}\n", "begins with a byte order mark, which must be removed"),
        (b"\x1f\x8b\x08\x00\x00", "is gzip, and needs a name that ends with .jsonl.gz"),
        (b"\x28\xb5\x2f\xfd\x00", "is Zstandard, and needs a name that ends with .jsonl.zst"),
        (b"PAR1\x15", "is Parquet, and needs a name that ends with .parquet"),
    ],
)
def test_another_file_by_this_name_is_named(data: bytes, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(data)
    with pytest.raises(SourceError) as raised:
        rows_of(path)
    assert str(raised.value) == f"{path} is not JSON Lines: it {fault}"


@pytest.mark.parametrize("name", ["log.jsonl.gz", "log.jsonl.zst"])
def test_the_error_of_a_truncated_log_has_the_number_of_records_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    values = [bytes((n * 7919 + i * i) % 256 for i in range(300)) for n in range(3000)]
    write(path, [record_batch({"topic": "t", "partition": 0, "offset": n, "value": v} for n, v in enumerate(values))])
    data = path.read_bytes()
    for end in (len(data) - 1, len(data) // 2, 1):
        path.write_bytes(data[:end])
        rows: list[dict[str, Any]] = []
        with pytest.raises(SourceError) as raised:
            rows.extend(row for batch in read(path, batch_size=1) for row in batch.to_pylist())
        assert str(raised.value) == (
            f"{path}: Truncated compressed stream; {len(rows)} records could be read before that"
        )
        assert [row["value"] for row in rows] == values[: len(rows)]


def test_bytes_after_a_compressed_log_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}\n") + gzip.compress(b"{}\n"))
    assert count(path) == 2
    path.write_bytes(gzip.compress(b"{}\n") + b"junk")
    with pytest.raises(SourceError, match=r"incorrect header check; \d records could be read before that$"):
        rows_of(path)


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_LINE_BYTES", 100)
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}\n" + b" " * 5000))
    with pytest.raises(SourceError) as raised:
        rows_of(path)
    assert str(raised.value) == f"{path}: the line of record 1 after the start of this read has more than 100 bytes"


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_line_that_is_too_long_is_read_no_further_than_the_limit(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 32 << 20
    monkeypatch.setattr(stream, "MAX_LINE_BYTES", limit)
    path = tmp_path / f"log.jsonl{suffix}"
    data = b"{}\n" + b" " * (3 * limit) + b"\n"
    path.write_bytes(gzip.compress(data, 1) if suffix else data)
    del data
    tracemalloc.start()
    try:
        with pytest.raises(SourceError) as raised:
            list(stream.lines(path))
        assert tracemalloc.get_traced_memory()[1] < limit * 1.2
    finally:
        tracemalloc.stop()
    assert str(raised.value) == f"{path}: the line of record 1 after the start of this read has more than {limit} bytes"


def test_a_long_line_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    long = b"x" * (5 << 20)
    path.write_bytes(long + b"\n" + b"y" * (1 << 20) + b"\n{}\n" + long)
    assert list(stream.lines(path)) == [long + b"\n", b"y" * (1 << 20) + b"\n", b"{}\n", long]


def test_names_that_are_not_logs(tmp_path: Path) -> None:
    for name in ("log.json", "log.csv.gz"):
        with pytest.raises(ConfigError):
            read(tmp_path / name)
        with pytest.raises(ConfigError):
            RecordLogWriter(tmp_path / name)
    for name in FORMS:
        with pytest.raises(SourceError) as raised:
            rows_of(tmp_path / name)
        assert str(raised.value) == f"{tmp_path / name} does not exist"


@pytest.mark.parametrize("name", FORMS)
def test_a_log_appears_complete_or_not_at_all(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write(path, [some_records(1)])
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError):
        write(path, (some_records(9 // n) for n in (1, 0)))
    assert path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_records_that_json_lines_cannot_hold_are_refused(tmp_path: Path) -> None:
    fine = {"topic": "t", "partition": 0, "offset": 5, "timestamp": 1001}
    with pytest.raises(UnsupportedError) as raised:
        write(tmp_path / "log.jsonl", [record_batch([fine])])
    assert str(raised.value) == "t:0:5: its timestamp has microseconds, JSON Lines hold milliseconds"
    with pytest.raises(UnsupportedError) as raised:
        write(tmp_path / "log.jsonl", [record_batch([{"topic": "t", "partition": 0}])])
    assert str(raised.value) == "a record lacks its topic, partition or offset: t:0:None"
    with pytest.raises(SinkError):
        write(tmp_path / "missing" / "log.jsonl", [])


_READ_ALL = """
import resource, sys
from changefeed import record_log
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
print(sum(len(batch) for batch in record_log.read(sys.argv[1])), peak() - before)
"""


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_a_log_larger_than_the_memory_it_takes(name: str, tmp_path: Path) -> None:
    value = bytes(range(256)) * 4096  # 1 MiB
    rows = ({"topic": "t", "partition": 0, "offset": n, "value": value} for n in range(200))
    with RecordLogWriter(tmp_path / name) as writer:
        for row in rows:
            writer.write(record_batch([row]))
    done = subprocess.run([sys.executable, "-c", _READ_ALL, str(tmp_path / name)], capture_output=True, check=True)
    records, kilobytes = map(int, done.stdout.split())
    assert records == 200
    assert kilobytes < 130_000
