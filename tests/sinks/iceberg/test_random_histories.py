"""Random histories of whole pipelines into Iceberg tables on disk, without Spark.

The pipelines are those of `test_crashes_in_memory.py`: tables that are created, changed and dropped, partial images, tables
without a key; runs that end anywhere, and runs of one pipeline at the same time. Every published cut is compared with the
upstream's tables. Histories take turns with the options about tables.

`CHANGEFEED_ICEBERG_HISTORIES` is their number; `CHANGEFEED_SEED` repeats a seed, which every failure prints.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from changefeed import telemetry
from changefeed.sinks.apply.compaction import CompactionRules
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.iceberg.catalog import TableCatalog
from changefeed.sinks.iceberg.partition_fields import parsed
from changefeed.sinks.iceberg.sink import IcebergTables, TableOptions
from changefeed.storage.local import LocalFolder
from tests.pipeline import in_memory
from tests.pipeline.in_memory import Storage
from tests.pipeline.random_crashes import end_anywhere, interleave
from tests.pipeline.random_runs import Pipeline, history, logs_of
from tests.sinks.contract import Row

HISTORIES = int(os.environ.get("CHANGEFEED_ICEBERG_HISTORIES", "4"))
_RULES = CompactionRules(many=4, every=2)
OPTIONS = [
    TableOptions(),
    TableOptions(lambda table: (parsed("bucket(2, id)"),), merges_on_read=True),
    TableOptions(format_version=3, merges_on_read=True, compaction=_RULES),
    TableOptions(lambda table: (parsed("truncate(5, id)"),), format_version=3),
]
Make = Callable[[int], tuple[Pipeline, Random]]

pytestmark = [pytest.mark.slow, pytest.mark.heavy, pytest.mark.parametrize("consistency", ["transaction", "key"])]


@dataclass
class Disk:
    """A folder of tables, used like a `Lake`; every run opens it again."""

    folder: Path
    options: TableOptions

    @property
    def _catalog(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self.folder}/catalog.db"}

    def sink(self) -> IcebergTables:
        folder = LocalFolder(str(self.folder))
        catalog = TableCatalog("test", self._catalog, "{database}", folder, f"file://{folder.path}")
        return IcebergTables(catalog, limits=Limits(least_marked=0), options=self.options)

    def rows(self, path: str, version: int | None = None) -> list[Row]:
        catalog = load_catalog("test", **self._catalog)
        try:
            table = catalog.load_table(tuple(path.split("/")))
            rows: list[Row] = table.scan(snapshot_id=version).to_arrow().to_pylist()
            return rows
        finally:
            catalog.close()


@pytest.fixture
def make(consistency: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """The pipeline of a history by its number, on a folder of its own."""
    seed = int(os.environ.get("CHANGEFEED_SEED") or (1 if os.environ.get("CI") else secrets.randbelow(2**40)))
    print("seed", seed)
    monkeypatch.setattr(in_memory, "MemorySink", lambda disk: disk.sink())

    def pipeline(number: int) -> tuple[Pipeline, Random]:
        random = Random(f"{seed} {consistency} {number}")
        upstream = history(random, random.randint(10, 50), partial=number % 2 == 0, moves=consistency != "key")
        disk: Any = Disk(tmp_path / str(number), OPTIONS[number % len(OPTIONS)])
        logs = logs_of(upstream, random.randint(1, 3), random)
        return Pipeline(upstream, logs, consistency, storage=Storage(tables=disk)), random

    return pipeline


def test_runs_that_end_anywhere(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(HISTORIES):
        pipeline, random = make(number)
        end_anywhere(pipeline, random, partial(monkeypatch.setattr, telemetry, "on_pass"))


def test_two_or_three_runs_at_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs move from failpoint to failpoint in random order, some are killed; one of them reaches the end."""
    for number in range(HISTORIES):
        pipeline, random = make(number)
        interleave(pipeline, random, partial(monkeypatch.setattr, telemetry, "on_pass"))
