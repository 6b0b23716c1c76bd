"""The conformance suite of `StateStore`, which every implementation must pass.

An implementation gets its tests by a class of its own:

    class TestFiles(Conformance):
        @pytest.fixture
        def kind(self, tmp_path): return Files(tmp_path)

        def another(self, folders): return Files(folders.mktemp("another"))

A `Kind` opens the store. `tests/sinks/conformance.py` shows how to run a suite from outside. An implementation that packs nothing
and deletes nothing does not pass the failpoints `pack.…` and `tidy.…`; the tests of these are skipped.
Runs take turns by failpoints: `At` calls a function when a run passes one, as if another process had interfered.
"""

from __future__ import annotations

import operator
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice

import pytest

from changefeed import telemetry
from changefeed.errors import ConfigError, FencedError
from changefeed.pipeline.state import State
from changefeed.pipeline.store.base import Keep, StateStore, StoreReader
from tests.killed import Killed
from tests.pipeline.store.values import essence, plan, state, wanted

Clock = Callable[[], datetime]


class Kind(ABC):
    """A kind of store, with an empty place of its own."""

    page = 5  # steps after which the implementation may pack old cuts; small, so that it does in these tests

    @abstractmethod
    def store(self, pipeline: str = "shop", keep: Keep | None = None, now: Clock | None = None) -> StateStore:
        """The store for a new run."""

    @abstractmethod
    def reading(self, pipeline: str = "shop") -> StoreReader:
        """The store for a reader."""

    @abstractmethod
    def make_newer(self) -> str:
        """Rewrites the stored files as those of a newer version, with format 99; returns the text that the error must contain."""


class At:
    """Functions to call at failpoints, each once: `at["begun.before"] = function`."""

    def __init__(self) -> None:
        self.wanted: dict[str, Callable[[], object]] = {}
        self.passed: list[str] = []

    def __setitem__(self, name: str, act: Callable[[], object]) -> None:
        self.wanted[name] = act

    def kill(self, name: str, passes: int = 1) -> None:
        """Ends the run there."""

        def act() -> None:
            nonlocal passes
            passes -= 1
            if not passes:
                raise Killed(name)
            self.wanted[name] = act

        self.wanted[name] = act

    def on_pass(self, name: str) -> None:
        """For `telemetry.on_pass`."""
        self.passed.append(name)
        act = self.wanted.pop(name, None)
        if act is not None:
            act()


def claimed(kind: Kind, **more: object) -> StateStore:
    """The store of a new run, which has claimed it."""
    store = kind.store(**more)  # type: ignore[arg-type]
    store.claim()
    return store


def go(store: StateStore, upto: int) -> None:
    """Does steps, with plans and without, up to the step `upto`."""
    for step in range(store.step + 1, upto + 1):
        if step % 3:
            store.begin(plan(step))
        store.finish(state(step))


def check(kind: Kind, upto: int) -> None:
    """Asserts that every reader gets the steps up to `upto`."""
    latest = kind.reading().latest()
    assert latest is not None
    assert (latest.step, latest.state) == (upto, state(upto) if upto else State())
    cuts = list(kind.reading().history())
    assert [cut.step for cut in cuts] == list(range(1, upto + 1))
    for cut in cuts:
        assert essence(cut) == wanted(cut.step, cut.epoch, cut.wrote)
    assert [cut.epoch for cut in cuts] == sorted(cut.epoch for cut in cuts)
    assert list(kind.reading().history(newest_first=True)) == cuts[::-1]


POINTS = (
    "epoch.before", "epoch.after", "begun.before", "begun.after", "done.before", "done.after",
    "pack.before", "pack.after", "tidy.before", "tidy.between", "tidy.after",
)  # fmt: skip


class Conformance:
    """The tests. A subclass has the fixture `kind` and the method `another`."""

    @pytest.fixture
    def at(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[At]:
        at = At()
        monkeypatch.setattr(telemetry, "on_pass", at.on_pass)
        yield at
        at.wanted.clear()

    # Claims.

    def test_a_new_store(self, kind: Kind) -> None:
        assert kind.reading().latest() is None
        assert list(kind.reading().history()) == []
        store = claimed(kind)
        assert (store.epoch, store.step, store.state, store.unfinished) == (1, 0, State(), None)
        assert len(store.begun_by) == 0
        assert store.owner.startswith("changefeed:shop:")
        latest = kind.reading().latest()
        assert latest is not None
        assert (latest.owner, latest.epoch, latest.step, latest.at) == (store.owner, 1, 0, None)
        assert (latest.state, latest.unfinished) == (State(), None)

    def test_the_owner_stays(self, kind: Kind) -> None:
        owner = claimed(kind).owner
        go(claimed(kind), kind.page * 4)
        assert claimed(kind).owner == owner

    def test_two_stores_have_two_owners(self, kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> None:
        owner = claimed(kind).owner
        other = self.another(tmp_path_factory)
        assert claimed(other).owner != owner

    def another(self, folders: pytest.TempPathFactory) -> Kind:
        """Another place."""
        raise NotImplementedError

    def test_another_pipeline_is_refused(self, kind: Kind) -> None:
        go(claimed(kind), 2)
        for refused in (
            lambda: claimed(kind, pipeline="other"),
            kind.reading("other").latest,
            lambda: list(kind.reading("other").history()),
        ):
            with pytest.raises(ConfigError, match="is the ledger of another pipeline"):
                refused()
        check(kind, 2)
        assert claimed(kind).epoch == 2

    @pytest.mark.parametrize("name", ["", "a/b", "../x", "x" * 300, 'q"u\\o', "é\u2028\n", "null", "0", "\0", "🦆"])
    def test_names_are_text(self, kind: Kind, name: str) -> None:
        go(claimed(kind, pipeline=name), 2)
        store = claimed(kind, pipeline=name)
        assert (store.epoch, store.step) == (2, 2)
        assert store.owner.startswith(f"changefeed:{name}:")
        with pytest.raises(ConfigError):
            claimed(kind, pipeline=f"{name} ")

    def test_only_one_of_several_claims_at_once_counts(self, kind: Kind, at: At) -> None:
        """Eight runs have read the same epoch before any takes it."""
        claimed(kind)
        all_know, runs = threading.Barrier(8), [kind.store() for _ in range(8)]
        errors: list[BaseException] = []

        def wait(name: str) -> None:
            if name == "epoch.before":
                all_know.wait(60)

        def claim(run: StateStore) -> None:
            try:
                run.claim()
            except BaseException as error:
                errors.append(error)

        telemetry.on_pass = wait
        threads = [threading.Thread(target=claim, args=(run,)) for run in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [type(error) for error in errors] == [FencedError] * 7
        assert all("of pipeline shop took epoch 2 at the same moment; this one stops." in str(e) for e in errors)
        assert sum(not run.is_fenced() for run in runs) == 1

    @pytest.mark.parametrize("names", [("shop", "shop"), ("shop", "other")])
    def test_only_one_of_several_first_claims_counts(self, kind: Kind, at: At, names: tuple[str, str]) -> None:
        start, errors, runs = threading.Barrier(8), list[BaseException](), [kind.store(names[n % 2]) for n in range(8)]

        def claim(run: StateStore) -> None:
            start.wait(60)
            try:
                run.claim()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=claim, args=(run,)) for run in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {type(error) for error in errors} <= {FencedError, ConfigError}
        through = [run for run in runs if run.owner]
        assert len({run.owner for run in through}) <= 1
        assert sum(not run.is_fenced() for run in through if run.epoch) == 1
        wrong = [error for error in errors if isinstance(error, ConfigError)]
        assert len(wrong) == (4 if len(set(names)) == 2 else 0)

    @pytest.mark.parametrize("deed", ["begin", "finish", "both"])
    def test_a_claim_while_an_older_run_goes_on(self, kind: Kind, at: At, deed: str) -> None:
        older, newer = claimed(kind), kind.store()
        go(older, 2)

        def between() -> None:
            if deed != "finish":
                older.begin(plan(3))
            if deed != "begin":
                older.finish(state(3))

        at["epoch.before"] = between
        newer.claim()
        if deed == "begin":
            assert (newer.step, newer.unfinished, newer.begun_by) == (2, plan(3), range(1, newer.epoch + 1))
        else:
            assert (newer.step, newer.state, newer.unfinished) == (3, state(3), None)
        assert older.is_fenced()
        go(newer, 4)
        check(kind, 4)

    # Steps.

    def test_finished_steps_can_be_read(self, kind: Kind) -> None:
        store = claimed(kind)
        for step in range(1, 4):
            store.finish(state(step))
            assert (store.step, store.state) == (step, state(step))
            again = kind.reading().latest()
            assert again is not None
            assert (again.step, again.state, again.epoch) == (step, state(step), 1)
        check(kind, 3)
        newer = claimed(kind)
        assert (newer.epoch, newer.step, newer.state, newer.unfinished) == (2, 3, state(3), None)

    def test_the_state_may_be_of_any_size(self, kind: Kind) -> None:
        for tables in (0, 300, 1):
            claimed(kind).finish(state(8, tables))
            assert claimed(kind).state == state(8, tables)

    def test_a_plan_that_is_not_done_is_found(self, kind: Kind) -> None:
        first = claimed(kind)
        go(first, 2)
        first.begin(plan(3, "shop/between"))
        assert first.unfinished is None, "its own plan is not one to recover"
        second, third = claimed(kind), claimed(kind)
        assert (second.unfinished, second.begun_by) == (plan(3, "shop/between"), range(1, 3))
        assert (third.unfinished, third.begun_by, third.step) == (plan(3, "shop/between"), range(1, 4), 2)
        latest = kind.reading().latest()
        assert latest is not None
        assert (latest.unfinished, latest.step, latest.epoch) == (plan(3, "shop/between"), 2, 3)
        third.finish(state(3))
        assert (third.unfinished, len(third.begun_by)) == (None, 0)
        assert claimed(kind).unfinished is None
        check(kind, 3)
        assert [cut.wrote for cut in kind.reading().history(2)] == [("shop/between", "shop/gone")]

    def test_a_plan_that_is_given_up(self, kind: Kind) -> None:
        """`changefeed repair --rebuild --all` does this: another state follows than the plan's."""
        go(claimed(kind), 2)
        claimed(kind).begin(plan(3, "shop/between"))
        store = claimed(kind)
        store.finish(State())
        assert (claimed(kind).state, claimed(kind).unfinished) == (State(), None)
        [cut] = kind.reading().history(2)
        assert cut.wrote == ("shop/between", "shop/gone", "shop/t0", "shop/t1", "shop/t2")

    def test_times_go_with_the_clock(self, kind: Kind) -> None:
        start, days = datetime(2026, 1, 1, tzinfo=UTC), 0
        store = kind.store(now=lambda: start + timedelta(days=days))
        store.claim()
        for days in range(1, 4):
            store.finish(state(days))
        assert [cut.at for cut in kind.reading().history()] == [start + timedelta(days=n) for n in (1, 2, 3)]
        latest = kind.reading().latest()
        assert latest is not None
        assert latest.at == start + timedelta(days=3)

    def test_times_never_go_back(self, kind: Kind) -> None:
        """`expire` reads no further than the age asked for."""
        start = datetime(2026, 1, 1, tzinfo=UTC)
        for day in (5, 3, 4, 6):
            store = kind.store(now=partial(operator.add, start, timedelta(days=day)))
            store.claim()
            store.finish(state(store.step + 1))
        assert [(cut.at - start).days for cut in kind.reading().history()] == [5, 5, 5, 6]

    # Fencing.

    @pytest.mark.parametrize("newer_steps", [0, 1, 2, 30])
    @pytest.mark.parametrize("stands", ["claimed", "begun", "done"])
    def test_an_older_run_is_fenced_whenever_it_wakes_up(self, kind: Kind, stands: str, newer_steps: int) -> None:
        """After 30 steps of the newer run, the older run's entries in the log have been packed and deleted."""
        older = claimed(kind)
        go(older, 3 if stands == "done" else 2)
        if stands == "begun":
            older.begin(plan(3))
        assert not older.is_fenced()
        newer = claimed(kind)
        go(newer, newer.step + newer_steps)
        upto = newer.step
        assert older.is_fenced()
        for _ in range(2):
            for deed in (partial(older.begin, plan(9)), partial(older.finish, state(9))):
                with pytest.raises(FencedError) as caught:
                    deed()
                assert str(caught.value).endswith(
                    "epoch 2 of pipeline shop has taken over; this run is epoch 1 and stops. Was the same pipeline started "
                    "twice?"
                )
        assert not newer.is_fenced()
        check(kind, upto)
        go(newer, upto + kind.page * 2 + 1)
        check(kind, upto + kind.page * 2 + 1)

    @pytest.mark.parametrize("newer_steps", [0, 1, 30])
    @pytest.mark.parametrize("point", ["begun.before", "done.before", "pack.before", "pack.after"])
    def test_a_run_is_taken_over_in_the_middle_of_a_call(
        self, kind: Kind, at: At, point: str, newer_steps: int
    ) -> None:
        older, steps = claimed(kind), kind.page + (point.startswith("pack"))
        go(older, steps - 1)
        newer = kind.store()

        def take_over() -> None:
            newer.claim()
            go(newer, newer.step + newer_steps)

        at[point] = take_over
        if point.startswith("pack") and not _passes(kind, at, point, older, steps):
            pytest.skip("it packs nothing")
        if not newer.epoch:
            with pytest.raises(FencedError):
                go(older, steps + 1)
        check(kind, newer.step)
        go(newer, newer.step + kind.page * 2)
        check(kind, newer.step)

    @pytest.mark.parametrize("point", ["begun.after", "done.after", "tidy.before", "tidy.between", "tidy.after"])
    def test_a_run_is_taken_over_after_a_write(self, kind: Kind, at: At, point: str) -> None:
        """The write counts; the files that the older run still deletes are not used by any run."""
        older, newer = claimed(kind), kind.store()
        go(older, kind.page)

        def take_over() -> None:
            newer.claim()
            newer.finish(state(newer.step + 1))
            go(newer, newer.step + kind.page * 2)

        at[point] = take_over
        try:
            go(older, kind.page * 3)
        except FencedError:
            assert newer.epoch
        else:
            assert point.startswith("tidy"), "it was not taken over"
            pytest.skip("it tidies nothing")
        check(kind, newer.step)
        go(newer, newer.step + kind.page)
        check(kind, newer.step)

    # Crashes.

    @pytest.mark.parametrize("passes", [1, 2, 4])
    @pytest.mark.parametrize("point", POINTS)
    def test_the_next_run_goes_on_from_a_killed_one(self, kind: Kind, at: At, point: str, passes: int) -> None:
        at.kill(point, passes)
        done = 0
        for _ in range(60):
            store = kind.store()
            try:
                store.claim()
                assert store.step >= done
                if store.unfinished:
                    assert (store.unfinished, len(store.begun_by) > 0) == (plan(store.step + 1), True)
                    store.finish(state(store.step + 1))
                while store.step < kind.page * 6:
                    done = store.step
                    go(store, store.step + 1)
            except Killed:
                latest = kind.reading().latest()
                assert latest is None or latest.step in (done, done + 1)
                check(kind, latest.step) if latest else None
            if store.step == kind.page * 6:
                break
        check(kind, kind.page * 6)
        check(kind, kind.page * 6)

    # Reading.

    def test_the_history_has_the_finished_steps(self, kind: Kind) -> None:
        upto = kind.page * 40 + 3
        for stop in range(kind.page * 8, upto + kind.page * 8, kind.page * 8):
            go(claimed(kind), min(stop, upto))
        check(kind, upto)
        cuts = list(kind.reading().history())
        for after in (0, 1, kind.page, kind.page + 1, upto - 2, upto - 1, upto, upto + 5):
            assert list(kind.reading().history(after)) == cuts[after:]
            assert list(kind.reading().history(after, newest_first=True)) == cuts[after:][::-1]
        assert list(islice(kind.reading().history(newest_first=True), 2)) == cuts[:-3:-1]

    @pytest.mark.parametrize("newest_first", [False, True])
    def test_the_history_is_whole_while_a_run_goes_on(self, kind: Kind, newest_first: bool) -> None:
        store = claimed(kind)
        go(store, kind.page * 3 + 2)
        steps = []
        for cut in kind.reading().history(newest_first=newest_first):
            steps.append(cut.step)
            if len(steps) % 2:
                go(store, store.step + kind.page if store.step < kind.page * 12 else store.step)
        assert steps == sorted(steps, reverse=newest_first)
        assert steps == list(range(min(steps), max(steps) + 1))[:: -1 if newest_first else 1]
        assert set(steps) >= set(range(1, kind.page * 3 + 3))

    def test_a_reader_beside_a_run(self, kind: Kind) -> None:
        """Every state that the reader gets was published."""
        store, stop = claimed(kind), threading.Event()
        errors: list[BaseException] = []

        def read() -> None:
            last = 0
            try:
                while not stop.is_set():
                    latest = kind.reading().latest()
                    assert latest is not None
                    assert latest.step >= last
                    assert latest.state == (state(latest.step) if latest.step else State())
                    last = latest.step
                    steps = [cut.step for cut in kind.reading().history()]
                    assert steps == list(range(1, len(steps) + 1))
                    assert len(steps) >= last
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        try:
            go(store, kind.page * 30)
        finally:
            stop.set()
            thread.join()
        assert not errors, errors
        check(kind, kind.page * 30)

    # Retention.

    def test_some_cuts_are_kept(self, kind: Kind) -> None:
        store = claimed(kind, keep=Keep(cuts=12))
        for _ in range(8):
            go(store, store.step + kind.page)
            steps = [cut.step for cut in kind.reading().history()]
            assert steps == list(range(steps[0], store.step + 1))
            assert len(steps) >= min(12, store.step)
            assert len(steps) <= 12 + 2 * kind.page
        assert list(kind.reading().history(newest_first=True))[-1].step == steps[0]
        assert next(iter(kind.reading().history(1))).step == steps[0]
        newer = claimed(kind, keep=Keep(cuts=12))
        assert (newer.step, newer.state) == (store.step, state(store.step))
        go(newer, newer.step + kind.page)
        everything = claimed(kind)
        go(everything, everything.step + kind.page * 4)
        assert len(list(kind.reading().history())) >= kind.page * 4 + 12

    def test_cuts_of_a_time_are_kept(self, kind: Kind) -> None:
        start, day = datetime(2026, 1, 1, tzinfo=UTC), 0
        store = kind.store(keep=Keep(age=timedelta(days=10)), now=lambda: start + timedelta(days=day))
        store.claim()
        for day in range(1, 50):
            store.finish(state(day))
        steps = [cut.step for cut in kind.reading().history()]
        assert steps == list(range(steps[0], 50))
        assert 39 - 2 * kind.page <= steps[0] <= 39

    # Formats.

    def test_a_newer_format_is_refused(self, kind: Kind) -> None:
        go(claimed(kind), 2)
        named = kind.make_newer()
        for refused in (lambda: claimed(kind), kind.reading().latest, lambda: list(kind.reading().history())):
            with pytest.raises(ConfigError) as caught:
                refused()
            assert "is in format 99, written by changefeed 7.0.0; this is changefeed " in str(caught.value)
            assert str(caught.value).endswith("which reads formats up to 1: use changefeed 7.0.0 or newer")
            assert named in str(caught.value)


def _passes(kind: Kind, at: At, point: str, store: StateStore, steps: int) -> bool:
    """Whether the run comes to the point within these steps; it must then have been fenced."""
    try:
        go(store, steps + 1)
    except FencedError:
        return True
    return point in at.passed
