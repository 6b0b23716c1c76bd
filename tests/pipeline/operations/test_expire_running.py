"""Expiry while a pipeline runs: real tables are deleted, the rest is right, and a run waits where it must."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed.errors import SinkError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.ledger import read_ledger
from changefeed.pipeline.operations import expired
from changefeed.pipeline.operations.expire import expire
from changefeed.pipeline.operations.expired import Notes
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.run import run
from changefeed.sinks import sink
from tests.pipeline.kit.history import HistoryBuilder
from tests.pipeline.kit.oracle import History, same_rows
from tests.pipeline.kit.running import definition, published
from tests.pipeline.kit.tables import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CREATE = "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`note` VARCHAR(20),PRIMARY KEY(`id`))"


def _history(tmp_path: Path) -> tuple[Definition, Path, Path]:
    """A pipeline over the first half of a history, that half, and the whole history, which creates a dropped table again."""
    h = HistoryBuilder()
    h.schema("app", "orders", CREATE)
    h.rows(("orders", None, {"id": 1, "note": "first"}))
    h.resolved()
    h.schema("app", "orders", "RENAME TABLE `app`.`orders` TO `app`.`sales`")
    h.rows(("sales", None, {"id": 2, "note": "sold"}))
    h.resolved()
    half = h.write(tmp_path / "half.jsonl")
    h.schema("app", "orders", CREATE)
    h.rows(("orders", None, {"id": 7, "note": "again"}))
    h.resolved()
    return definition(tmp_path / "app.jsonl", tmp_path / "lake", limit=5), half, h.write(tmp_path / "whole.jsonl")


def _right(pipeline: Definition, log: Path) -> None:
    """Asserts that every cut that is offered can be read, and is the history's state."""
    for cut in status(pipeline).to_dict()["cuts"]:
        wanted = History(log).at(cut["commit_ts"])
        state = next(c.state for c in reversed(published(pipeline)) if c.state.barrier == cut["commit_ts"])
        for current in state.tables.values():
            actual = rows(f"{pipeline.sink.path}/{current.path}", current.version, current.table)
            assert same_rows(actual, wanted[current.table.name]) == ""
        assert len(state.tables) == len(wanted)


def test_a_dropped_table_comes_again_while_its_old_folder_goes(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, half, whole = _history(tmp_path)
    half.rename(tmp_path / "app.jsonl")
    run(pipeline, spark, once=True)
    before = len(status(pipeline).to_dict()["cuts"])
    notes = Notes(sink(pipeline.sink), pipeline)
    note = notes.begin(published(pipeline)[-1].step, ("app/orders",))  # as an expiry does that has just read the ledger
    whole.replace(tmp_path / "app.jsonl")
    waited: list[bool] = []

    def begun() -> bool:
        latest = read_ledger(pipeline).latest()
        return latest is not None and latest.unfinished is not None

    def finish() -> None:
        until = time.monotonic() + 300
        while not begun() and time.monotonic() < until:
            time.sleep(0.2)
        time.sleep(2)
        waited.append(begun())
        notes.carry_out(note)

    later = threading.Thread(target=finish)
    later.start()
    run(pipeline, spark, once=True)
    later.join()
    assert waited == [True], "the step was begun, and not carried out before the folder was gone"
    _right(pipeline, tmp_path / "app.jsonl")
    cuts = status(pipeline).to_dict()["cuts"]
    assert 0 < len(cuts) < before + 1
    assert cuts[-1]["tables"].keys() == {"app.orders", "app.sales"}
    assert cuts[-1]["tables"]["app.orders"] == 0, "a table of its own, not a version of the old one"


def test_a_run_does_not_wait_forever(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expired, "_PATIENCE", 0.5)
    pipeline, half, whole = _history(tmp_path)
    pipeline = pipeline.model_copy(update={"pipeline": pipeline.pipeline.model_copy(update={"max_retries": 0})})
    half.rename(tmp_path / "app.jsonl")
    run(pipeline, spark, once=True)
    Notes(sink(pipeline.sink), pipeline).begin(1, ("app/orders",))
    whole.replace(tmp_path / "app.jsonl")
    for _ in range(2):  # the step is begun by the first, and found by the second
        with pytest.raises(SinkError) as caught:
            run(pipeline, spark, once=True)
        assert caught.value.transient
        assert "`changefeed expire` is deleting folders, or was interrupted. Run it again, then run this again" in str(
            caught.value
        )
    assert expire(pipeline, timedelta()).kept == {"app/orders": "a step under way names it"}
    run(pipeline, spark, once=True)
    _right(pipeline, tmp_path / "app.jsonl")
