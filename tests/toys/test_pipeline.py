"""A whole pipeline of the modules beside this file, as a definition names them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.toys.lake import LakeSink
from tests.toys.two_runs import SALES, history, load, rows, run_twice
from tests.toys.writing import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

YAML = """
source: {type: tests.toys.lines, path: lines, protocol: ticdc-open}
sink: {type: tests.toys.lake, path: lake}
ledger: {type: tests.toys.sqlite_store, path: ledger.sqlite}
pipeline: {name: own, dead-letters: continue}
"""


def test_a_pipeline_runs_from_ones_own_source_into_ones_own_sink(tmp_path: Path, spark: SparkSession) -> None:
    records, last = history(tmp_path)
    pipeline = load(tmp_path, YAML)
    damaged = {**records[0], "value": b"not a message"}
    summary = run_twice(pipeline, spark, [*records, damaged], partial(write, tmp_path / "lines"))

    assert summary.commit_ts == last
    assert not (tmp_path / "lake" / "_changefeed" / "ledger").exists()
    assert rows(LakeSink(tmp_path / "lake"), summary) == {
        "app.sales": SALES,
        "app.notes": [{"n": 9, "note": "after"}],
        "app.drafts": [],
    }

    status = pipeline.status()
    assert status.cut is not None
    assert (status.epoch, status.cut.commit_ts) == (2, last)
    assert [letter.reason for letter in pipeline.dead_letters()] == ["truncated"]

    name, lake = "app.sales", LakeSink(tmp_path / "lake")
    path = summary.tables[name].path
    lake.delete(path)
    assert pipeline.repair([name], "rebuild", spark=spark).tables == (name,)
    rebuilt = lake.snapshot(path)
    assert rebuilt is not None
    assert sorted(lake.rows(path, lake.read(path, rebuilt.revision)), key=repr) == sorted(SALES, key=repr)
    assert pipeline.status().epoch == 3, "the rebuild has a ledger of its own"
