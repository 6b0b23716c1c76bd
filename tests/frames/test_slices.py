"""Slices of record logs: together the tasks read each record of the log once."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from changefeed import record_log
from changefeed.errors import SourceError
from changefeed.frames.slices import Slice, pack, read, read_share
from changefeed.model.batch import record_batch

NAMES = ("log.jsonl", "log.jsonl.gz", "log.parquet")


def written(path: Path, count: int) -> list[tuple[str, int, int]]:
    chance = random.Random(str(path.name))
    places = [(chance.choice(["a", "b", "ł"]), chance.randrange(5), n) for n in range(count)]
    rows = [{"topic": t, "partition": p, "offset": o, "value": b"%d" % o} for t, p, o in places]
    record_log.write(path, [record_batch(rows)])
    return places


def places(batches: list[pa.RecordBatch]) -> list[tuple[str, int, int]]:
    return [(r["topic"], r["partition"], r["offset"]) for batch in batches for r in batch.to_pylist()]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_shares_hold_every_record_once_and_each_partition_in_its_order(name: str, of: int, tmp_path: Path) -> None:
    whole = written(tmp_path / name, 9_000)
    log = str(tmp_path / name)
    slices = [Slice(log, start=0, stop=5_000), Slice(log, start=5_000, stop=5_001), Slice(log, start=5_001)]
    task = read_share(slices, of)
    shares = [places(list(task([pa.RecordBatch.from_pydict({"id": [share]})]))) for share in range(of)]
    assert sorted(place for share in shares for place in share) == sorted(whole)
    owners = {(topic, partition): n for n, share in enumerate(shares) for topic, partition, _ in share}
    for n, share in enumerate(shares):
        assert all(owners[topic, partition] == n for topic, partition, _ in share)
        assert share == [place for place in whole if owners[place[:2]] == n]


def test_a_slice_is_read_from_its_cursor(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    whole = written(path, 100)
    at = record_log.advance(path, limit=40)
    batch = pack([Slice(str(path), at.records, at.bytes, 60, 70), Slice(str(path), start=98)])
    assert places(list(read([batch]))) == whole[60:70] + whole[98:]


def test_a_log_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        list(read([pack([Slice(str(tmp_path / "gone.parquet"))])]))
    assert str(caught.value) == f"{tmp_path}/gone.parquet does not exist"
