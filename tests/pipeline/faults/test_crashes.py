"""A run may end at any point; the next one finishes its step: tables are equal, no step is done twice, no change is lost.

A failpoint that raises stands for a driver that has died: nothing after it runs, and the next run starts in a new epoch
from the sink alone. Real kills of real processes are in `test_kills.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed import telemetry
from changefeed.errors import FencedError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.run import run
from tests.killed import Killed
from tests.pipeline.kit.history import lagging_history, small_history
from tests.pipeline.kit.oracle import History, same_rows
from tests.pipeline.kit.running import check_cuts, definition, published
from tests.pipeline.kit.tables import rows
from tests.pipeline.kit.uneven import uneven

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A sample of the failpoints, in the order in which the history's three steps pass them: behind each kind of write, whose
# answer is lost then, and around the ledger's entries. Every failpoint is tried in `test_crashes_in_memory.py`.
STEP = [
    *("epoch.after", "stage.after", "begun.after", "load.after", "fence.after", "done.before"),
    *("addcolumns.after", "upsert.after", "append.after", "cleanup.before"),
    *("rewrite.after", "create.after", "copy.after"),
]
BY_KEY = ["begun.after", "load.after", "append.after", "fence.after", "done.before", "cleanup.before"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, History]:
    path, _ = small_history(tmp_path_factory.mktemp("history") / "app.jsonl")
    return path, History(path)


@pytest.fixture
def kill_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Name of a failpoint -> how often it may be passed before it kills."""
    wanted: dict[str, int] = {}

    def on_pass(name: str) -> None:
        if name in wanted:
            wanted[name] -= 1
            if wanted[name] < 0:
                del wanted[name]
                raise Killed(name)

    monkeypatch.setattr(telemetry, "on_pass", on_pass)
    yield wanted
    assert not wanted, f"never passed: {wanted}"


@pytest.mark.heavy
def test_one_pipeline_ended_at_every_point_in_turn(
    spark: SparkSession, log: tuple[Path, History], kill_at: dict[str, int], tmp_path: Path
) -> None:
    """Each run gets a little further than the one before; the last one does nothing twice."""
    path, history = log
    pipeline = definition(path, tmp_path, limit=20, parallelism=1)
    for point in STEP:
        kill_at[point] = 0
        with pytest.raises(Killed, match=point):
            run(pipeline, spark, once=True)
    _finish(pipeline, spark, history, epoch=len(STEP) + 1)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "point", [p for p in telemetry.FAILPOINTS if not p.startswith(("letters", "fence", "pack", "tidy"))]
)
def test_a_run_that_ends_there_is_finished_by_the_next(
    point: str, spark: SparkSession, log: tuple[Path, History], kill_at: dict[str, int], tmp_path: Path
) -> None:
    path, history = log
    pipeline = definition(path, tmp_path, limit=20, parallelism=1)
    kill_at[point] = 0
    with pytest.raises(Killed):
        run(pipeline, spark, once=True)
    _finish(pipeline, spark, history, epoch=1 + (point != "epoch.before"))


@pytest.mark.heavy
def test_by_key_rows_that_wait_for_a_schema_change_survive_every_point(
    spark: SparkSession, kill_at: dict[str, int], tmp_path: Path
) -> None:
    """Partition 1 comes after all of partition 0; tables without a key would show a change that is applied twice."""
    log = lagging_history(tmp_path / "app.jsonl")
    lagging = uneven(log, tmp_path / "lagging.jsonl", seed=1, stretch=100)
    pipeline = definition(lagging, tmp_path / "lake", limit=5, parallelism=1, consistency="key")
    killed = 0
    for point in BY_KEY:
        kill_at[point] = 0
        with suppress(Killed):
            run(pipeline, spark, once=True)
        killed += kill_at.pop(point, None) is None
    assert killed > len(BY_KEY) // 2
    run(pipeline, spark, once=True)
    state, wanted = published(pipeline)[-1].state, History(log).at(None)
    assert sorted(current.table.name for current in state.tables.values()) == sorted(wanted)
    for current in state.tables.values():
        actual = rows(f"{pipeline.sink.path}/{current.path}", current.version, current.table)
        assert not (difference := same_rows(actual, wanted[current.table.name])), f"{current.table.name}: {difference}"
    assert (state.counts.applied, state.counts.pending, state.pending) == (state.counts.rows, 0, ())


def _finish(pipeline: Definition, spark: SparkSession, history: History, *, epoch: int) -> None:
    summary = run(pipeline, spark, once=True)
    assert summary.epoch == epoch
    check_cuts(pipeline, history)
    counts = published(pipeline)[-1].state.counts
    assert (counts.records, counts.dead) == (44, 0)
    assert (counts.applied, counts.pending, counts.repeated) == (counts.rows - 1, 1, 0)


def test_a_run_that_was_taken_over_stops(
    spark: SparkSession,
    log: tuple[Path, History],
    kill_at: dict[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second run starts while the first one stands before a write, and the first then goes on."""
    path, history = log
    pipeline = definition(path, tmp_path, parallelism=1)
    inner = telemetry.on_pass
    taken = list[str]()

    def on_pass(name: str) -> None:
        if name == "rewrite.before" and not taken:
            taken.append(name)
            monkeypatch.setattr(telemetry, "on_pass", inner)
            run(pipeline, spark, once=True)

    monkeypatch.setattr(telemetry, "on_pass", on_pass)
    with pytest.raises(FencedError, match=r"epoch 2 .* this run is epoch 1 and stops"):
        run(pipeline, spark, once=True)
    assert taken
    check_cuts(pipeline, history)
