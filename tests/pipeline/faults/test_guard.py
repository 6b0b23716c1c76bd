"""Tables, ledger or pending store are not as the pipeline left them: the run stops with the path and a way out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from changefeed import record_log, telemetry
from changefeed.errors import ConfigError, FencedError, SinkError
from changefeed.model.batch import record_batch
from changefeed.model.definition import Table
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.operations.explain import explain
from changefeed.pipeline.operations.repair import check_rebuild, repair, start_over
from changefeed.pipeline.run import run
from changefeed.pipeline.state import Hold, State, TableState
from changefeed.sinks.memory import Lake, MemorySink, Version
from changefeed.sinks.ways_out import TABLE_CHANGED
from tests.examples import by_turns
from tests.killed import Killed
from tests.pipeline.kit.history import HistoryBuilder, small_history
from tests.pipeline.kit.oracle import History, same_rows
from tests.pipeline.kit.running import check_cuts, definition, published
from tests.pipeline.kit.tables import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    return small_history(tmp_path_factory.mktemp("history") / "app.jsonl")


@pytest.fixture(scope="module")
def begun(spark: SparkSession, log: tuple[Path, list[int]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sink with the first cut; tests take copies of it."""
    lake = tmp_path_factory.mktemp("begun") / "lake"
    run(definition(log[0], lake, parallelism=1), spark, once=True, until=log[1][0])
    return lake


@pytest.fixture
def pipeline(spark: SparkSession, begun: Path, log: tuple[Path, list[int]], tmp_path: Path) -> Definition:
    """A pipeline that has published its first cut."""
    shutil.copytree(begun, tmp_path / "lake")
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    return definition(log[0], tmp_path / "lake", parallelism=1)


def _lake(pipeline: Definition) -> Path:
    return Path(pipeline.sink.path)


def _is_right(pipeline: Definition, log: Path) -> None:
    """Asserts that the tables of the newest cut are the history's at its barrier."""
    state = published(pipeline)[-1].state
    wanted = History(log).at(state.barrier)
    assert sorted(t.table.name for t in state.tables.values()) == sorted(wanted)
    for current in state.tables.values():
        actual = rows(f"{pipeline.sink.path}/{current.path}", current.version, current.table)
        assert not (difference := same_rows(actual, wanted[current.table.name])), f"{current.table.name}: {difference}"


def _notes(pipeline: Definition) -> Path:
    return _lake(pipeline) / "app" / "notes"


FOREIGN = "commit 1 (WRITE) was not made by this pipeline and changes the table"


def _gone(pipeline: Definition) -> None:
    shutil.rmtree(_notes(pipeline))


def _log_gone(pipeline: Definition) -> None:
    shutil.rmtree(_notes(pipeline) / "_delta_log")


def _last_commit_gone(pipeline: Definition) -> None:
    log = _notes(pipeline) / "_delta_log"
    last = sorted(log.glob("*.json"))[-1]
    last.unlink()
    for beside in log.glob(f"*{last.stem}*"):
        beside.unlink()


def _data_file_gone(pipeline: Definition) -> None:
    next(_notes(pipeline).glob("part-*.parquet")).unlink()


def _foreign_row(pipeline: Definition) -> None:
    write_deltalake(_notes(pipeline), pa.table({"n": pa.array([77], pa.int32()), "note": ["mine"]}), mode="append")


def _foreign_column(pipeline: Definition) -> None:
    more = pa.table({"n": pa.array([77], pa.int32()), "note": ["mine"], "more": [1]})
    write_deltalake(_notes(pipeline), more, mode="append", schema_mode="merge")


def _other_table(pipeline: Definition) -> None:
    shutil.rmtree(_notes(pipeline))
    write_deltalake(_notes(pipeline), pa.table({"n": pa.array([77], pa.int32()), "note": ["mine"]}))


@pytest.mark.heavy
@pytest.mark.parametrize(
    "damage, fault",
    by_turns(
        [
            pytest.param(_gone, "the table is gone"),
            pytest.param(_log_gone, "the table is gone"),
            pytest.param(_last_commit_gone, ""),
            pytest.param(_data_file_gone, "data files are gone or damaged (1, the first is part-"),
            pytest.param(_foreign_row, FOREIGN),
            pytest.param(_foreign_column, FOREIGN),
            pytest.param(_other_table, "this is not the table that the pipeline wrote"),
        ],
        4,
    ),
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_table_that_is_not_the_ledgers_stops_the_run_until_it_is_rebuilt(
    damage: Callable[[Definition], None], fault: str, pipeline: Definition, spark: SparkSession, log: tuple[Path, Any]
) -> None:
    damage(pipeline)
    for _ in range(2):
        with pytest.raises(SinkError) as error:
            run(pipeline, spark, once=True)
        assert f"{_notes(pipeline)}: {fault}" in str(error.value)
        assert TABLE_CHANGED in str(error.value)
    repair(pipeline, spark, ["app.notes"], "rebuild")
    run(pipeline, spark, once=True)
    _is_right(pipeline, log[0])


NOTES = TableState(Table("app", "notes", ()), "app/notes", True)
THERE = MemorySink(Lake({"app/notes": [Version({}, ())]}))
ADOPTED = (
    "app.notes was adopted (sink.adopt): a rebuild would lose the rows that it had before this pipeline, so restore it "
    "(changefeed repair --restore), or move memory:app/notes away to rebuild it without them"
)


@pytest.mark.parametrize(
    "state, adopt, message",
    [
        (
            State(), [],
            "with consistency `key` there is no point up to which a single table could be rebuilt: rebuild all tables",
        ),
        (
            State(barrier=5, held={"app.notes": Hold(3)}), [],
            "app.notes is held, so a rebuild would not end where the table does: restore it, and replay its dead letters if it "
            "is quarantined (changefeed dlq replay)",
        ),
        (
            State(barrier=5, tables={"app.notes": NOTES}), ["app.*"],
            "app.notes is in sink.adopt: a rebuild would lose the rows that it may have from before this pipeline, so restore it "
            "(changefeed repair --restore), or take it out of sink.adopt if it has none",
        ),
        (
            State(barrier=5, tables={"app.notes": replace(NOTES, adopted=True)}), [], ADOPTED,
        ),
    ],
    ids=["key", "held", "in sink.adopt", "adopted before"],
)  # fmt: skip
def test_a_table_that_the_source_may_not_have_is_not_rebuilt(
    state: State, adopt: list[str], message: str, tmp_path: Path
) -> None:
    pipe = definition(tmp_path / "app.jsonl", tmp_path / "lake")
    pipe = pipe.model_copy(update={"sink": pipe.sink.model_copy(update={"adopt": adopt})})
    with pytest.raises(ConfigError) as error:
        check_rebuild(pipe, state, ["app.notes"], THERE)
    assert str(error.value) == message


@pytest.mark.heavy
def test_a_table_is_rebuilt_while_another_one_is_quarantined(
    spark: SparkSession, log: tuple[Path, list[int]], tmp_path: Path
) -> None:
    """It may be quarantined at another point when the source is read again: here the batches are larger."""
    records = [row for batch in record_log.read(log[0]) for row in batch.to_pylist()]
    damaged = [i for i, record in enumerate(records) if record["key"] and b'"tbl":"orders","t":1' in record["key"]][-1]
    records[damaged]["value"] = records[damaged]["value"][:-5]
    record_log.write(tmp_path / "app.jsonl", [record_batch(records)])
    pipeline = definition(tmp_path / "app.jsonl", tmp_path / "lake", limit=10, dead_letters="quarantine")
    run(pipeline, spark, once=True)
    before = published(pipeline)[-1].state
    assert "app.orders" in before.quarantined()
    current = before.tables["app.notes"]
    wanted = rows(_notes(pipeline), current.version, current.table)
    _foreign_row(pipeline)
    larger = definition(tmp_path / "app.jsonl", tmp_path / "lake", dead_letters="quarantine")
    repair(larger, spark, ["app.notes"], "rebuild")
    assert not same_rows(rows(_notes(pipeline), None, current.table), wanted)


def test_the_folder_of_a_killed_repair_is_deleted_by_the_next_run(pipeline: Definition, spark: SparkSession) -> None:
    own, digits = _lake(pipeline) / "_changefeed", "0123456789abcdef" * 2
    kept = {f"rebuild-000099-{digits}", "rebuild-mine"}  # of a newer repair, and of somebody else
    for name in {f"rebuild-000001-{digits}", f"rebuild-{digits}", *kept}:
        (own / name / "app" / "notes").mkdir(parents=True)
    run(pipeline, spark, once=True)
    assert {path.name for path in own.glob("rebuild-*")} == kept


@pytest.mark.heavy
def test_foreign_rows_go_with_restore_and_stay_with_accept(
    pipeline: Definition, spark: SparkSession, log: tuple[Path, list[int]]
) -> None:
    _foreign_row(pipeline)
    with pytest.raises(SinkError):
        run(pipeline, spark, once=True)
    repair(pipeline, spark, ["app.notes"], "accept")
    run(pipeline, spark, once=True, until=log[1][1])
    current = published(pipeline)[-1].state.tables["app.notes"]
    assert "mine" in [row["note"] for row in rows(str(_notes(pipeline)), current.version, current.table)]
    _foreign_row(pipeline)
    repair(pipeline, spark, ["app.notes"], "restore")
    run(pipeline, spark, once=True)
    _is_right(pipeline, log[0])  # it was truncated since


def test_maintenance_by_others_does_not_stop_the_run(
    pipeline: Definition, spark: SparkSession, log: tuple[Path, Any]
) -> None:
    for name in ("notes", "orders"):
        table = DeltaTable(_lake(pipeline) / "app" / name)
        table.optimize.compact()
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    spark.sql(f"ALTER TABLE delta.`{_notes(pipeline)}` SET TBLPROPERTIES ('delta.logRetentionDuration' = '9 days')")
    run(pipeline, spark, once=True)
    _is_right(pipeline, log[0])


@pytest.mark.heavy
def test_a_table_that_may_only_be_appended_to_stops_the_run_until_it_may_be_changed(
    pipeline: Definition, spark: SparkSession, log: tuple[Path, list[int]]
) -> None:
    orders = f"delta.`{_lake(pipeline) / 'app' / 'orders'}`"
    spark.sql(f"ALTER TABLE {orders} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with pytest.raises(SinkError, match=r"orders: its property delta.appendOnly forbids updates and deletes"):
        run(pipeline, spark, once=True)
    spark.sql(f"ALTER TABLE {orders} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    run(pipeline, spark, once=True)
    _is_right(pipeline, log[0])


def test_maintenance_whose_log_was_cleaned_up_names_the_way_to_go_on(
    pipeline: Definition, spark: SparkSession, log: tuple[Path, list[int]]
) -> None:
    commits = _notes(pipeline) / "_delta_log"
    before = {path.name for path in commits.glob("*.json")}
    table = DeltaTable(_notes(pipeline))
    write_deltalake(table, pa.table({"n": pa.array([], pa.int32()), "note": pa.array([], pa.string())}), mode="append")
    DeltaTable(_notes(pipeline)).create_checkpoint()
    for path in commits.glob("*.json"):
        if path.name not in before:
            path.unlink()
    with pytest.raises(SinkError, match=r"commit \d+ is missing .* If only OPTIMIZE, VACUUM .* repair --accept"):
        run(pipeline, spark, once=True)
    repair(pipeline, spark, ["app.notes"], "accept")
    run(pipeline, spark, once=True)
    _is_right(pipeline, log[0])


@pytest.mark.heavy
def test_a_restored_table_stops_the_run(pipeline: Definition, spark: SparkSession, log: tuple[Path, list[int]]) -> None:
    run(pipeline, spark, once=True, until=log[1][1])
    DeltaTable(_notes(pipeline)).restore(0)
    with pytest.raises(
        SinkError, match=r"notes: commit \d+ \(RESTORE\) was not made by this pipeline and changes the table"
    ):
        run(pipeline, spark, once=True)
    repair(pipeline, spark, ["app.notes"], "restore")
    run(pipeline, spark, once=True)
    check_cuts(pipeline, History(log[0]))


def test_a_ledger_older_than_its_tables_stops_the_run(
    pipeline: Definition, spark: SparkSession, log: tuple[Path, list[int]], tmp_path: Path
) -> None:
    shutil.copytree(_lake(pipeline) / "_changefeed", tmp_path / "backup")
    run(pipeline, spark, once=True, until=log[1][1])
    shutil.rmtree(_lake(pipeline) / "_changefeed")
    shutil.copytree(tmp_path / "backup", _lake(pipeline) / "_changefeed")
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    with pytest.raises(SinkError, match="the table has writes that are not in the ledger"):
        run(pipeline, spark, once=True)
    start_over(pipeline, spark)
    run(pipeline, spark, once=True)
    _is_right(pipeline, log[0])


def test_a_ledger_that_was_lost_does_not_begin_again_over_its_tables(
    pipeline: Definition, spark: SparkSession, log: tuple[Path, list[int]]
) -> None:
    shutil.rmtree(_lake(pipeline) / "_changefeed")
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="Pipeline test wrote it under another ledger: see `changefeed repair`"):
        run(pipeline, spark, once=True)
    assert start_over(pipeline, spark).tables == ("app/notes", "app/orders")
    run(pipeline, spark, once=True)
    _is_right(pipeline, log[0])


@pytest.mark.parametrize(
    "what, in_a_step",
    [
        ("largest gone", False),
        ("flipped", True),
        *(
            pytest.param(what, in_a_step, marks=pytest.mark.nightly)
            for what, in_a_step in (
                ("emptied", False),
                ("cut", False),
                ("flipped", False),
                ("emptied", True),
                ("cut", True),
                ("largest gone", True),
            )
        ),
    ],
)
def test_damage_to_pending_changes_is_named(
    what: str,
    in_a_step: bool,
    pipeline: Definition,
    spark: SparkSession,
    log: tuple[Path, list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if in_a_step:

        def on_pass(name: str) -> None:
            if name == "begun.after":
                raise Killed

        monkeypatch.setattr(telemetry, "on_pass", on_pass)
        with pytest.raises(Killed):
            run(pipeline, spark, once=True)
        monkeypatch.setattr(telemetry, "on_pass", None)
    waiting = _lake(pipeline) / "_changefeed" / "pending"
    parts = sorted(waiting.glob("*/part-*.parquet"), key=lambda part: part.stat().st_size)
    kept = {part: part.read_bytes() for part in parts}
    assert parts
    for part in parts if what == "emptied" else parts[-1:]:
        part.with_name(f".{part.name}.crc").unlink(missing_ok=True)
        data = bytearray(part.read_bytes())
        data[len(data) // 2] ^= 1
        if what in ("emptied", "largest gone"):
            part.unlink()
        else:
            part.write_bytes(bytes(data) if what == "flipped" else bytes(data[:-9]))
    for _ in range(2):
        with pytest.raises(SinkError, match=r"pending changes are damaged: .*changefeed repair --rebuild"):
            run(pipeline, spark, once=True)
    for part, whole in kept.items():
        part.write_bytes(whole)
    run(pipeline, spark, once=True)
    check_cuts(pipeline, History(log[0]))


@pytest.fixture
def lake_of_others(tmp_path: Path) -> Path:
    write_deltalake(tmp_path / "lake/app/notes", pa.table({"n": pa.array([1], pa.int32()), "note": ["theirs"]}))
    return tmp_path / "lake"


def test_a_foreign_table_is_never_replaced(lake_of_others: Path, spark: SparkSession, log: tuple[Path, Any]) -> None:
    with pytest.raises(ConfigError) as error:
        run(definition(log[0], lake_of_others), spark, once=True)
    assert str(error.value) == (
        f"{lake_of_others}/app/notes is a table that this pipeline has not written. Give the pipeline another "
        "sink.path, move the table away, or name it in sink.adopt to go on with its rows"
    )
    assert DeltaTable(lake_of_others / "app/notes").version() == 0


@pytest.mark.parametrize("folder", [".", "app"])
def test_no_table_is_made_inside_a_table_of_others(
    folder: str, spark: SparkSession, log: tuple[Path, Any], tmp_path: Path
) -> None:
    pipeline = definition(log[0], tmp_path / "lake")
    write_deltalake(_lake(pipeline) / folder, pa.table({"n": pa.array([1], pa.int32())}))
    with pytest.raises(ConfigError) as error:
        explain(pipeline)
    assert str(error.value).startswith(
        f"the sink has tables that this pipeline has not written: {_lake(pipeline) / folder}."
    )
    with pytest.raises(ConfigError) as error:
        run(pipeline, spark, once=True)
    assert str(error.value) == (
        f"{_lake(pipeline) / folder} is a table itself, whose clean-up would delete the pipeline's tables inside it: give the "
        "pipeline another sink.path"
    )
    assert not (_lake(pipeline) / "app" / "notes").exists()


def test_a_folder_with_other_files_is_not_written_to(
    tmp_path: Path, spark: SparkSession, log: tuple[Path, Any]
) -> None:
    (tmp_path / "lake/app/notes").mkdir(parents=True)
    (tmp_path / "lake/app/notes/report.csv").write_text("a,b\n")
    with pytest.raises(
        ConfigError, match=r"app/notes contains files, but no table: give the pipeline another sink.path"
    ):
        run(definition(log[0], tmp_path / "lake"), spark, once=True)


def _adopting(log: Path, lake: Path) -> Definition:
    made = definition(log, lake)
    return made.model_copy(update={"sink": made.sink.model_copy(update={"adopt": ["app.no*"]})})


def test_an_adopted_table_keeps_its_rows(
    lake_of_others: Path, spark: SparkSession, log: tuple[Path, list[int]]
) -> None:
    pipeline = _adopting(log[0], lake_of_others)
    run(pipeline, spark, once=True, until=log[1][0])
    current = published(pipeline)[-1].state.tables["app.notes"]
    texts = [row["note"] for row in rows(str(_notes(pipeline)), current.version, current.table)]
    assert sorted(texts) == sorted(["theirs", *(f"order {i}" for i in range(6))])
    # the source does not have its first rows, whatever sink.adopt has by then
    without = definition(log[0], lake_of_others)
    for again in (partial(repair, without, spark, ["app.notes"], "rebuild"), partial(start_over, without, spark)):
        with pytest.raises(ConfigError) as error:
            again()
        assert str(error.value) == ADOPTED.replace("memory:app/notes", str(_notes(pipeline)))
    shutil.rmtree(lake_of_others / "_changefeed" / "ledger")
    with pytest.raises(ConfigError, match=r"^app.notes is in sink.adopt: .* take it out of sink.adopt if it has none$"):
        start_over(pipeline, spark)
    assert len(rows(str(_notes(pipeline)), None, current.table)) == 7


def test_a_table_with_other_columns_is_not_adopted(
    lake_of_others: Path, spark: SparkSession, log: tuple[Path, Any]
) -> None:
    shutil.rmtree(lake_of_others)
    write_deltalake(lake_of_others / "app/notes", pa.table({"n": ["1"], "mine": ["theirs"]}))
    with pytest.raises(ConfigError) as error:
        run(_adopting(log[0], lake_of_others), spark, once=True)
    assert str(error.value) == (
        f"{lake_of_others}/app/notes cannot be adopted: its columns are not those of app.notes: n (string, not integer), "
        "note (None, not string), mine (string, not None). Correct the table, or leave it out of sink.adopt and move it away"
    )


@pytest.mark.nightly  # `test_interleavings.py` holds two runs at this point too
def test_if_two_runs_claim_at_once_one_stops(
    spark: SparkSession, log: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run claims the very epoch that the first has just read."""
    pipeline, claimed = definition(log[0], tmp_path / "lake", parallelism=1), list[str]()

    def on_pass(name: str) -> None:
        if name == "epoch.before" and not claimed:
            claimed.append(name)
            run(pipeline, spark, once=True)

    monkeypatch.setattr(telemetry, "on_pass", on_pass)
    with pytest.raises(FencedError, match=r"of pipeline test .* this (one|run is epoch 1 and) stops"):
        run(pipeline, spark, once=True)
    assert claimed
    check_cuts(pipeline, History(log[0]))


@pytest.mark.nightly  # as above
def test_if_two_pipelines_begin_in_one_empty_folder_one_stops(
    spark: SparkSession, log: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = definition(log[0], tmp_path / "lake")
    other, claimed = definition(log[0], tmp_path / "lake", name="other"), list[str]()

    def on_pass(name: str) -> None:
        if name == "epoch.before" and not claimed:
            claimed.append(name)
            with pytest.raises(ConfigError, match="is the ledger of another pipeline"):
                run(other, spark, once=True)

    monkeypatch.setattr(telemetry, "on_pass", on_pass)
    run(pipeline, spark, once=True)
    assert claimed
    check_cuts(pipeline, History(log[0]))


def test_rows_sent_again_above_the_barrier_are_applied_once_without_a_key(spark: SparkSession, tmp_path: Path) -> None:
    h = HistoryBuilder(partitions=1)
    h.schema("app", "notes", "CREATE TABLE `app`.`notes` (`n` INT NOT NULL,`note` VARCHAR(20))")
    h.rows(("notes", None, {"n": 1, "note": "first"}))
    h.resolved()
    for n in (2, 3):
        h.rows(*[("notes", None, {"n": n, "note": note}) for note in ("twice", "twice", "once")])
    h.resolved()
    whole = h.write(tmp_path / "whole.jsonl").read_text().splitlines()
    # DDL, row, mark, three rows, three rows, mark: ends in mid-transaction, and is sent again from the first mark on
    again = [_moved(line, offset) for offset, line in enumerate([*whole[:8], *whole[2:]])]
    (tmp_path / "again.jsonl").write_text("\n".join(again) + "\n")
    for limit in (100, 3):
        pipeline = definition(tmp_path / "again.jsonl", tmp_path / f"lake-{limit}", limit=limit)
        run(pipeline, spark, once=True)
        check_cuts(pipeline, History(tmp_path / "whole.jsonl"))


def _moved(line: str, offset: int) -> str:
    return json.dumps(json.loads(line) | {"offset": offset})
