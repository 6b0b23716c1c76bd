"""A pipeline of the toys that reads a small history in two runs, and the rows that its tables then have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import changefeed as cf
from changefeed import record_log
from tests.pipeline.kit.history import small_history
from tests.toys.lake import LakeSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]

_FIRST = 25  # records of the first run
SALES = [{"id": i, "note": None} for i in (0, 4, 5)] + [
    {"id": 1, "note": "dear"}, {"id": 7, "note": "sold"}, {"id": 8, "note": "more"}, {"id": 30, "note": "moved"},
]  # fmt: skip


def history(folder: Path) -> tuple[list[Row], int]:
    """Returns the records of the small history, and the commit_ts of its last resolved event."""
    log, marks = small_history(folder / "history.jsonl")
    return [row for batch in record_log.read(log) for row in batch.to_pylist()], marks[-1]


def load(folder: Path, yaml: str) -> cf.Pipeline:
    """Writes a definition to a folder, and loads it."""
    (folder / "pipeline.yaml").write_text(yaml)
    return cf.Pipeline.load(folder / "pipeline.yaml")


def run_twice(
    pipeline: cf.Pipeline, spark: SparkSession, records: list[Row], arrive: Callable[[list[Row]], None]
) -> cf.Summary:
    """Runs a pipeline after the first records have arrived, and again after the rest; returns the second run's summary."""
    arrive(records[:_FIRST])
    first = pipeline.run(spark)
    arrive(records[_FIRST:])
    second = pipeline.run(spark)
    assert (first.epoch, second.epoch) == (1, 2)
    return second


def rows(lake: LakeSink, summary: cf.Summary) -> dict[str, list[Row]]:
    """Returns the rows of each table at the end of a run; those of `app.sales` in the order of `SALES`."""
    tables = {}
    for name, table in summary.tables.items():
        assert table.version is not None
        tables[name] = lake.rows(table.path, lake.read(table.path, table.version))
    tables["app.sales"].sort(key=lambda row: (row["note"] is not None, row["id"]))
    return tables
