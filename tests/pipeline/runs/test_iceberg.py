"""Pipelines into Iceberg tables: exact cuts, through crashes, fences and other writers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table as IcebergTable

from changefeed import telemetry
from changefeed.errors import ConfigError, FencedError, SinkError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.operations.expire import expire
from changefeed.pipeline.operations.repair import repair, start_over
from changefeed.pipeline.run import run
from changefeed.pipeline.tables import open_tables
from tests.killed import Killed
from tests.pipeline.kit.history import HistoryBuilder, small_history
from tests.pipeline.kit.oracle import History, same_rows
from tests.pipeline.kit.running import SHOP, check_cuts, check_expected, definition, published
from tests.pipeline.kit.tables import canonical_rows, sink_rows
from tests.services.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POINTS = [
    *("stage.after", "begun.after", "load.after", "fence.after", "addcolumns.after", "upsert.after", "append.after"),
    *("rewrite.after", "create.after", "copy.after", "done.before"),
]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, History]:
    path, _ = small_history(tmp_path_factory.mktemp("history") / "app.jsonl")
    return path, History(path)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"partition-by": {"app.notes": ["truncate(2, note)"], "app.*": ["bucket(3, id)"]}, "write-mode": "merge-on-read"},
    {"format-version": 3, "write-mode": "merge-on-read"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "partitions", "version 3"])
def test_every_cut_of_a_small_history_is_exact(
    spark: SparkSession, log: tuple[Path, History], tmp_path: Path, options: dict[str, Any]
) -> None:
    pipeline = definition(log[0], tmp_path / "lake", limit=20, sink="iceberg", options=options)
    run(pipeline, spark, once=True)
    check_cuts(pipeline, log[1])


@pytest.mark.heavy
def test_the_shops_whole_history(spark: SparkSession, tmp_path: Path) -> None:
    log = SHOP / "ticdc-open" / "open-3.newarch.jsonl.gz"
    pipeline = definition(log, tmp_path / "lake", limit=1500, sink="iceberg")
    run(pipeline, spark, once=True)
    check_expected(pipeline, "final")
    check_cuts(pipeline, History(log))


@pytest.mark.heavy
def test_a_pipeline_that_ends_at_one_point_after_another_has_exact_cuts(
    spark: SparkSession, log: tuple[Path, History], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = definition(log[0], tmp_path / "lake", limit=20, parallelism=1, sink="iceberg")
    for point in POINTS:
        with monkeypatch.context() as patch:
            patch.setattr(telemetry, "on_pass", lambda name, point=point: _kill(name == point, name))
            with pytest.raises(Killed, match=point):
                run(pipeline, spark, once=True)
    assert run(pipeline, spark, once=True).epoch == len(POINTS) + 1
    check_cuts(pipeline, log[1])
    counts = published(pipeline)[-1].state.counts
    assert (counts.applied, counts.pending, counts.repeated) == (counts.rows - 1, 1, 0)


def _kill(is_point: bool, name: str) -> None:
    if is_point:
        raise Killed(name)


def test_a_run_that_was_taken_over_stops(
    spark: SparkSession, log: tuple[Path, History], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run starts while the first one stands before a write, and the first then goes on."""
    pipeline = definition(log[0], tmp_path / "lake", parallelism=1, sink="iceberg")
    inner, taken = telemetry.on_pass, list[str]()

    def on_pass(name: str) -> None:
        if name == "rewrite.before" and not taken:
            taken.append(name)
            monkeypatch.setattr(telemetry, "on_pass", inner)
            run(pipeline, spark, once=True)

    monkeypatch.setattr(telemetry, "on_pass", on_pass)
    with pytest.raises(FencedError, match=r"epoch 2 .* this run is epoch 1 and stops"):
        run(pipeline, spark, once=True)
    assert taken
    check_cuts(pipeline, log[1])


# Other programs.


@dataclass
class Foreign:
    """Another program that writes tables of a pipeline, through a catalog of its own."""

    pipeline: Definition

    @contextmanager
    def table(self, name: str) -> Iterator[IcebergTable]:
        catalog = load_catalog("changefeed", type="sql", uri=f"sqlite:///{self.pipeline.sink.path}/catalog.db")
        try:
            yield catalog.load_table(("app", name))
        finally:
            catalog.close()

    def append(self, name: str) -> None:
        with self.table(name) as table:
            table.append(pa.table({"n": pa.array([77], pa.int32()), "note": ["mine"]}))

    def roll_back(self, name: str) -> None:
        with self.table(name) as table:
            snapshots = table.manage_snapshots()
            snapshots.set_current_snapshot(snapshot_id=table.snapshots()[-2].snapshot_id).commit()

    def expire(self, name: str) -> None:
        """Only the newest snapshot stays, which is that of the append."""
        self.append(name)
        with self.table(name) as table:
            old = [snapshot.snapshot_id for snapshot in table.snapshots()[:-1]]
            table.maintenance.expire_snapshots().by_ids(old).commit()


def _notes(path: Path) -> tuple[Path, list[int]]:
    """Four steps of a table without a key; the commit_ts of each."""
    h, marks = HistoryBuilder(), list[int]()
    h.schema("app", "notes", "CREATE TABLE `app`.`notes` (`n` INT NOT NULL,`note` VARCHAR(20))")
    for step in range(4):
        h.rows(("notes", None, {"n": step, "note": f"step {step}"}))
        marks.append(h.resolved())
    return h.write(path), marks


STOPS = {
    "append": r"commit \d+ \(append\) was not made by this pipeline and changes the table",
    "roll_back": "the table lacks commits that the ledger has",
    "expire": "the table lacks commits that the ledger has",
}


@pytest.mark.heavy
@pytest.mark.parametrize("how", ["restore", "accept", "rebuild"])
@pytest.mark.parametrize("harm", STOPS)
def test_what_others_write_stops_the_run_and_is_repaired(
    harm: str, how: Literal["restore", "accept", "rebuild"], spark: SparkSession, tmp_path: Path
) -> None:
    log, marks = _notes(tmp_path / "app.jsonl")
    pipeline = definition(log, tmp_path / "lake", parallelism=1, sink="iceberg")
    for mark in marks[:2]:
        run(pipeline, spark, once=True, until=mark)
    getattr(Foreign(pipeline), harm)("notes")
    with pytest.raises(SinkError, match=f"{STOPS[harm]}.*changefeed repair"):
        run(pipeline, spark, once=True, until=marks[2])
    if (harm, how) == ("expire", "restore"):
        with pytest.raises(SinkError, match="it was expired"):
            repair(pipeline, spark, ["app.notes"], how)
        return
    repair(pipeline, spark, ["app.notes"], how)
    run(pipeline, spark, once=True)
    state = published(pipeline)[-1].state
    wanted = History(log).at(state.barrier)["notes"]
    if how == "accept":
        wanted = [row for row in wanted if harm != "roll_back" or row["n"] != 1]
        wanted = [*wanted, *([{"n": 77, "note": "mine"}] if harm != "roll_back" else [])]
    table = state.tables["app.notes"]
    assert not (difference := same_rows(sink_rows(pipeline, table.path, table.version, table.table), wanted)), (
        difference
    )


def test_all_tables_are_rebuilt_over_the_old_ones(
    spark: SparkSession, log: tuple[Path, History], tmp_path: Path
) -> None:
    pipeline = definition(log[0], tmp_path / "lake", parallelism=1, sink="iceberg")
    run(pipeline, spark, once=True)
    start_over(pipeline, spark)
    run(pipeline, spark, once=True)
    state = published(pipeline)[-1].state
    wanted = log[1].at(state.barrier)
    assert sorted(table.table.name for table in state.tables.values()) == sorted(wanted)
    for table in state.tables.values():
        actual = sink_rows(pipeline, table.path, table.version, table.table)
        assert not (difference := same_rows(actual, wanted[table.table.name])), f"{table.path}: {difference}"


def test_each_cut_has_a_tag_in_every_table(spark: SparkSession, log: tuple[Path, History], tmp_path: Path) -> None:
    """Those of the newest cuts stay; a run that ended before it had set them sets them when it begins again."""
    lake = tmp_path / "lake"
    made = definition(log[0], lake, limit=20, sink="iceberg")
    pipeline = made.model_copy(update={"sink": made.sink.model_copy(update={"cut_tags": 2})})
    run(pipeline, spark, once=True)
    *_, before, last = published(pipeline)
    for name, table in last.state.tables.items():
        with Foreign(pipeline).table(table.path.partition("/")[2]) as opened:
            tags = {tag for tag in opened.metadata.refs if tag != "main"}
            cuts = {f"cut-{cut.state.barrier}" for cut in (before, last) if name in cut.state.tables}
            assert tags == cuts
            snapshot = opened.snapshot_by_name(f"cut-{last.state.barrier}")
            assert snapshot is not None
            assert snapshot.snapshot_id == table.version
            opened.manage_snapshots().remove_tag(f"cut-{last.state.barrier}").commit()
    run(pipeline, spark, once=True)
    for table in last.state.tables.values():
        with Foreign(pipeline).table(table.path.partition("/")[2]) as opened:
            snapshot = opened.snapshot_by_name(f"cut-{last.state.barrier}")
            assert snapshot is not None
            assert snapshot.snapshot_id == table.version


def test_tables_that_no_cut_needs_are_deleted_with_their_names(spark: SparkSession, tmp_path: Path) -> None:
    h, marks = HistoryBuilder(), list[int]()
    for table in ("notes", "drafts"):
        h.schema("app", table, f"CREATE TABLE `app`.`{table}` (`n` INT NOT NULL,`note` VARCHAR(20))")
        h.rows((table, None, {"n": 1, "note": "one"}))
    marks.append(h.resolved())
    h.schema("app", "drafts", "DROP TABLE `app`.`drafts`")
    h.resolved()
    pipeline = definition(h.write(tmp_path / "app.jsonl"), tmp_path / "lake", sink="iceberg")
    run(pipeline, spark, once=True, until=marks[0])
    run(pipeline, spark, once=True)
    assert sorted(open_tables(pipeline).tables()) == ["app/drafts", "app/notes"]
    expiry = expire(pipeline, timedelta(0))
    assert expiry.deleted == ("app/drafts",)
    assert list(open_tables(pipeline).tables()) == ["app/notes"]
    assert not (tmp_path / "lake" / "app" / "drafts").exists()


@pytest.mark.nightly
def test_a_pipeline_on_s3_that_ends_at_one_point_after_another_has_exact_cuts(
    spark: SparkSession,
    s3: S3Server,
    log: tuple[Path, History],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    made = definition(log[0], tmp_path, limit=20, parallelism=1, sink="iceberg")
    own = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    sink = made.sink.model_copy(update={"path": f"s3://lake/{uuid4().hex}", "catalog_properties": own})
    pipeline = made.model_copy(update={"sink": sink, "storage": s3.storage()})
    for point in POINTS:
        with monkeypatch.context() as patch:
            patch.setattr(telemetry, "on_pass", lambda name, point=point: _kill(name == point, name))
            with pytest.raises(Killed, match=point):
                run(pipeline, spark, once=True)
    run(pipeline, spark, once=True)
    repair(pipeline, spark, ["app.notes"], "rebuild")
    tables = load_catalog(
        "changefeed", **own,
        **{"s3.endpoint": s3.url, "s3.region": "us-east-1", "s3.access-key-id": s3.keys[0], "s3.secret-access-key": s3.keys[1]},
    )  # fmt: skip
    cuts = published(pipeline)
    for cut in cuts:
        wanted = log[1].at(cut.state.barrier)
        for table in cut.state.tables.values():
            rows = tables.load_table(tuple(table.path.split("/"))).scan(snapshot_id=table.version).to_arrow()
            difference = same_rows(canonical_rows(rows, table.table), wanted[table.table.name])
            assert not difference, f"{table.path} at {cut.state.barrier}: {difference}"
    tables.close()
    assert len(cuts) > 2


def test_a_table_of_others_is_adopted_with_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    log, _ = _notes(tmp_path / "app.jsonl")
    (tmp_path / "lake" / "app" / "notes").mkdir(parents=True)
    made = definition(log, tmp_path / "lake", sink="iceberg")
    catalog = load_catalog("changefeed", type="sql", uri=f"sqlite:///{tmp_path}/lake/catalog.db")
    catalog.create_namespace("app")
    rows = pa.table({"n": pa.array([77], pa.int32()), "note": ["mine"]})
    catalog.create_table(("app", "notes"), rows.schema, location=f"file://{tmp_path}/lake/app/notes").append(rows)
    catalog.close()
    with pytest.raises(ConfigError, match=r"app/notes is a table that this pipeline has not written"):
        run(made, spark, once=True)
    pipeline = made.model_copy(update={"sink": made.sink.model_copy(update={"adopt": ["app.*"]})})
    run(pipeline, spark, once=True)
    state = published(pipeline)[-1].state
    table, wanted = state.tables["app.notes"], History(log).at(state.barrier)["notes"]
    actual = sink_rows(pipeline, table.path, table.version, table.table)
    assert not (difference := same_rows(actual, [{"n": 77, "note": "mine"}, *wanted])), difference
