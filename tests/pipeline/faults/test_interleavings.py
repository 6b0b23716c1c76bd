"""Two runs of one pipeline at once, in an order that the test chooses: one goes on, the other stops, and nothing is lost.

The older run is held at a point while the newer one claims the ledger, recovers, and goes on to its end; then the older
one goes on too. It must end with `FencedError` or have done no harm, and every cut must be the history's.

`CHANGEFEED_INTERLEAVINGS=20` tries so many random orders, `CHANGEFEED_SEED` repeats one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from changefeed import record_log, telemetry
from changefeed.errors import ConfigError, FencedError
from changefeed.model.batch import record_batch
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.run import run
from tests.killed import Killed
from tests.pipeline.kit.history import HistoryBuilder, small_history
from tests.pipeline.kit.oracle import History
from tests.pipeline.kit.running import check_cuts, definition, published
from tests.pipeline.kit.turns import Player, Turns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEDULES = int(os.environ.get("CHANGEFEED_INTERLEAVINGS", "1"))
AT_NIGHT = partial(pytest.param, marks=pytest.mark.nightly)
CREATE = "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`total` DECIMAL(10,2),PRIMARY KEY(`id`))"


@dataclass(frozen=True)
class Log:
    """A history, with one record that cannot be decoded."""

    path: Path
    history: History
    mark: int


def _with_a_dead_letter(clean: Path, into: Path) -> None:
    """Writes the log with a record that cannot be decoded in the middle of partition 0."""
    good = [row for batch in record_log.read(clean) for row in batch.to_pylist()]
    middle = next(i for i in range(len(good) // 2, len(good)) if good[i]["partition"] == 0)
    good.insert(middle, {**good[middle], "value": b"\0"})
    offsets = [0, 0]
    for row in good:
        row["offset"] = offsets[row["partition"]]
        offsets[row["partition"]] += 1
    record_log.write(into, [record_batch(good)])


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    folder = tmp_path_factory.mktemp("history")
    clean, marks = small_history(folder / "clean.jsonl")
    _with_a_dead_letter(clean, folder / "app.jsonl")
    return Log(folder / "app.jsonl", History(clean), marks[-1])


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Turns]:
    from pyspark.sql import SparkSession

    turns, sql = Turns(), SparkSession.sql

    def sql_with_point(session: SparkSession, statement: str, *args: Any, **named: Any) -> Any:
        turns.on_pass(f"sql {' '.join(statement.split()[:2])}")
        return sql(session, statement, *args, **named)

    monkeypatch.setattr(SparkSession, "sql", sql_with_point)
    monkeypatch.setattr(telemetry, "on_pass", turns.on_pass)
    yield turns
    print("schedule", *turns.schedule)
    turns.close()


Make = Callable[..., Definition]


@pytest.fixture
def make(log: Log, tmp_path: Path) -> Make:
    """Makes definitions of one pipeline, which differ in options that may change between runs."""

    def make(path: Path = log.path, limit: int = 15, **pipeline: Any) -> Definition:
        behaviour = {"dead-letters": "continue", "parallelism": 1, **pipeline}
        return definition(path, tmp_path / "lake", limit=limit, **behaviour)

    return make


def _player(turns: Turns, name: str, pipeline: Definition, spark: SparkSession) -> Player:
    session = spark.newSession()
    return turns.player(name, lambda: run(pipeline, session, once=True))


def _check(turns: Turns, pipeline: Definition, spark: SparkSession, history: History, mark: int) -> None:
    """Asserts that runs ended well or fenced, and that after a last run the tables are right and the counts add up."""
    for player in turns.players:
        assert player.ended
        if player.error is not None and not isinstance(player.error, FencedError | Killed):
            raise AssertionError(f"{player.name} ended with {type(player.error).__name__}") from player.error
    state = run(pipeline, spark.newSession(), once=True).state
    check_cuts(pipeline, history)
    assert state.barrier == mark
    assert state.counts.applied + state.counts.repeated + state.counts.pending == state.counts.rows
    assert state == published(pipeline)[-1].state
    for name, current in state.tables.items():
        for version in (current.version, None):
            fields = DeltaTable(f"{pipeline.sink.path}/{current.path}", version=version).schema().fields
            assert [field.name for field in fields] == [c.name for c in current.table.columns], (name, version)


@pytest.mark.nightly
@pytest.mark.parametrize("point", [*telemetry.FAILPOINTS, "sql MERGE INTO"])
@pytest.mark.parametrize("passes", [1, 2])
def test_a_newer_run_goes_to_its_end_while_an_older_one_is_held(
    point: str, passes: int, spark: SparkSession, log: Log, turns: Turns, make: Make
) -> None:
    pipeline = make(writer="spark" if point == "sql MERGE INTO" else "native")
    older, newer = (_player(turns, name, pipeline, spark) for name in ("older", "newer"))
    if not turns.go(older, until=point, passes=passes):
        pytest.skip(f"{point} is not passed {passes} times")
    turns.go(newer)
    turns.go(older)
    _check(turns, pipeline, spark, log.history, log.mark)
    last = next(name for name in reversed(older.passed) if name in telemetry.FAILPOINTS)
    assert isinstance(older.error, FencedError) or last in ("done.after", "cleanup.before", "cleanup.after")


@pytest.mark.nightly
def test_each_run_is_taken_over_while_it_is_held_at_a_point(
    spark: SparkSession, log: Log, turns: Turns, make: Make
) -> None:
    """A relay: the next run comes to a point of its own before the one before it goes on."""
    pipeline, before = make(), None
    for number, point in enumerate(_points(random.Random(_seed()))):
        player = _player(turns, f"run {number}", pipeline, spark)
        held = turns.go(player, until=point)
        if before is not None and before.held:
            turns.go(before)
        if not held:
            break
        before = player
    if before is not None and before.held:
        turns.go(before)
    _check(turns, pipeline, spark, log.history, log.mark)


def _points(chance: random.Random) -> list[str]:
    """Failpoints that a run passes, each once, and each in a step of its own if possible."""
    points = [p for p in telemetry.FAILPOINTS if p.partition(".")[0] not in ("letters", "copy", "create")]
    return chance.sample(points, len(points))


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(SCHEDULES))
def test_runs_in_a_random_order(number: int, spark: SparkSession, log: Log, turns: Turns, make: Make) -> None:
    chance = random.Random(_seed() + number)
    pipelines = [make(limit=chance.choice([10, 15, 40])) for _ in range(chance.randint(2, 3))]
    players = [_player(turns, f"run {n}", pipeline, spark) for n, pipeline in enumerate(pipelines)]
    while moving := [player for player in players if not player.ended]:
        player = chance.choice(moving)
        if player.held and chance.random() < 0.05:
            turns.kill(player)
        else:
            turns.go(player, until="any", passes=chance.choice([1, 1, 2, 5, 20]))
    _check(turns, pipelines[0], spark, log.history, log.mark)


def _seed() -> int:
    fresh = 1 if os.environ.get("CI") else random.randrange(2**32)  # in CI a failure is due to the change alone
    seed = int(os.environ.get("CHANGEFEED_SEED") or fresh)
    print("seed", seed)
    return seed


@pytest.mark.heavy
@pytest.mark.parametrize("first", ["older", AT_NIGHT("newer")])
def test_if_two_runs_claim_at_once_one_goes_on(
    first: str, spark: SparkSession, log: Log, turns: Turns, make: Make
) -> None:
    pipeline = make()
    players = [_player(turns, name, pipeline, spark) for name in ("older", "newer")]
    for player in players:
        assert turns.go(player, until="epoch.before")
    for player in sorted(players, key=lambda player: player.name != first):
        turns.go(player, until="epoch.after")
    for player in players:
        if player.held:
            turns.go(player)
    _check(turns, pipeline, spark, log.history, log.mark)
    assert [type(player.error) for player in players].count(FencedError) == 1


@pytest.mark.heavy
def test_two_runs_that_read_the_same_epoch_do_not_share_a_step(
    spark: SparkSession, log: Log, turns: Turns, make: Make
) -> None:
    """They read batches of different sizes; the second one is killed when it has published its first step."""
    first = _player(turns, "first", make(limit=24), spark)
    second = _player(turns, "second", make(limit=16), spark)
    assert turns.go(first, until="epoch.before")
    assert turns.go(second, until="epoch.before")
    turns.go(first, until="begun.after")
    turns.go(second, until="done.after")
    if second.held:
        turns.kill(second)
    if first.held:
        turns.go(first)
    _check(turns, make(), spark, log.history, log.mark)


@pytest.mark.heavy
@pytest.mark.parametrize("point", ["done.after", AT_NIGHT("cleanup.before")])
def test_an_older_run_does_not_delete_files_that_the_newer_one_needs(
    point: str, spark: SparkSession, log: Log, turns: Turns, make: Make
) -> None:
    pipeline = make()
    older, newer = (_player(turns, name, pipeline, spark) for name in ("older", "newer"))
    assert turns.go(older, until=point)
    assert turns.go(newer, until="begun.after")
    turns.go(older)
    turns.go(newer)
    assert newer.error is None
    _check(turns, pipeline, spark, log.history, log.mark)


@pytest.mark.parametrize("point", ["addcolumns.before", AT_NIGHT("addcolumns.after")])
def test_a_column_that_the_newer_run_has_dropped_does_not_come_back(
    point: str, spark: SparkSession, turns: Turns, make: Make, tmp_path: Path
) -> None:
    h = HistoryBuilder(1)
    h.schema("app", "orders", CREATE)
    h.rows(("orders", None, {"id": 1, "total": "1.00"}))
    h.resolved()
    h.schema("app", "orders", "ALTER TABLE `app`.`orders` ADD COLUMN `note` VARCHAR(20) NULL")
    h.rows(("orders", None, {"id": 2, "total": "2.00", "note": "x"}))
    h.resolved()
    h.schema("app", "orders", "ALTER TABLE `app`.`orders` DROP COLUMN `note`")
    h.rows(("orders", None, {"id": 3, "total": "3.00"}))
    mark = h.resolved()
    path = h.write(tmp_path / "columns.jsonl")
    pipeline = make(path, limit=3)
    older, newer = (_player(turns, name, pipeline, spark) for name in ("older", "newer"))
    assert turns.go(older, until=point)
    turns.go(newer)
    turns.go(older)
    _check(turns, pipeline, spark, History(path), mark)


@pytest.mark.heavy
@pytest.mark.parametrize("point", ["epoch.before", AT_NIGHT("epoch.after"), AT_NIGHT("begun.before")])
def test_if_two_pipelines_begin_in_an_empty_folder_one_is_refused(
    point: str, spark: SparkSession, log: Log, turns: Turns, make: Make
) -> None:
    pipelines = {name: make(name=name) for name in ("one", "two")}
    players = [_player(turns, name, pipeline, spark) for name, pipeline in pipelines.items()]
    assert turns.go(players[0], until="epoch.before")
    turns.go(players[1], until=point)
    turns.go(players[0])
    if players[1].held:
        turns.go(players[1])
    stays, refused = sorted(players, key=lambda player: player.error is not None)
    assert (stays.error, type(refused.error)) == (None, ConfigError), refused.error
    assert "the ledger of another pipeline" in str(refused.error)
    state = run(pipelines[stays.name], spark.newSession(), once=True).state
    check_cuts(pipelines[stays.name], log.history)
    assert state.barrier == log.mark
