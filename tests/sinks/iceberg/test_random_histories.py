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
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from changefeed import telemetry
from changefeed.errors import SinkError
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
from tests.services.fault_proxy import FaultProxy, Request, reset, truncate
from tests.services.rest_catalog import RestCatalog
from tests.sinks.contract import Row
from tests.sinks.iceberg.rest_faults import DONE, UNDONE, refused

HISTORIES = int(os.environ.get("CHANGEFEED_ICEBERG_HISTORIES", "4"))
_RULES = CompactionRules(many=4, every=2)
OPTIONS = [
    TableOptions(),
    TableOptions(lambda table: (parsed("bucket(2, id)"),), merges_on_read=True),
    TableOptions(format_version=3, merges_on_read=True, compaction=_RULES),
    TableOptions(lambda table: (parsed("truncate(5, id)"),), format_version=3),
]
Make = Callable[..., tuple[Pipeline, Random]]

pytestmark = [pytest.mark.slow, pytest.mark.heavy, pytest.mark.parametrize("consistency", ["transaction", "key"])]


@dataclass
class Disk:
    """A folder of tables, used like a `Lake`; every run opens it again.

    Attributes:
        folder: the folder.
        options: of the tables.
        catalog: the catalog's properties; by default it is a database in the folder.
        uri: where the tables are read, if not where they are written.
    """

    folder: Path
    options: TableOptions
    catalog: dict[str, str] = field(default_factory=dict)
    uri: str | None = None

    def __post_init__(self) -> None:
        self.catalog = self.catalog or {"type": "sql", "uri": f"sqlite:///{self.folder}/catalog.db"}

    @property
    def _prefix(self) -> str:
        """The prefix of namespaces: histories may share a catalog."""
        return f"t{sha256(str(self.folder).encode()).hexdigest()}_"

    def sink(self) -> IcebergTables:
        folder = LocalFolder(str(self.folder))
        catalog = TableCatalog("test", self.catalog, self._prefix + "{database}", folder, f"file://{folder.path}")
        return IcebergTables(catalog, limits=Limits(least_marked=0), options=self.options)

    def rows(self, path: str, version: int | None = None) -> list[Row]:
        catalog = load_catalog("test", **{**self.catalog, **({"uri": self.uri} if self.uri else {})})
        try:
            table = catalog.load_table(self._prefix + path.replace("/", "."))
            rows: list[Row] = table.scan(snapshot_id=version).to_arrow().to_pylist()
            return rows
        finally:
            catalog.close()


@pytest.fixture
def make(consistency: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """The pipeline of a history by its number, on a folder of its own, with a catalog of its own or with a given one."""
    seed = int(os.environ.get("CHANGEFEED_SEED") or (1 if os.environ.get("CI") else secrets.randbelow(2**40)))
    print("seed", seed)
    monkeypatch.setattr(in_memory, "MemorySink", lambda disk: disk.sink())

    def pipeline(number: int, **catalog: Any) -> tuple[Pipeline, Random]:
        random = Random(f"{seed} {consistency} {number}")
        upstream = history(random, random.randint(10, 50), partial=number % 2 == 0, moves=consistency != "key")
        disk: Any = Disk(tmp_path / str(number), OPTIONS[number % len(OPTIONS)], **catalog)
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


def test_a_rest_catalog_that_fails_at_random(make: Make, rest_catalog: RestCatalog) -> None:
    """Every fifth commit and every hundredth question meets a fault; a run that ends with a transient error runs again."""
    commits, questions = [*DONE.values(), *UNDONE.values()], [reset, truncate, refused(503, "SlowDownException")]
    for number in range(HISTORIES):
        with FaultProxy(rest_catalog.url) as proxy:
            catalog = {"type": "rest", "uri": proxy.url}
            pipeline, random = make(number, catalog=catalog, uri=rest_catalog.url)

            def fails(request: Request, random: Random = random) -> None:
                rate, faults = (0.2, commits) if request.method == "POST" else (0.01, questions)
                random.choice(faults)(request) if random.random() < rate else request.answer(request.forward())

            proxy.add(fails, path="/tables/", times=None)
            for _ in range(50):
                try:
                    pipeline.run(random)
                    break
                except SinkError as error:
                    if not error.transient:
                        raise
            pipeline.check()
