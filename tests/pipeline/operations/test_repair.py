"""A repair holds, whatever the next steps write: in each way, for one table and for several. A damaged commit stops the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from changefeed.errors import DamagedError, SinkError
from changefeed.pipeline.operations.check import checks
from changefeed.pipeline.operations.repair import repair
from changefeed.pipeline.run import run
from tests.examples import by_turns
from tests.pipeline.kit.history import HistoryBuilder
from tests.pipeline.kit.oracle import History, same_rows
from tests.pipeline.kit.running import check_cuts, definition, published
from tests.pipeline.kit.tables import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changefeed.pipeline.config.definition import Definition


def _log(path: Path, order: str) -> tuple[Path, list[int]]:
    """Steps that write the tables whose first letters `order` has; the commit_ts of each step."""
    h, marks = HistoryBuilder(), list[int]()
    h.schema("app", "notes", "CREATE TABLE `app`.`notes` (`n` INT NOT NULL,`note` VARCHAR(20))")
    h.schema("app", "drafts", "CREATE TABLE `app`.`drafts` (`n` INT NOT NULL,`note` VARCHAR(20))")
    h.schema("app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`qty` INT,PRIMARY KEY(`id`))")
    for step, names in enumerate(order.split()):
        for table in ("notes", "drafts"):
            if table[0] in names:
                h.rows((table, None, {"n": step, "note": f"step {step}"}))
        if "o" in names:
            h.rows(("orders", None, {"id": step, "qty": 1}))
        marks.append(h.resolved())
    return h.write(path), marks


def _foreign_row(pipeline: Definition, table: str) -> None:
    write_deltalake(
        f"{pipeline.sink.path}/app/{table}",
        pa.table({"n": pa.array([77], pa.int32()), "note": ["mine"]}),
        mode="append",
    )


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("tables", [["app.notes"], ["app.notes", "app.drafts"]], ids=["one", "two"])
@pytest.mark.parametrize(
    "how, later",
    by_turns(
        [pytest.param(how, later) for how in ("restore", "accept", "rebuild") for later in ("o n", "n o", "o o nd")], 3
    ),
)
def test_a_repair_holds_whatever_the_next_steps_write(
    how: str, later: str, tables: list[str], spark: SparkSession, tmp_path: Path
) -> None:
    log, marks = _log(tmp_path / "app.jsonl", f"ndo ndo {later}")
    pipeline = definition(log, tmp_path / "lake", parallelism=1)
    run(pipeline, spark, once=True, until=marks[1])
    for name in tables:
        _foreign_row(pipeline, name.removeprefix("app."))
    with pytest.raises(SinkError, match="was not made by this pipeline"):
        run(pipeline, spark, once=True, until=marks[2])
    repair(pipeline, spark, tables, how)  # type: ignore[arg-type]
    for mark in marks[2:]:
        run(pipeline, spark, once=True, until=mark)
    foreign = [{"n": 77, "note": "mine"}] if how == "accept" else []
    state, history = published(pipeline)[-1].state, History(log)
    for name, table in state.tables.items():
        wanted = [*history.at(state.barrier)[table.table.name], *(foreign if name in tables else ())]
        assert not same_rows(rows(f"{pipeline.sink.path}/{table.path}", None, table.table), wanted), name
    if not foreign:
        check_cuts(pipeline, history)


def _empty(commit: Path) -> None:
    commit.write_bytes(b"")


def _shorter(commit: Path) -> None:
    commit.write_bytes(b"".join(commit.read_bytes().splitlines(keepends=True)[:1]))


def _without_end(commit: Path) -> None:
    commit.write_bytes(commit.read_bytes().rstrip(b"\n"))


def _in_a_line(commit: Path) -> None:
    commit.write_bytes(commit.read_bytes()[:-9])


def _older(commit: Path) -> None:
    older = commit.with_name(f"{int(commit.name[:20]) - 1:020d}.json")
    commit.write_bytes(older.read_bytes())


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("later", ["o", "n"])
@pytest.mark.parametrize(
    "damage, commit",
    by_turns(
        [
            *(pytest.param(damage, 2) for damage in (_empty, _shorter, _without_end, _in_a_line, _older)),
            pytest.param(_empty, 1),
            pytest.param(_in_a_line, 1),
            pytest.param(_older, 1),
        ],
        3,
    ),
)
def test_a_commit_that_is_not_whole_stops_the_run(
    damage: Callable[[Path], None], commit: int, later: str, spark: SparkSession, tmp_path: Path
) -> None:
    log, marks = _log(tmp_path / "app.jsonl", f"ndo ndo ndo {later}")
    pipeline = definition(log, tmp_path / "lake", parallelism=1)
    for mark in marks[:3]:
        run(pipeline, spark, once=True, until=mark)
    assert next(check for check in checks(pipeline) if check.name == "cut").message == "3 tables as in the ledger"
    damage(tmp_path / "lake" / "app" / "notes" / "_delta_log" / f"{commit:020d}.json")
    cut = next(check for check in checks(pipeline) if check.name == "cut")
    assert (cut.status, "app/notes" in cut.message) == ("fail", True)
    for _ in range(2):
        with pytest.raises(SinkError, match="app/notes") as error:
            run(pipeline, spark, once=True)
        assert damage is _shorter or isinstance(error.value, DamagedError)
    assert published(pipeline)[-1].state.barrier == marks[2]
