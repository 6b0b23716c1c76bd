"""Records that cannot be decoded, among good ones: each one is counted, and the dead-letter policy is followed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from changefeed import record_log
from changefeed.errors import ProtocolError
from changefeed.model.batch import RECORDS, record_batch
from changefeed.pipeline.dead_letters import files_of
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.run import run
from tests.pipeline.kit.history import small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _damaged(log: Path, into: Path, seed: int) -> int:
    """Writes the log with bad records between the good ones and new offsets; returns the number of bad records."""
    chance = random.Random(seed)
    good = [row for batch in record_log.read(log) for row in batch.to_pylist()]
    rows: list[dict[str, Any]] = []
    bad = 0
    offsets = [0, 0]
    for row in good:
        for candidate in (_broken(row, chance) if chance.random() < 0.5 else None, row):
            if candidate is not None:
                bad += candidate is not row
                rows.append({**candidate, "offset": offsets[row["partition"]]})
                offsets[row["partition"]] += 1
    record_log.write(into, [record_batch(rows)])
    assert bad > 10
    return bad


def _broken(row: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    value: bytes = row["value"]
    key: bytes = row["key"]
    kinds: list[dict[str, Any]] = [
        {**row, "value": value[: chance.randrange(1, len(value))]},
        {**row, "key": key[: chance.randrange(8, len(key))]},
        {**row, "value": value + b"\0"},
        {**row, "value": b'{"payload":{"op":"c"}}', "key": b'{"id":1}'},
        {**row, "value": b"", "key": b""},
        {**row, "key": None},
    ]
    return chance.choice(kinds)


@pytest.fixture
def log(tmp_path: Path) -> tuple[Path, Path, int]:
    clean, _ = small_history(tmp_path / "clean.jsonl")
    seed = random.randrange(2**32)
    print("seed", seed)
    return clean, tmp_path / "app.jsonl", _damaged(clean, tmp_path / "app.jsonl", seed)


@pytest.mark.heavy
def test_continue_applies_the_good_and_keeps_the_bad(
    spark: SparkSession, log: tuple[Path, Path, int], tmp_path: Path
) -> None:
    clean, path, bad = log
    pipeline = definition(path, tmp_path / "lake", dead_letters="continue")
    run(pipeline, spark, once=True)
    check_cuts(pipeline, History(clean))
    shown = status(pipeline).to_dict()
    good = sum(batch.num_rows for batch in record_log.read(clean))
    assert (shown["counts"]["records"], shown["dead_letters"]) == (good + bad, bad)
    assert shown["counts"]["rows"] == shown["counts"]["applied"] + shown["pending"]
    letters = files_of(pipeline).rows()
    assert len(letters) == bad
    held = {(row["partition"], row["offset"]): row for batch in record_log.read(path) for row in batch.to_pylist()}
    for letter in letters:
        record = held[letter.partition, letter.offset]
        assert (letter.key, letter.value) == (record["key"], record["value"])
        assert letter.error.startswith("ticdc-open: ")
        assert f"app:{letter.partition}:{letter.offset}" in letter.error


@pytest.mark.heavy
def test_stop_names_the_first_and_reads_no_further(
    spark: SparkSession, log: tuple[Path, Path, int], tmp_path: Path
) -> None:
    _, path, bad = log
    pipeline = definition(path, tmp_path / "lake")
    for _ in range(2):  # again: the same letters, not twice
        with pytest.raises(ProtocolError, match=rf"{bad} records could not be decoded, the first: ticdc-open: "):
            run(pipeline, spark, once=True)
        shown = status(pipeline).to_dict()
        assert (shown["dead_letters"], shown["cuts"], shown["counts"]["records"]) == (bad, [], 0)


@pytest.mark.heavy
def test_a_topic_of_another_protocol_is_all_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"topic": "t", "partition": 0, "offset": i, "key": b'{"id":1}', "value": b'{"op":"c"}'} for i in range(5)]
    record_log.write(tmp_path / "t.jsonl", [record_batch(rows)])
    assert record_batch(rows).schema == RECORDS
    pipeline = definition(tmp_path / "t.jsonl", tmp_path / "lake")
    with pytest.raises(ProtocolError, match=r'Is "protocol" right for this topic\?'):
        run(pipeline, spark, once=True)
