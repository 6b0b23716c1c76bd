"""The measurements: sound records, and every line that is promised."""

from __future__ import annotations

import json

import pytest

from changefeed.bench import workload
from changefeed.bench.decode import run
from changefeed.kernel import decoder


def test_the_workload_is_the_same_for_the_same_seed() -> None:
    assert workload.records(50).equals(workload.records(50))
    assert not workload.records(50).equals(workload.records(50, seed=2))


@pytest.mark.parametrize("rows_in_record", [1, 16])
def test_the_workload_is_sound_rows_of_both_producers(rows_in_record: int) -> None:
    records = workload.records(1000, rows_in_record=rows_in_record).combine_chunks().to_batches()[0]
    assert len(records) == -(-1000 // rows_in_record)
    decoded = decoder("ticdc-open", kernel="off").decode(records)
    assert not decoded.dead
    assert [len(table) for table in decoded.tables] == [500, 500]
    assert {op for table in decoded.tables for op in table.rows.column("op").to_pylist()} == {
        "insert",
        "update",
        "delete",
    }
    size = sum(map(len, records.column("value").to_pylist())) / 1000
    assert 400 < size < 480


def test_every_way_to_decode_is_measured() -> None:
    measured = [json.loads(line) for line in run(1000, spark=False, json=True)]
    ways = ["json.loads", "msgspec", "reference", "kernel"]
    assert [(m["what"], m["rows_in_record"]) for m in measured] == [(w, n) for n in (1, 16) for w in ways]
    assert all(m["rows_per_second"] > 0 for m in measured)
    assert len(run(1000, spark=False)) == 1 + len(measured) + 1 + 3
