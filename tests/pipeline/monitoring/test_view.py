"""A run at one moment, from the places that it has passed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from changefeed.errors import SourceError
from changefeed.pipeline.monitoring.heartbeat import Heartbeat
from changefeed.pipeline.monitoring.phases import Phases
from changefeed.pipeline.monitoring.view import ASKING, READING, Failure, RunNow, RunView
from changefeed.pipeline.monitoring.watch import Watch
from changefeed.pipeline.retry import Retries, Retry
from changefeed.pipeline.state import Counts, State
from changefeed.redaction import remember
from changefeed.sources import Backlog
from changefeed.telemetry import observed, passed


class _Clock:
    """A clock that only moves when its seconds are set."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 3, 1, 12, tzinfo=UTC) + timedelta(seconds=self.seconds)


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def view(clock: _Clock) -> RunView:
    return RunView("p", 5.0, clock.now, phases=Phases(lambda: clock.seconds))


def _state(records: int, applied: int, barrier: int | None = None) -> State:
    return State(barrier=barrier, counts=Counts(records=records, rows=applied, applied=applied))


def test_the_stages_of_a_step_come_in_order(view: RunView) -> None:
    stages = []
    with observed(view):
        passes: list[tuple[str, dict[str, Any]]] = [
            ("run.begun", {"epoch": 3, "state": _state(100, 50)}),
            ("read.before", {}),
            ("read.after", {"backlog": Backlog(30, {("a", 0): 30})}),
            ("stage.before", {}),
            ("batch.read", {"records": 120}),
            ("planned", {"tables": 2, "schema_changes": Counter({"create_table": 1})}),
            ("upsert.after", {"write": "upsert", "files": 2, "bytes": 90}),
            ("append.after", {"write": "append", "files": None, "bytes": None}),
            ("letters.after", {"reasons": Counter({"json": 2})}),
            ("done.before", {}),
            ("done.after", {}),
            ("step", {"state": _state(120, 70, 5)}),
            ("wait.before", {"why": "waiting for new records"}),
        ]
        for name, facts in passes:
            passed(name, **facts)
            stages.append(view.now().stage)
    assert stages == [
        "finishing what was pending", ASKING, READING, READING, "planning", *["writing 2 tables"] * 4,
        *["publishing the cut"] * 3, "waiting for new records",
    ]  # fmt: skip
    now = view.now()
    assert (now.epoch, now.steps, now.applied, now.read, now.left, now.barrier) == (3, 1, 20, 20, 30, 5)
    assert now.behind == {"a": {0: 30}}
    tally = view.tally
    assert (tally.writes, tally.files, tally.bytes) == ({"upsert": 1, "append": 1}, 2, 90)
    assert (tally.schema_changes, tally.dead) == ({"create_table": 1}, {"json": 2})


def test_waits_count_for_no_rate(view: RunView, clock: _Clock) -> None:
    rates = list[float | None]()

    def step(applied: int, busy: float, idle: float) -> None:
        passed("stage.before")
        clock.seconds += busy
        passed("done.after")
        passed("step", state=_state(applied, applied))
        rates.append(view.now().rows_per_second)
        passed("wait.before", why="waiting for new records")
        clock.seconds += idle
        passed("wait.after")

    with observed(view):
        passed("run.begun", epoch=1, state=State())
        step(100, 10.0, 50.0)
        step(300, 2.0, 500.0)
        step(300, 1.0, 5.0)
    now = view.now()
    assert (now.rows_per_second, now.busy) == (None, 13.0), "the run waits"
    assert now.mean_rows_per_second == pytest.approx(300 / 13)
    assert rates == [None, 100.0, None], "the first has the start of Spark, the last no rows"


def test_questions_for_more_to_read_are_waits_too(view: RunView, clock: _Clock) -> None:
    with observed(view):
        passed("run.begun", epoch=1, state=State())
        clock.seconds += 3.0  # the source is asked for the first time, and has nothing
        for _ in range(10):
            passed("wait.before", why="waiting for new records")
            clock.seconds += 1.0
            passed("wait.after")
            clock.seconds += 0.25
        assert (view.now().busy, view.now().phases["idle"]) == (3.25, 12.25)  # the last question may find something
        passed("stage.before")
        assert view.now().busy == 3.25


def test_the_time_in_which_the_source_is_down_counts_for_no_rate(view: RunView, clock: _Clock) -> None:
    def after(seconds: float) -> tuple[float, float]:
        clock.seconds += seconds
        now = view.now()
        return now.busy, now.phases["idle"]

    with observed(view):
        passed("run.begun", epoch=1, state=State())
        assert after(2) == (2, 0)
        passed("read.before")
        assert after(5) == (7, 0)
        view.source_answers(view.now().stage_since, "refused")
        assert after(20) == (2, 25), "the question has waited from its beginning"
        view.source_answers(view.now().stage_since, "refused")
        assert after(1) == (2, 26)
        passed("read.after", backlog=None)
        assert after(1) == (3, 26)
        passed("stage.before")
        assert after(3) == (6, 26)
        view.source_answers(view.now().stage_since, "refused")
        assert after(30) == (6, 56), "records were read up to here"
        view.source_answers(view.now().stage_since, None)
        assert after(4) == (10, 56)
        passed("stage.after")
        assert view.now().phases["decode, stage"] == 7
        passed("wait.before", why="trying again")
        view.source_answers(view.now().stage_since, "refused")
        assert after(8) == (10, 64)
        passed("wait.after")
        assert view.now().busy == 10
        passed("read.before")
        view.source_answers(view.now().stage_since, "refused")
        clock.seconds += 9
    assert (sum(view.phases.finish().values()), view.now().busy) == (83, 10)


def test_a_cut_is_held_from_when_rows_wait(view: RunView, clock: _Clock) -> None:
    def step(barrier: int, rows: int, applied: int) -> datetime | None:
        clock.seconds += 60.0
        passed("step", state=State(barrier=barrier, counts=Counts(rows, rows, applied)))
        return view.now().barrier_since

    with observed(view):
        passed("run.begun", epoch=1, state=State())
        published = step(1, 1, 1)
        assert step(1, 1, 1) == published
        held = step(1, 2, 1)
        assert published is not None
        assert held == published + timedelta(minutes=2)
        assert step(1, 3, 1) == held
        assert step(2, 3, 3) == published + timedelta(minutes=4)


def test_the_newest_steps_keep_their_phases(view: RunView, clock: _Clock) -> None:
    with observed(view):
        passed("run.begun", epoch=1, state=State())
        for step in range(1, 71):
            passed("stage.before")
            clock.seconds += step
            passed("stage.after")
            clock.seconds += 0.5
            passed("done.before")
            passed("done.after")
            passed("step", state=_state(step, step), step=step)
            passed("wait.before", why="waiting for new records")
            clock.seconds += 1000
            passed("wait.after")
    phases = view.now().step_phases
    assert list(phases) == list(range(11, 71))
    assert phases[70] == {"decode, stage": 70.0, "plan": 0.5}
    decoded = msgspec.json.decode(msgspec.json.encode(view.now()), type=RunNow)
    assert decoded.step_phases == phases


def test_a_partition_that_was_read_to_its_end_has_nothing_left(view: RunView) -> None:
    with observed(view):
        passed("read.after", backlog=Backlog(5, {("a", 0): 5}))
        passed("read.after", backlog=Backlog(0))
    assert (view.now().left, view.now().behind) == (0, {"a": {0: 0}})
    with observed(view):
        passed("read.after", backlog=None)
    assert view.now().left is None


def test_a_log_of_bytes_is_left_in_bytes_and_time(view: RunView, clock: _Clock) -> None:
    with observed(view):
        passed("read.after", backlog=Backlog(900))  # rows of a first copy
        clock.seconds += 100
        passed("read.after", backlog=Backlog(None, bytes=6000))
    assert (view.now().done_of, view.now().seconds_left) == ((0, 6000), None)
    clock.seconds += 2
    with observed(view):
        passed("read.after", backlog=Backlog(None, bytes=4000))
    now = view.now()
    assert (now.done_of, now.left, now.seconds_left) == ((2000, 6000), None, 4.0)
    assert now.backlog == Backlog(None, bytes=4000, counted=now.at)
    with observed(view):
        passed("read.after", backlog=Backlog(0))
    assert (view.now().done_of, view.now().left, view.now().seconds_left) == ((6000, 6000), None, 0.0)


def test_errors_are_shown_without_secrets(view: RunView) -> None:
    remember("password", "s3cret-of-the-view")
    with observed(view):
        passed("retry", error=OSError("s3cret-of-the-view is wrong"))
    view.source_answers(view.now().stage_since, "s3cret-of-the-view:9092")
    now = view.now()
    assert now.error is not None
    assert now.source_down is not None
    assert "s3cret" not in now.error.reason + now.source_down.reason
    assert now.retries == 1


def test_runs_in_one_process_do_not_see_each_other() -> None:
    views = [RunView(name, 5.0) for name in "ab"]
    ready = threading.Barrier(2, timeout=30)

    def run(view: RunView) -> None:
        with observed(view), ThreadPoolExecutor(1) as pool:
            ready.wait()
            passed("read.before")
            pool.submit(copy_context().run, passed, "wait.before", why=view.pipeline).result()
            ready.wait()

    threads = [threading.Thread(target=run, args=(view,)) for view in views]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [view.now().stage for view in views] == ["a", "b"]
    passed("read.before")
    assert [view.now().stage for view in views] == ["a", "b"]


def test_a_source_that_does_not_answer_is_shown_and_its_return_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("changefeed.pipeline.monitoring.watch._TICK", 0.02)
    monkeypatch.setattr("changefeed.pipeline.monitoring.watch._SILENT", 0.1)
    why = "b:9092 does not answer: Connection refused"
    answers, shown = list[str | None]([why]), list[RunNow]()
    view = RunView("p", 5.0)
    with Watch(view, lambda: answers[0], None, shown.append).watching():
        passed("read.before")
        _until(lambda: any(now.source_down for now in shown))
        down = view.now().source_down
        assert down is not None
        assert down.reason == why
        answers[0] = None
        passed("read.after", backlog=None)
        assert view.now().source_down is None
    assert shown[-1].source_down is None


def test_a_source_that_can_be_reached_is_not_asked_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task may read for minutes."""
    monkeypatch.setattr("changefeed.pipeline.monitoring.watch._TICK", 0.01)
    monkeypatch.setattr("changefeed.pipeline.monitoring.watch._SILENT", 0.5)
    asked, shown, view = list[float](), list[RunNow](), RunView("p", 5.0)
    with Watch(view, lambda: asked.append(time.monotonic()), None, shown.append).watching():
        passed("read.before")
        passed("read.after", backlog=None)
        _until(lambda: len(asked) > 2)
    assert all(later - earlier >= 0.5 for earlier, later in pairwise(asked))
    assert not any(now.source_down for now in shown)


def test_a_source_that_refuses_at_once_is_down_from_its_first_refusal_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("changefeed.pipeline.monitoring.watch._TICK", 0.02)
    why = "b:3306: Connection refused"
    answers, downs, limits = list[str | None]([why]), list[Failure | None](), list[int | None]()
    view = RunView("p", 5.0)
    watch = Watch(view, lambda: answers[0])

    def sleep(seconds: float) -> None:
        if answers[0] is not None:
            _until(lambda: view.now().source_down is not None)
            downs.append(view.now().source_down)

    def tell(retry: Retry) -> None:
        limits.append(retry.limit)
        if len(limits) == 5:
            answers[0] = None

    retries = Retries(2, 0.0625, tell, sleep=sleep, source_is_gone=watch.source_is_gone)
    with watch.watching():
        assert not watch.source_is_gone(), "it has never answered this run, so its address may be wrong"
        passed("read.before")
        passed("read.after", backlog=None)
        while retries.wait(SourceError(why, transient=True), 0):
            passed("read.before")
        passed("read.after", backlog=None)
        assert view.now().source_down is None
    assert limits == [2, 2, None, None, None], "the limit is for a source that can be reached"
    assert [down is not None and (down.reason, down.since) for down in downs] == [
        (why, downs[0] and downs[0].since)
    ] * len(downs)


def test_what_watches_cannot_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("changefeed.pipeline.monitoring.watch._TICK", 0.02)
    calls = []

    def show(now: RunNow) -> None:
        calls.append(now)
        raise ValueError("the terminal is gone")

    with Watch(RunView("p", 5.0), lambda: None, Heartbeat(None), show).watching():  # type: ignore[arg-type]
        _until(lambda: len(calls) > 3)


def _until(condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
