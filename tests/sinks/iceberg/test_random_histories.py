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
from threading import Lock
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from sqlalchemy.exc import OperationalError

from changefeed import telemetry
from changefeed.errors import SinkError
from changefeed.sinks.apply.compaction import CompactionRules
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.iceberg.catalog import TableCatalog
from changefeed.sinks.iceberg.options import TableOptions
from changefeed.sinks.iceberg.partition_fields import parsed
from changefeed.sinks.iceberg.sink import IcebergTables
from changefeed.sinks.iceberg.sort_fields import parsed_sort_field
from changefeed.sinks.iceberg.version_3 import writes_version_3
from changefeed.storage.local import LocalFolder
from tests.pipeline.kit import in_memory
from tests.pipeline.kit.in_memory import Storage
from tests.pipeline.kit.random_crashes import end_anywhere, interleave
from tests.pipeline.kit.random_runs import Pipeline, history, logs_of
from tests.services.fault_proxy import FaultProxy, Request, reset, truncate
from tests.services.rest_catalog import RestCatalog
from tests.sinks.contract import Row
from tests.sinks.iceberg.rest_faults import DONE, UNDONE, refused

HISTORIES = int(os.environ.get("CHANGEFEED_ICEBERG_HISTORIES", "4"))
_RULES = CompactionRules(many=4, every=2)
_ORDER = tuple(map(parsed_sort_field, ("c0 desc nulls first", "c1", "id")))  # DDL drops and renames c0 and c1
OPTIONS = [
    TableOptions(),
    TableOptions(lambda table: (parsed("bucket(2, id)"),), merges_on_read=True),
    TableOptions(format_version=3, merges_on_read=True, compaction=_RULES, sort_fields=lambda table: _ORDER),
    TableOptions(lambda table: (parsed("truncate(5, id)"),), format_version=3, sort_fields=lambda table: _ORDER),
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
        meddled: number of commits of `meddle`.
    """

    folder: Path
    options: TableOptions
    catalog: dict[str, str] = field(default_factory=dict)
    uri: str | None = None
    meddled: int = 0

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

    def meddle(self, random: Random) -> None:
        """Commits to a table as another program may, without changing rows; another commit may come first."""
        if not (self.folder / "catalog.db").exists():
            return
        catalog = writes_version_3(load_catalog("test", **self.catalog))
        try:
            names = [name for space in catalog.list_namespaces() for name in catalog.list_tables(space)]
            if not names:
                return
            table, mark = catalog.load_table(random.choice(names)), f"m{random.randrange(10**9)}"
            match random.randrange(3):
                case 0:
                    with table.transaction() as change:
                        change.set_properties({"comment": mark})
                case 1:
                    if (snapshot := table.current_snapshot()) is not None:
                        table.manage_snapshots().create_tag(snapshot.snapshot_id, mark).commit()
                case _:
                    with table.update_schema() as columns:
                        columns.update_column(table.schema().fields[0].name, doc=mark)
            self.meddled += 1
        except (CommitFailedException, NoSuchTableError, FileNotFoundError, OperationalError):
            return
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


def test_other_programs_commit_while_runs_go_on(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Properties, tags and comments of columns, at one failpoint in five: every cut is as exact as without them."""
    for number in range(HISTORIES):
        pipeline, random = make(number)
        disk: Any = pipeline.storage.tables
        others, lock = Random(random.random()), Lock()

        def passed(name: str, disk: Disk = disk, others: Random = others, lock: Any = lock) -> None:
            with lock:
                if others.random() < 0.2:
                    disk.meddle(others)

        for _ in range(10):
            monkeypatch.setattr(telemetry, "on_pass", passed)
            try:
                pipeline.run(random)
                break
            except SinkError as error:
                if not error.transient:
                    raise
        monkeypatch.setattr(telemetry, "on_pass", None)
        pipeline.check()
        assert disk.meddled


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
