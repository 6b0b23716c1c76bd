"""A whole pipeline of the modules beside this file, as a definition names them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import changefeed as cf
from changefeed import record_log
from tests.pipeline.history import small_history
from tests.toys.lake import LakeSink
from tests.toys.test_lines import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

YAML = """
source: {type: tests.toys.lines, path: lines, protocol: ticdc-open}
sink: {type: tests.toys.lake, path: lake}
ledger: {type: tests.toys.sqlite_store, path: ledger.sqlite}
pipeline: {name: own, dead-letters: continue}
"""
SALES = [{"id": i, "note": None} for i in (0, 4, 5)] + [
    {"id": 1, "note": "dear"}, {"id": 7, "note": "sold"}, {"id": 8, "note": "more"}, {"id": 30, "note": "moved"},
]  # fmt: skip


def test_a_pipeline_runs_from_ones_own_source_into_ones_own_sink(tmp_path: Path, spark: SparkSession) -> None:
    log, marks = small_history(tmp_path / "history.jsonl")
    records = [row for batch in record_log.read(log) for row in batch.to_pylist()]
    (tmp_path / "pipeline.yaml").write_text(YAML)
    pipeline = cf.Pipeline.load(tmp_path / "pipeline.yaml")
    write(tmp_path / "lines", records[:25])
    first = pipeline.run(spark)
    write(tmp_path / "lines", [*records[25:], {**records[0], "value": b"not a message"}])
    second = pipeline.run(spark)

    assert (first.epoch, second.epoch, second.commit_ts) == (1, 2, marks[-1])
    assert not (tmp_path / "lake" / "_changefeed" / "ledger").exists()
    lake = LakeSink(tmp_path / "lake")
    rows = {}
    for name, table in second.tables.items():
        assert table.version is not None
        rows[name] = lake.rows(table.path, lake.read(table.path, table.version))
    assert sorted(rows.pop("app.sales"), key=lambda row: (row["note"] is not None, row["id"])) == SALES
    assert rows == {"app.notes": [{"n": 9, "note": "after"}], "app.drafts": []}

    status = pipeline.status()
    assert status.cut is not None
    assert (status.epoch, status.cut.commit_ts) == (2, marks[-1])
    assert [letter.reason for letter in pipeline.dead_letters()] == ["truncated"]
