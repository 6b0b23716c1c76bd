"""Dead letters that can be decoded later: rows in claim-check files, before and after the store is configured.

    orders    some rows are large, so they lie in files: letters with a table
    notes     small rows only: never dead, goes on

With `quarantine` the tables end equal to the history. With `continue`, changes at or below the barrier are reported and not
applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from changefeed import telemetry
from changefeed.errors import ConfigError, ProtocolError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import read
from changefeed.pipeline.dead_letters import letters
from changefeed.pipeline.operations.replay import look, replay
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.run import run
from tests.killed import Killed
from tests.pipeline.kit.claim_checks import LARGE, checked_in
from tests.pipeline.kit.history import HistoryBuilder
from tests.pipeline.kit.oracle import History, same_rows
from tests.pipeline.kit.running import published
from tests.pipeline.kit.tables import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Logs:
    """A history with its large rows in `store`, and the same history with all rows in its records."""

    log: Path
    store: Path
    history: History
    marks: list[int]

    def pipeline(self, lake: Path, policy: str, *, store: bool, **pipeline: Any) -> Definition:
        options = {"claim-check-storage-uri": str(self.store)} if store else {}
        source = {"type": "files", "path": str(self.log), "protocol": {"name": "ticdc-open", **options}}
        behaviour = {"name": "test", "dead-letters": policy, **pipeline}
        return read(
            {
                "source": {**source, "max-records-per-batch": 20},
                "sink": {"type": "delta", "path": str(lake)},
                "pipeline": behaviour,
            }
        )


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    folder = tmp_path_factory.mktemp("replay")
    h = HistoryBuilder()
    h.schema("app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`note` TEXT,PRIMARY KEY(`id`))")
    h.schema("app", "notes", "CREATE TABLE `app`.`notes` (`n` INT NOT NULL,`note` VARCHAR(20))")
    marks = []
    for i in range(4):
        h.rows(("orders", None, {"id": i, "note": "small"}), ("notes", None, {"n": i, "note": "first"}))
    marks.append(h.resolved())
    h.rows(("orders", {"id": 1, "note": "small"}, {"id": 1, "note": LARGE}))
    h.rows(("orders", None, {"id": 7, "note": LARGE}), ("notes", None, {"n": 7, "note": "second"}))
    h.rows(("orders", {"id": 1, "note": LARGE}, {"id": 1, "note": "small again"}))
    marks.append(h.resolved())
    h.schema("app", "orders", "ALTER TABLE `app`.`orders` ADD COLUMN `qty` INT NULL")
    h.rows(("orders", {"id": 2, "note": "small", "qty": None}, {"id": 20, "note": LARGE, "qty": 5}))
    h.rows(("orders", {"id": 3, "note": "small", "qty": None}, None), ("notes", None, {"n": 9, "note": "third"}))
    marks.append(h.resolved())
    h.rows(("orders", None, {"id": 30, "note": LARGE, "qty": 6}))
    log, store = checked_in(h, folder / "app.jsonl", folder / "store"), folder / "store"
    return Logs(log, store, History(h.write(folder / "plain.jsonl")), marks)


@pytest.fixture
def kill_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of failpoints; the run is killed at the first, then at the next one, and so on."""
    wanted: list[str] = []

    def on_pass(name: str) -> None:
        if wanted and name == wanted[0]:
            raise Killed(wanted.pop(0))

    monkeypatch.setattr(telemetry, "on_pass", on_pass)
    yield wanted
    assert not wanted, f"never passed: {wanted}"


def _differences(pipeline: Definition, wanted: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Differences between the newest cut and `wanted`, one text for each table that differs."""
    state = published(pipeline)[-1].state
    differences = []
    for current in state.tables.values():
        actual = rows(f"{pipeline.sink.path}/{current.path}", current.version, current.table)
        differences.append(same_rows(actual, wanted[current.table.name]))
    return [difference for difference in differences if difference]


def _letters(pipeline: Definition) -> list[tuple[str, bool]]:
    return [(f"{one.database}.{one.table}", one.replayed is not None) for one in letters(pipeline, replayed=True)]


@pytest.mark.heavy
def test_a_table_in_quarantine_is_whole_again_after_a_replay(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    blind = logs.pipeline(tmp_path, "quarantine", store=False)
    state = run(blind, spark, once=True).state
    assert list(state.held) == ["app.orders"]
    assert _letters(blind) == [("app.orders", False)] * 5
    assert look(blind).letters == []
    seeing = logs.pipeline(tmp_path, "quarantine", store=True)
    first = next(p for p in look(seeing).letters if p.count(":") == 3)  # a record in which other rows were decoded
    assert look(seeing, [first]).released == frozenset()
    done = replay(seeing, spark, [first])
    assert (done.outcome.letters, done.outcome.released, list(done.state.held)) == (
        [first],
        frozenset(),
        ["app.orders"],
    )
    done = replay(seeing, spark)
    assert (len(done.outcome.letters), done.outcome.late, done.outcome.released) == (4, {}, frozenset({"app.orders"}))
    assert (done.state.barrier, done.state.held, done.state.replayed) == (logs.marks[-1], {}, ())
    assert _differences(seeing, logs.history.at(logs.marks[-1])) == []
    counts = done.state.counts
    assert (counts.dead, counts.repeated, counts.pending, counts.applied) == (0, 0, 1, counts.rows - 1)
    assert _letters(seeing) == [("app.orders", True)] * 5
    assert status(seeing).to_dict()["dead_letters"] == 0
    again = replay(seeing, spark)
    assert (again.outcome.letters, again.state) == ([], done.state)


@pytest.mark.heavy
def test_a_replay_that_ends_anywhere_is_finished_by_the_next(
    spark: SparkSession, logs: Logs, tmp_path: Path, kill_at: list[str]
) -> None:
    run(logs.pipeline(tmp_path, "quarantine", store=False), spark, once=True)
    seeing = logs.pipeline(tmp_path, "quarantine", store=True, parallelism=1)
    kill_at.extend(["stage.before", "stage.after", "done.before", "done.after"])
    kill_at.extend(["letters.before", "letters.after", "begun.after"])
    kill_at.extend(["upsert.before", "upsert.after", "cleanup.before"])
    while kill_at:
        with pytest.raises(Killed):
            replay(seeing, spark)
    done = replay(seeing, spark)
    assert (done.outcome.letters, done.state.held, done.state.replayed) == ([], {}, ())
    assert _differences(seeing, logs.history.at(logs.marks[-1])) == []
    counts = done.state.counts
    assert (counts.dead, counts.repeated, counts.pending, counts.applied) == (0, 0, 1, counts.rows - 1)
    assert _letters(seeing) == [("app.orders", True)] * 5


@pytest.mark.heavy
def test_changes_that_come_too_late_are_reported_and_not_applied(
    spark: SparkSession, logs: Logs, tmp_path: Path
) -> None:
    blind = logs.pipeline(tmp_path, "continue", store=False)
    before = run(blind, spark, once=True).state
    assert (before.held, before.counts.dead, before.counts.pending) == ({}, 5, 0)
    seeing = logs.pipeline(tmp_path, "continue", store=True)
    done = replay(seeing, spark)
    assert (len(done.outcome.letters), done.outcome.rows, done.outcome.late) == (5, 1, {"app.orders": 4})
    counts = done.state.counts
    assert (counts.dead, counts.repeated, counts.pending) == (0, 4, 1)
    assert (counts.rows, counts.applied) == (before.counts.rows + 5, before.counts.applied)
    assert done.state.versions() == before.versions()
    [difference] = _differences(seeing, logs.history.at(logs.marks[-1]))
    assert "missing: " in difference


@pytest.mark.heavy
def test_letters_of_a_run_that_stopped_are_replayed_by_the_next_run(
    spark: SparkSession, logs: Logs, tmp_path: Path
) -> None:
    blind, seeing = (logs.pipeline(tmp_path, "stop", store=store) for store in (False, True))
    with pytest.raises(ProtocolError, match=r'set option "claim-check-storage-uri" to read it'):
        run(blind, spark, once=True)
    waiting = len(_letters(blind))
    outcome = look(seeing)
    assert (outcome.unread, outcome.letters) == (waiting, [])
    with pytest.raises(ProtocolError):
        run(blind, spark, once=True)
    assert _letters(blind) == [("app.orders", False)] * waiting
    state = run(seeing, spark, once=True).state
    assert (state.counts.dead, state.counts.pending) == (0, 1)
    assert _differences(seeing, logs.history.at(logs.marks[-1])) == []
    assert _letters(seeing) == [("app.orders", True)] * waiting


def test_a_position_without_a_letter_is_an_error(logs: Logs, tmp_path: Path) -> None:
    pipeline = logs.pipeline(tmp_path, "continue", store=True)
    with pytest.raises(ConfigError) as error:
        look(pipeline, ["app:0:99"])
    assert (
        str(error.value)
        == "there is no dead letter to replay at app:0:99; `changefeed dlq list` shows those that there are"
    )
