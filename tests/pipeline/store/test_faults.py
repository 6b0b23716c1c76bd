"""The store of files on a disk that loses answers, is full, or is used by several processes at once."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from changefeed.errors import ChangefeedError, FencedError, SinkError
from changefeed.local_files import local_path
from changefeed.pipeline.state import State
from changefeed.pipeline.store import files
from changefeed.pipeline.store.files import FileStore
from changefeed.storage.local import LocalFolder
from tests.pipeline.store.conformance import check, claimed, go
from tests.pipeline.store.places import Files
from tests.pipeline.store.values import plan, state


class Faulty(LocalFolder):
    """A folder that fails at chosen puts; `fault` is called with the name and with what makes the file."""

    fault: Callable[[str, Callable[[], bool]], bool] | None = None

    def create(self, name: str, data: bytes) -> bool:
        if Faulty.fault is None:
            return LocalFolder.create(self, name, data)
        return Faulty.fault(name, lambda: LocalFolder.create(self, name, data))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setattr(files, "_PAGE", 5)
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(Faulty, "fault", None)
    place = Files(tmp_path)
    place.folder = Faulty(str(place.path))
    return place


def _lost(name: str, put: Callable[[], bool]) -> bool:
    """The file is made, but the answer is lost."""
    put()
    raise SinkError("the connection was reset", transient=True)


def _twice(name: str, put: Callable[[], bool]) -> bool:
    """The client tries again by itself, and finds its own file."""
    put()
    return put()


@pytest.mark.parametrize("fault", [_lost, _twice])
def test_an_answer_that_is_lost(place: Files, monkeypatch: pytest.MonkeyPatch, fault: Any) -> None:
    """The fault hits every file that is made: entries, definitions, pages."""
    monkeypatch.setattr(Faulty, "fault", staticmethod(fault))
    go(claimed(place), 13)
    go(claimed(place), 24)
    check(place, 24)


@pytest.mark.parametrize("number", range(1, 31))
def test_a_put_that_fails_is_an_error_and_nothing_has_happened(
    place: Files, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    left = [number]

    def fail(name: str, put: Callable[[], bool]) -> bool:
        left[0] -= 1
        if not left[0]:
            raise SinkError("the storage is away", transient=True)
        return put()

    monkeypatch.setattr(Faulty, "fault", staticmethod(fail))
    with pytest.raises(SinkError, match="the storage is away"):
        go(claimed(place), 20)
    latest = place.reading().latest()
    if latest:
        check(place, latest.step)
    go(claimed(place), 20)
    check(place, 20)


def test_a_write_that_failed_and_landed_stops_the_run(place: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking fails too, so the run cannot know. A run that goes on nevertheless does not write the step twice."""
    store = claimed(place)
    go(store, 2)
    monkeypatch.setattr(Faulty, "fault", staticmethod(_lost))
    monkeypatch.setattr(Faulty, "read", lambda self, name: (_ for _ in ()).throw(SinkError("away", transient=True)))
    with pytest.raises(SinkError, match="the connection was reset"):
        store.finish(state(3))
    monkeypatch.undo()
    with pytest.raises(
        SinkError, match=r"a write that was reported as failed has succeeded after all\. Run again"
    ) as caught:
        store.finish(state(3))
    assert caught.value.transient
    check(place, 3)
    assert claimed(place).step == 3


def _claim_and_go(path: str, go_on: Any, results: Any) -> None:
    """Runs in a process of its own: claims, goes on until it is fenced, and reports the steps that it has done."""
    files._PAGE = 5
    store, done = FileStore(LocalFolder(path), "shop"), []
    results.put("here")
    go_on.wait(300)
    try:
        store.claim()
        for _ in range(25):
            if store.unfinished is None:
                store.begin(plan(store.step + 1))
            store.finish(state(store.step + 1))
            done.append(store.step)
        results.put((store.epoch, done, ""))
    except FencedError:
        results.put((store.epoch, done, "fenced"))
    except BaseException as error:
        results.put((store.epoch, done, repr(error)))


def test_processes_that_fence_each_other(tmp_path: Path) -> None:
    """Four processes at once on a real disk: no step is done twice, and no acknowledged step is lost."""
    place, context = Files(tmp_path), multiprocessing.get_context("spawn")
    go_on, results = context.Event(), context.Queue()
    processes = [context.Process(target=_claim_and_go, args=(str(place.path), go_on, results)) for _ in range(4)]
    for process in processes:
        process.start()
    assert [results.get(timeout=300) for _ in processes] == ["here"] * 4
    go_on.set()
    reports = [results.get(timeout=300) for _ in processes]
    for process in processes:
        process.join()
    assert {error for _, _, error in reports} <= {"", "fenced"}
    done = [(step, epoch) for epoch, steps, _ in reports for step in steps]
    assert len({step for step, _ in done}) == len(done), "a step was done by two"
    cuts = {cut.step: cut.epoch for cut in place.reading().history()}
    assert all(cuts[step] == epoch for step, epoch in done)
    check(place, max(cuts))


def test_a_full_disk_is_the_systems_error_and_leaves_no_files(place: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    store = claimed(place)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        store.finish(state(1))
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, None)
    assert not [path for path in place.files() if ".tmp" in path.parts]
    check(place, 0)


def test_a_file_system_without_hard_links_is_named_in_the_error(place: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*names: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(SinkError) as caught:
        claimed(place)
    assert str(caught.value) == (
        f"{place.path}: this file system has no hard links (Operation not permitted), without which two runs could "
        "overwrite each other's files: choose a sink.path on another file system"
    )


def test_temporary_files_of_a_dead_writer_are_deleted_a_day_later(place: Files) -> None:
    store = claimed(place)
    old, new = (place.path / ".tmp" / name for name in ("old", "new"))
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (time.time() - 90_000,) * 2)
    go(store, 6)
    assert (old.exists(), new.exists()) == (False, True)


def test_the_log_stays_short_and_definitions_are_written_when_they_change(place: Files) -> None:
    store = claimed(place)
    for upto in range(7, 200, 7):
        go(store, upto)
        assert len(place.entries()) <= 5 * 2 + 3
        assert len(list((place.path / "definitions").iterdir())) <= 5
    constant = state(1, 2)
    for _ in range(6):
        store.finish(constant)
    before = sorted((place.path / "definitions").iterdir())
    assert len(before) == 1
    for _ in range(30):
        store.finish(constant)
    assert sorted((place.path / "definitions").iterdir()) == before


def test_a_run_that_is_behind_deletes_nothing_that_a_newer_one_needs(place: Files) -> None:
    """The run is held before its deletions while the newer one writes definitions of its own."""
    from changefeed import telemetry

    older, newer = claimed(place), place.store()
    go(older, 5)

    def on_pass(name: str) -> None:
        if name == "tidy.before" and not newer.epoch:
            newer.claim()
            newer.finish(state(40, 6))

    telemetry.on_pass = on_pass
    try:
        go(older, 6)
    finally:
        telemetry.on_pass = None
    assert newer.epoch == 2
    latest = place.reading().latest()
    assert latest is not None
    assert latest.state == state(40, 6)
    assert claimed(place).state == state(40, 6)


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_reader_beside_a_run_that_packs_gets_whole_histories(place: Files, newest_first: bool) -> None:
    """For a while, a run does steps before each read of the reader."""
    store, reads = claimed(place), [0]
    go(store, 12)
    reader = place.reading()

    class Moving(LocalFolder):
        def read(self, name: str) -> bytes | None:
            if reads[0] < 40:
                reads[0] += 1
                go(store, store.step + 3)
            return LocalFolder.read(self, name)

    object.__setattr__(reader, "folder", Moving(str(place.path)))
    latest = reader.latest()
    assert latest is not None
    assert latest.state == (state(latest.step) if latest.step else State())
    steps = [cut.step for cut in reader.history(newest_first=newest_first)]
    assert sorted(steps) == list(range(1, len(steps) + 1))
    assert len(steps) >= 12


@pytest.mark.heavy
def test_the_number_of_files_read_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files listed and read for the newest state and the newest cut, after 30 and after 3 000 steps."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    reads: list[str] = []

    class Counting(LocalFolder):
        def names(self, below: str = "", start_after: str = "") -> list[str]:
            names = LocalFolder.names(self, below, start_after)
            reads.extend([below] * (len(names) // 250 + 1))
            return names

        def read(self, name: str) -> bytes | None:
            reads.append(name)
            return LocalFolder.read(self, name)

    place, counted = Files(tmp_path), {}
    reader = place.reading()
    object.__setattr__(reader, "folder", Counting(str(place.path)))
    store = claimed(place)
    for upto in (30, 3000):
        for step in range(store.step + 1, upto + 1):
            store.finish(state(1) if step < upto else state(step))
        for what, ask in (("latest", reader.latest), ("newest", lambda: next(iter(reader.history(newest_first=True))))):
            reads.clear()
            ask()
            counted[upto, what] = len(reads)
    assert counted[3000, "latest"] == counted[30, "latest"] <= 4
    assert counted[3000, "newest"] == counted[30, "newest"] <= 3


@pytest.mark.parametrize(
    "path, local",
    [("/a b/c", "/a b/c"), ("file:///a/b", "/a/b"), ("file:/a", "/a"), ("s3a://b/c", None), ("/a:b/#?", "/a:b/#?")],
)
def test_paths_on_this_machine(path: str, local: str | None) -> None:
    assert local_path(path) == local


def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Files(tmp_path)
    claimed(place)

    def refused(*args: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(ChangefeedError) as caught:
        place.reading().latest()
    assert str(caught.value) == f"{place.path}/log: Permission denied"


def test_a_small_disk(tmp_path: Path) -> None:
    """A real one, which is full at some step; nothing is lost, and more room is enough."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small disk can be mounted by root alone")
    try:
        place = Files(folder)
        store = claimed(place)
        with pytest.raises(OSError, match="No space left") as caught:
            go(store, 1000)
        assert caught.value.errno == errno.ENOSPC
        done = store.step
        assert done > 5
        check(place, done)
        with pytest.raises(OSError, match="No space left"):
            go(claimed(place), 1000)
        subprocess.run(["mount", "-o", "remount,size=100m", str(folder)], check=True)
        store = claimed(place)
        assert store.step == done
        go(store, done + 120)
        check(place, done + 120)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
