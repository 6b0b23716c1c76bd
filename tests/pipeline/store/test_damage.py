"""After any damage to a file of a ledger, reads are right, or an error names the ledger and the way out.

One loss goes unnoticed in the ledger: without the newest entry it is the ledger before that entry. The tables are then
ahead of it, which `guard.py` detects.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from changefeed.errors import ChangefeedError, ConfigError, SinkError
from changefeed.pipeline.planning.actions import Plan
from changefeed.pipeline.state import State
from changefeed.pipeline.store import files
from changefeed.pipeline.store.base import Cut, Latest
from changefeed.pipeline.store.entries import opened, sealed
from tests.pipeline.store.conformance import claimed, go
from tests.pipeline.store.places import Files, write
from tests.pipeline.store.values import plan, state

Value = tuple[Latest | None, list[Cut], tuple[int, State, Plan | None]]
STEPS = 23  # four pages, and steps that are not packed; the last is begun


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setattr(files, "_PAGE", 5)
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    place = Files(tmp_path)
    for upto in (8, 15, STEPS - 1):
        go(claimed(place), upto)
    claimed(place).begin(plan(STEPS))
    claimed(place)
    return place


def _read(place: Files, folder: Path) -> Value:
    """The whole content of the ledger, read from a copy."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(place.path, folder / "ledger")
    copy = Files(folder)
    latest, history = copy.reading().latest(), list(copy.reading().history())
    assert history[::-1] == list(copy.reading().history(newest_first=True))
    store = claimed(copy)
    return latest, history, (store.step, store.state, store.unfinished)


def _read_or_error(place: Files, folder: Path) -> tuple[Value | None, SinkError | None]:
    try:
        return _read(place, folder), None
    except SinkError as error:
        return None, error


def _truncated(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def _flipped(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(bytes(data))


def _swapped(path: Path, chance: random.Random) -> None:
    """Gives the file the content of another file of its kind."""
    others = sorted(other for other in path.parent.iterdir() if other != path)
    if not others:
        pytest.skip("there is no other")
    shutil.copy(chance.choice(others), path)


DAMAGE: dict[str, Callable[[Path, random.Random], Any]] = {
    "deleted": lambda path, chance: path.unlink(),
    "emptied": lambda path, chance: path.write_bytes(b""),
    "truncated": _truncated,
    "bit flipped": _flipped,
    "another's content": _swapped,
    "more behind it": lambda path, chance: path.write_bytes(path.read_bytes() + b"\n"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damage_to_each_file_is_named_or_does_no_harm(how: str, place: Files, tmp_path: Path) -> None:
    wanted, chance, named = _read(place, tmp_path / "copy"), random.Random(how), 0
    newest = place.entries()[-1]
    for path in place.files():
        data = path.read_bytes()
        DAMAGE[how](path, chance)
        content, error = _read_or_error(place, tmp_path / "copy")
        if error is None:
            harmless = path.name == f"{1:020}.json"  # the birth certificate, which no longer counts
            assert content == wanted or (path == newest and how == "deleted"), path
            assert harmless or path == newest, path
        else:
            named += 1
            for part in (f"{tmp_path}/copy/ledger", "the ledger is damaged: ", "changefeed repair", path.parent.name):
                assert part in str(error)
            assert not error.transient
        path.write_bytes(data)
    assert named >= len(place.files()) - 2
    assert _read(place, tmp_path / "copy") == wanted


def test_the_newest_entry_lost_is_the_ledger_before_it(place: Files, tmp_path: Path) -> None:
    wanted = _read(place, tmp_path / "copy")
    for unfinished in (plan(STEPS), None):
        place.entries()[-1].unlink()
        latest, history, _ = _read(place, tmp_path / "copy")
        assert latest is not None
        assert (latest.step, latest.unfinished, history) == (STEPS - 1, unfinished, wanted[1])


def test_a_bit_of_a_file_never_changes_in_silence() -> None:
    data = sealed(b'{"number":1,"text":"\xc3\xa9"}')
    body, sum = opened(data, "ledger", "name")
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SinkError, match="the ledger is damaged: name "):
            opened(bytes(flipped), "ledger", "name")
    assert opened(data, "ledger", "name") == (body, sum)


@pytest.mark.parametrize("folder", ["log", "definitions", "history"])
def test_a_folder_that_is_gone_is_named(place: Files, tmp_path: Path, folder: str) -> None:
    shutil.rmtree(place.path / folder)
    with pytest.raises(SinkError, match="the ledger is damaged: "):
        _read(place, tmp_path / "copy")


def test_files_from_another_time_are_named(place: Files, tmp_path: Path) -> None:
    """A copy of the ledger was restored and used by mistake, and its files come back."""
    fork = Files(tmp_path / "fork")
    shutil.copytree(place.path, fork.path)
    for ledger, first in ((place, 30), (fork, 31)):
        store = claimed(ledger)
        for step in range(STEPS, STEPS + 13):
            store.finish(state(first + step))
    wanted = _read(place, tmp_path / "copy")
    other = {path.relative_to(fork.path): path.read_bytes() for path in fork.files()}
    tried = 0
    for path in place.files()[:-1]:
        data, foreign = path.read_bytes(), other.get(path.relative_to(place.path))
        if foreign is None or foreign == data:
            continue
        tried += 1
        path.write_bytes(foreign)
        with pytest.raises(SinkError, match="the ledger is damaged: "):
            _read(place, tmp_path / "copy")
        for newest_first in (False, True):
            with pytest.raises(SinkError, match="the ledger is damaged: "):
                list(place.reading().history(newest_first=newest_first))
        path.write_bytes(data)
    assert tried >= 6
    assert _read(place, tmp_path / "copy") == wanted


def test_a_page_of_another_time_in_the_way_is_named(place: Files, tmp_path: Path) -> None:
    store = claimed(place)
    shutil.copy(sorted((place.path / "history").iterdir())[0], place.path / "history" / f"{21:012}-{25:012}.json")
    with pytest.raises(SinkError, match="has other steps than its name"):
        go(store, STEPS + 5)


def test_a_run_stops_if_a_foreign_entry_takes_its_next_number(place: Files) -> None:
    """The foreign entry is not one that a run of this pipeline writes."""
    store = claimed(place)
    newest = int(place.entries()[-1].stem)
    (place.path / "log" / f"{newest + 1:020}.json").write_bytes(place.entries()[-1].read_bytes())
    with pytest.raises(SinkError, match=r"000\d+\.json is not what a run of this pipeline writes"):
        store.finish(state(STEPS))


def test_an_older_copy_of_the_whole_ledger_is_that_ledger(place: Files, tmp_path: Path) -> None:
    """The ledger cannot detect that it is older than its tables."""
    before = _read(place, tmp_path / "copy")
    shutil.copytree(place.path, tmp_path / "backup")
    go(claimed(place), STEPS + 30)
    shutil.rmtree(place.path)
    shutil.copytree(tmp_path / "backup", place.path)
    assert _read(place, tmp_path / "copy") == before


def test_a_ledger_of_another_kind_is_refused(tmp_path: Path) -> None:
    place = Files(tmp_path)
    (place.path / "_delta_log").mkdir(parents=True)
    (place.path / "_delta_log" / "00000000000000000000.json").write_text("{}")
    for refused in (lambda: claimed(place), place.reading().latest, lambda: list(place.reading().history())):
        with pytest.raises(SinkError) as caught:
            refused()
        assert str(caught.value) == (
            f"{place.path} is the ledger of a changefeed from before the first release, a Delta table: delete it, "
            "and rebuild all tables from the source: changefeed repair --rebuild --all"
        )
    assert sorted(path.name for path in place.path.iterdir()) == ["_delta_log"]


@pytest.mark.parametrize("which", ["log", "definitions", "history"])
def test_one_file_of_a_newer_format_is_refused(place: Files, tmp_path: Path, which: str) -> None:
    for path in place.files():
        if path.parent.name == which and path.stem != f"{1:020}":
            newer = Files(tmp_path / "one")
            shutil.copytree(place.path, newer.path)
            _make_newer(newer.path / path.relative_to(place.path))
            with pytest.raises(ConfigError, match=r"is in format 99, written by changefeed 7\.0\.0"):
                _read(newer, tmp_path / "copy")
            shutil.rmtree(newer.path)


def _make_newer(path: Path) -> None:
    write(path, json.loads(path.read_text())["body"], 99, "7.0.0")


def test_files_that_are_not_entries_are_skipped(place: Files, tmp_path: Path) -> None:
    wanted = _read(place, tmp_path / "copy")
    for name in ("log/x.json", "log/1.json", "history/x", "definitions/notes.txt", "x", "log/.hidden"):
        (place.path / name).write_text("x")
    (place.path / "log" / f"{1:020}.json.d").mkdir()
    assert _read(place, tmp_path / "copy") == wanted
    go(claimed(place), STEPS + 12)
    assert (place.path / "definitions" / "notes.txt").exists()


def test_any_error_is_a_changefeed_error(place: Files, tmp_path: Path) -> None:
    """Random bytes in place of each file."""
    chance = random.Random(7)
    for path in place.files():
        data = path.read_bytes()
        path.write_bytes(chance.randbytes(chance.choice([1, 10, len(data)])))
        with suppress(ChangefeedError):
            _read(place, tmp_path / "copy")
        path.write_bytes(data)
