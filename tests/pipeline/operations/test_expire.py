"""Folders that only old cuts use: which are deleted, which stay, and the notes about them. No Spark."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from changefeed.cli import run
from changefeed.errors import ConfigError
from changefeed.model.definition import Table
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.operations.expire import Expiry, expire
from changefeed.pipeline.operations.expired import Note, Notes
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.planning.actions import Action, Plan
from changefeed.pipeline.state import LastWrite, Shadow, State, TableState
from changefeed.pipeline.store.files import FileStore
from changefeed.sinks.writes import Create
from changefeed.storage.local import LocalFolder
from tests.pipeline.kit.running import definition

WEEK, DAY = timedelta(days=7), timedelta(days=1)


class Lake:
    """A sink with a ledger, made step by step; some steps are long ago."""

    def __init__(self, root: Path) -> None:
        self.root, self.now, self.days_ago = root, datetime.now(UTC), 1000.0
        self.written: dict[str, LastWrite] = {}  # by the step that is begun
        self.ledger = FileStore(
            LocalFolder(f"{root}/_changefeed/ledger"), "test", now=lambda: self.now - self.days_ago * DAY
        )
        self.ledger.claim()

    @property
    def definition(self) -> Definition:
        return definition(self.root / "none.jsonl", self.root)

    def folder(self, path: str, owner: str | None = "") -> Path:
        """Makes a table with a row; it belongs to this pipeline unless another owner is named."""
        stamps = [Transaction(owner or self.ledger.owner, 1)] if owner is not None else []
        write_deltalake(
            self.root / path, pa.table({"a": [1]}), commit_properties=CommitProperties(app_transactions=stamps)
        )
        return self.root / path

    def cut(self, step: int, days_ago: float, *paths: str) -> None:
        """Adds a step that is done; its tables are at these paths."""
        assert self.ledger.step == step - 1
        self.days_ago = days_ago
        self.ledger.finish(self._state(step, paths))

    def begun(self, step: int, *paths: str, ends: tuple[str, ...] = ()) -> None:
        """Adds a step that is begun and writes to these paths."""
        assert self.ledger.step == step - 1
        writes = [Create(path=path, number=1, table=Table("app", "t", (), ())) for path in paths]
        actions = [Action(write=write) for write in writes]
        self.written = {path: LastWrite(0, 1, step, 1) for path in paths}
        self.ledger.begin(Plan(actions=actions, folders=(), sums={}, state=self._state(step, ends), notes=[]))

    def expire(self, age: timedelta = WEEK, *, dry_run: bool = False) -> Expiry:
        return expire(self.definition, age, dry_run=dry_run)

    def offered(self) -> list[int]:
        """The steps of the cuts that `status` shows."""
        return [cut["commit_ts"] for cut in status(self.definition).to_dict()["cuts"]]

    def _state(self, step: int, paths: tuple[str, ...]) -> State:
        """The state after a step, with the write ids of all earlier writes, as a run keeps it."""
        known = self.ledger.state.last_writes() | self.written
        current = {path: known.get(path) or LastWrite(0, 1, step, 1) for path in paths}
        for path in paths:
            if path in self.ledger.state.left:
                current[path] = LastWrite(0, 1, step, 1)
        tables = {
            path.replace("/", "."): TableState(
                Table(path.partition("/")[0], path.partition("/")[2], (), ()), path, True, written
            )
            for path, written in current.items()
        }
        return State(barrier=step, tables=tables, left={p: w for p, w in known.items() if p not in current})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A sink with a table renamed ten days ago, another dropped a day ago, and one in use."""
    lake = Lake(tmp_path / "lake")
    for path in ("app/old", "app/dropped", "app/new"):
        lake.folder(path)
    lake.cut(1, 30, "app/old", "app/dropped")
    lake.cut(2, 20, "app/old", "app/dropped")
    lake.cut(3, 10, "app/new", "app/dropped")
    lake.cut(4, 1, "app/new")
    return lake


def _there(lake: Lake) -> list[str]:
    return sorted(f"app/{path.name}" for path in (lake.root / "app").iterdir())


def test_tables_of_old_cuts_alone_are_deleted_and_these_cuts_are_not_offered(lake: Lake) -> None:
    assert lake.offered() == [1, 2, 3, 4]
    expiry = lake.expire()
    ended = f"{lake.now - DAY:%Y-%m-%d %H:%M:%S}Z"
    assert expiry == Expiry(("app/old",), {"app/dropped": f"the newest cut used it until {ended}"}, 2)
    assert _there(lake) == ["app/dropped", "app/new"]
    assert lake.offered() == [3, 4]
    assert lake.expire().deleted == ()
    assert lake.expire(timedelta()).deleted == ("app/dropped",)
    assert lake.offered() == [4]


def test_a_cut_is_old_from_when_the_next_one_came(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.folder("app/old")
    lake.cut(1, 300, "app/old")
    lake.cut(2, 1)
    assert lake.expire().deleted == ()


def test_a_dry_run_reports_and_deletes_nothing(lake: Lake) -> None:
    assert (lake.expire(dry_run=True).deleted, lake.expire(dry_run=True).cuts) == (("app/old",), 2)
    assert len(_there(lake)) == 3
    assert lake.offered() == [1, 2, 3, 4]
    assert not (lake.root / "_changefeed" / "expired").exists()


def test_old_folders_are_listed_until_they_are_deleted(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Readers open them as tables, so that `status` and `check` name them: not a folder of others, nor one that is gone."""
    state = lake.ledger.state
    old = TableState(Table("app", "old", (), ()), "app/old", True, LastWrite(0, 1, 1, 1))
    write = LastWrite(0, 1, 1, 1)
    shadows = {"app.new": Shadow(Table("app", "new", (), ()), {}, "app.old", old)}
    lake.ledger.finish(replace(state, shadows=shadows, left=state.left | {"app/none": write, "app/broken": write}))
    lake.folder("app/theirs", None)
    broken = lake.folder("app/broken") / "_delta_log" / f"{0:020d}.json"
    broken.write_text("{")
    assert status(lake.definition).old_folders == {"app/dropped": None, "app/old": "app.new"}
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "source: {type: files, path: x.jsonl, protocol: ticdc-open}\nsink: {type: delta, path: lake}\npipeline: {name: test}\n"
    )
    assert run(["status", str(path)]) == 0
    folders = "app/dropped, app/old (now app.new)"
    line = f"no tables any more, kept for older cuts until `changefeed expire`: {folders}"
    assert line in capsys.readouterr().out.splitlines()
    run(["check", str(path), "--json"])
    [checked] = [one for one in json.loads(capsys.readouterr().out)["checks"] if one["name"] == "folders"]
    assert (checked["status"], checked["message"]) == ("ok", f"no tables any more, kept for older cuts: {folders}")
    assert list(lake.expire(timedelta()).kept) == ["app/broken", "app/none"]
    assert "old_folders" not in status(lake.definition).to_dict()


def test_tables_of_other_owners_are_never_deleted(lake: Lake) -> None:
    mine, theirs = lake.folder("app/mine", None), lake.root / "app" / "old"
    (theirs / "_delta_log" / "00000000000000000000.json").unlink()
    lake.folder("app/old", "changefeed:other")
    assert lake.expire().kept["app/old"] == "another one than this pipeline wrote the table there"
    assert (mine / "_delta_log").exists()
    assert (theirs / "_delta_log").exists()


def test_a_path_of_a_step_under_way_stays(lake: Lake) -> None:
    lake.begun(5, "app/old")
    assert lake.expire().kept["app/old"] == "a step under way names it"
    lake.cut(5, 0, "app/new")
    assert "app/old" in lake.expire().kept  # written a moment ago
    assert lake.expire(timedelta()).deleted == ("app/dropped", "app/old")


def test_a_step_that_begins_meanwhile_keeps_its_path(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Notes.begin

    def meanwhile(notes: Notes, step: int, paths: tuple[str, ...]) -> Note:
        note = begin(notes, step, paths)
        lake.begun(5, "app/old")
        return note

    monkeypatch.setattr(Notes, "begin", meanwhile)
    assert lake.expire(timedelta()).deleted == ("app/dropped",)
    assert _there(lake) == ["app/new", "app/old"]
    assert not list((lake.root / "_changefeed" / "expiring").iterdir())
    assert lake.offered() == [4]  # the old cuts used the dropped table too


def test_a_path_that_only_a_plan_names_goes_with_its_step(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for path in ("app/old", "app/between", "app/new"):
        lake.folder(path)
    lake.cut(1, 30, "app/old")
    lake.cut(2, 20, "app/old")
    lake.begun(3, "app/between", "app/new", ends=("app/new",))
    lake.cut(3, 5, "app/new")
    assert sorted(lake.expire().kept) == ["app/between", "app/old"]
    assert lake.expire(4 * DAY).deleted == ("app/between", "app/old")


def test_a_table_that_comes_again_has_cuts_of_its_own(lake: Lake) -> None:
    lake.expire(timedelta())
    lake.folder("app/old")
    lake.cut(5, 0, "app/new", "app/old")
    assert lake.offered() == [4, 5]
    assert lake.expire(timedelta()).deleted == ()
    lake.cut(6, 0, "app/new")
    assert lake.expire(timedelta()).deleted == ("app/old",)
    assert lake.offered() == [4, 6]


def _open_note(
    lake: Lake, pid: int, host: str | None = None, hours: float = 0, *paths: str, deleting: bool = False
) -> None:
    at = lake.now - timedelta(hours=hours)
    note = {"name": "n", "at": at.isoformat(), "host": host or socket.gethostname(), "pid": pid, "step": 4}
    folder = lake.root / "_changefeed" / "expiring"
    folder.mkdir(parents=True)
    (folder / "n.json").write_text(json.dumps({**note, "paths": paths, "settled": deleting}))


NO_PROCESS = 2**22 + 1  # no process has this id


@pytest.mark.parametrize("pid, host, hours", [(NO_PROCESS, None, 0), (1, "another-host", 2)])
def test_the_next_expiry_deletes_what_a_dead_one_planned_except_tables_in_use(
    lake: Lake, pid: int, host: str | None, hours: float
) -> None:
    _open_note(lake, pid, host, hours, "app/old", "app/new")
    assert lake.offered() == [1, 2, 3, 4]
    assert lake.expire().deleted == ()
    assert _there(lake) == ["app/dropped", "app/new"]
    assert lake.offered() == [3, 4]


def test_a_deletion_that_had_begun_is_finished_although_a_step_waits_for_it(lake: Lake) -> None:
    _open_note(lake, NO_PROCESS, None, 0, "app/old", deleting=True)
    lake.begun(5, "app/old")
    (lake.root / "app" / "old" / "_delta_log" / "00000000000000000000.json").unlink()
    assert lake.expire().deleted == ()
    assert _there(lake) == ["app/dropped", "app/new"]
    assert lake.offered() == [3, 4]
    assert not list((lake.root / "_changefeed" / "expiring").iterdir())


@pytest.mark.parametrize("pid, host", [(os.getppid(), None), (1, "another-host")])
def test_an_expiry_that_is_at_work_is_waited_for(lake: Lake, pid: int, host: str | None) -> None:
    _open_note(lake, pid, host, 0, "app/old")
    with pytest.raises(ConfigError) as caught:
        lake.expire()
    assert str(caught.value) == (
        f"another `changefeed expire` has been running since {lake.now:%Y-%m-%d %H:%M:%S}Z (process {pid} on "
        f"{host or socket.gethostname()}): wait for it. If it has died on another machine, run this "
        "command an hour after it began"
    )
    assert len(_there(lake)) == 3


def test_a_pipeline_that_has_not_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        Lake(tmp_path).expire()
    assert str(caught.value) == (
        f"{tmp_path}/_changefeed/ledger: test has not done a step yet, so there is nothing to expire"
    )


def test_on_the_command_line(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "source: {type: files, path: x.jsonl, protocol: ticdc-open}\nsink: {type: delta, path: lake}\npipeline: {name: test}\n"
    )
    assert run(["expire", str(path), "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "would delete app/old",
        f"kept app/dropped: the newest cut used it until {lake.now - DAY:%Y-%m-%d %H:%M:%S}Z",
        "1 folder; `status` would no longer show 2 cuts that used them",
    ]
    assert run(["expire", str(path), "--older-than", "0s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "dry_run": False, "deleted": ["app/dropped", "app/old"], "kept": {}, "cuts": 3
    }  # fmt: skip
    assert run(["expire", str(path), "--older-than", "a week"]) == 2
    assert "'a week' is not an age such as 7d, 12h, 30m or 0s" in capsys.readouterr().err
