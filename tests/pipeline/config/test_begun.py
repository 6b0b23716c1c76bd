"""Options of a definition that cannot change once its pipeline has begun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from changefeed.errors import ConfigError, UnsupportedError
from changefeed.pipeline.config.begun import check_consistency
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.dead_letters import letters
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.run import run
from changefeed.pipeline.state import Counts, State
from changefeed.sinks.delta.section import DeltaSink
from tests.pipeline.kit.history import HistoryBuilder, small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition, published
from tests.pipeline.kit.tables import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAY_OUT = "put that back, or start a new pipeline in an empty folder"


@pytest.mark.parametrize(
    "state, consistency, begun",
    [
        (State(), "key", None),
        (State(counts=Counts(rows=7)), "key", None),
        (State(barrier=5), "transaction", None),
        (State(barrier=5), "key", "transaction"),
        (State(counts=Counts(rows=7, applied=7)), "key", None),
        (State(counts=Counts(rows=7, applied=7)), "transaction", "key"),
    ],
)
def test_consistency_stays_once_a_change_was_applied(state: State, consistency: str, begun: str | None) -> None:
    pipeline = definition("log.jsonl", Path("lake"), consistency=consistency)
    if begun is None:
        check_consistency(pipeline, state)
        return
    with pytest.raises(ConfigError) as error:
        check_consistency(pipeline, state)
    assert str(error.value) == f"pipeline.consistency: changes have been applied with `{begun}`: {WAY_OUT}"


@pytest.mark.parametrize(
    "way_out, notes",
    [({"keyless": "inserts"}, ["kept", "too"]), ({"exclude": ["app.no*"]}, None)],
    ids=["inserts", "exclude"],
)
def test_a_step_that_cannot_end_is_ended_by_another_definition(
    way_out: dict[str, Any], notes: list[str] | None, tmp_path: Path, spark: SparkSession
) -> None:
    h = HistoryBuilder()
    h.schema("app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`qty` INT,PRIMARY KEY(`id`))")
    h.schema("app", "notes", "CREATE TABLE `app`.`notes` (`n` INT NOT NULL,`note` VARCHAR(20))")
    h.rows(("orders", None, {"id": 1, "qty": 2}), ("notes", None, {"n": 1, "note": "kept"}))
    h.rows(("notes", {"n": 1, "note": "kept"}, {"n": 1, "note": "changed"}), ("notes", None, {"n": 2, "note": "too"}))
    h.resolved()
    log = h.write(tmp_path / "app.jsonl")
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"app.notes has no handle key, so the update at .* then run again"):
            run(definition(log, tmp_path / "lake"), spark, once=True)
    pipeline = definition(log, tmp_path / "lake", **way_out)
    run(pipeline, spark, once=True)
    state = published(pipeline)[-1].state
    assert state.tables.keys() == ({"app.orders"} if notes is None else {"app.orders", "app.notes"})
    assert (state.counts.rows, state.counts.applied) == (4, 4)
    if notes is not None:
        current = state.tables["app.notes"]
        actual = rows(f"{pipeline.sink.path}/{current.path}", current.version, current.table)
        assert sorted(row["note"] for row in actual) == notes


@pytest.mark.heavy
def test_metadata_columns_stay_those_of_the_first_write(tmp_path: Path, spark: SparkSession) -> None:
    log, marks = small_history(tmp_path / "app.jsonl")
    plain = definition(log, tmp_path / "lake")
    sink: dict[str, Any] = {"type": "delta", "path": plain.sink.path, "irregular": "keep"}
    other = plain.model_copy(
        update={"sink": DeltaSink.model_validate({**sink, "metadata-columns": ["_commit_ts", "_op", "_position"]})}
    )
    run(other, spark, once=True, until=marks[0])
    with pytest.raises(ConfigError) as error:
        run(plain, spark, once=True)
    assert str(error.value) == (
        "sink.metadata-columns and sink.irregular: the tables were created with _commit_ts, _op, _position, _irregular, "
        f"and would now have none: {WAY_OUT}"
    )
    run(other, spark, once=True)
    check_cuts(other, History(log))
    notes, sales = _rows_with_metadata(other, "notes"), _rows_with_metadata(other, "sales")
    assert [(row["_op"], row["_irregular"]) for row in notes] == [("insert", [])]
    moved = next(row for row in sales if row["id"] == 30)
    assert (moved["_op"], moved["_position"].split(":")[0]) == ("update", "app")
    assert marks[0] < moved["_commit_ts"] <= marks[1]


def _rows_with_metadata(pipeline: Any, name: str) -> list[dict[str, Any]]:
    """The rows of a table as Delta has them, with the metadata columns."""
    current = published(pipeline)[-1].state.tables[f"app.{name}"]
    table = DeltaTable(f"{pipeline.sink.path}/{current.path}", version=current.version)
    table_rows: list[dict[str, Any]] = pa.table(
        QueryBuilder().register("t", table).execute("select * from t").read_all()
    ).to_pylist()
    return table_rows


def test_changes_that_waited_for_marks_are_applied_once_marks_are_not_required(
    tmp_path: Path, spark: SparkSession
) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:9]))  # before the first mark
    waiting = run(definition(log, tmp_path / "lake"), spark, once=True).state.counts
    assert (waiting.applied, waiting.pending) == (0, waiting.rows)
    pipeline = definition(log, tmp_path / "lake", consistency="key")
    summary = run(pipeline, spark, once=True)
    assert (summary.state.counts.pending, summary.state.counts.applied) == (0, waiting.rows)
    current = summary.state.tables["app.orders"]
    assert rows(f"{pipeline.sink.path}/{current.path}", current.version, current.table)


@pytest.mark.parametrize("look", [status, letters])
def test_the_ledger_of_another_pipeline_is_refused(
    look: Callable[[Definition], object], tmp_path: Path, spark: SparkSession
) -> None:
    log, marks = small_history(tmp_path / "app.jsonl")
    pipeline = definition(log, tmp_path / "lake")
    run(pipeline, spark, once=True, until=marks[0])
    other = pipeline.model_copy(update={"pipeline": pipeline.pipeline.model_copy(update={"name": "other"})})
    with pytest.raises(ConfigError, match="is the ledger of another pipeline"):
        look(other)
