"""`status` of a long ledger: the cuts that it shows, and the files that it reads for them. No Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from changefeed.cli import run
from changefeed.errors import ConfigError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.ledger import owner, read_ledger
from changefeed.pipeline.operations.expire import expire
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.state import LastWrite, State, TableState
from changefeed.pipeline.store.base import Keep
from changefeed.pipeline.store.files import FileStore
from changefeed.storage.local import LocalFolder
from tests.pipeline.kit.running import definition
from tests.pipeline.store.values import table

STEPS = 350


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Definition:
    """A pipeline that has done some hundred steps; the last two have the same barrier."""
    lake = tmp_path_factory.mktemp("lake")
    store = FileStore(LocalFolder(f"{lake}/_changefeed/ledger"), "test")
    store.claim()
    for step in range(1, STEPS + 1):
        tables = {"app.t": TableState(table("t"), "app/t", True, LastWrite(step, 1, step, 1))}
        store.finish(State(barrier=min(step, STEPS - 1), tables=tables, mark=f"gtid:{step}"))
    (lake / "pipeline.yaml").write_text(
        "source: {type: files, path: x.jsonl, protocol: ticdc-open}\nsink: {type: delta, path: .}\npipeline: {name: test}\n"
    )
    return definition(lake / "x.jsonl", lake)


def _entry(step: int) -> dict[str, Any]:
    return {"commit_ts": min(step, STEPS - 1), "name": f"gtid:{step}", "tables": {"app.t": step}}


NEWEST = [_entry(step) for step in range(1, STEPS + 1) if step != STEPS - 1]  # the newest of each barrier


@pytest.mark.parametrize("cuts", [1, 2, 100, STEPS - 2, STEPS - 1, STEPS, None])
def test_the_newest_cuts(pipeline: Definition, cuts: int | None) -> None:
    shown = status(pipeline, cuts).to_dict()
    assert shown["cuts"] == (NEWEST if cuts is None else NEWEST[-cuts:])
    assert shown.get("older_cuts") == (True if cuts and cuts < len(NEWEST) else None)
    assert shown["epoch"] == 1


def test_on_the_command_line(pipeline: Definition, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{pipeline.sink.path}/pipeline.yaml"

    def shown(*arguments: str) -> dict[str, Any]:
        assert run(["status", path, "--json", *arguments]) == 0
        printed: dict[str, Any] = json.loads(capsys.readouterr().out)
        return printed

    assert (len(shown()["cuts"]), shown()["older_cuts"]) == (100, True)
    assert (len(shown("--cuts", "all")["cuts"]), shown("--cuts", "all").get("older_cuts")) == (len(NEWEST), None)
    assert [cut["commit_ts"] for cut in shown("--cuts", "2")["cuts"]] == [str(STEPS - 2), str(STEPS - 1)]
    for wrong in ("0", "-1", "many", "²"):
        assert run(["status", path, "--cuts", wrong]) == 2
        assert f"{wrong!r} is neither a number of cuts nor `all`" in capsys.readouterr().err
    assert run(["status", path, "--cuts", "2"]) == 0
    assert [line.split()[1:] for line in capsys.readouterr().out.splitlines()[1:3]] == [
        ["app.t", f"{STEPS - 2}"], ["app.t", f"{STEPS}"]
    ]  # fmt: skip


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects the files of the ledger that are read."""
    names: list[str] = []
    read = LocalFolder.read

    def noted(folder: LocalFolder, name: str) -> bytes | None:
        names.append(name)
        return read(folder, name)

    monkeypatch.setattr(LocalFolder, "read", noted)
    return names


def _expire(pipeline: Definition) -> None:
    expire(pipeline, timedelta(), dry_run=True)


@pytest.mark.parametrize("ask", [lambda pipeline: status(pipeline, 3).to_dict(), _expire, owner])
def test_no_page_is_read_for_new_cuts(pipeline: Definition, reads: list[str], ask: Callable[..., object]) -> None:
    ask(pipeline)
    assert reads
    assert not [name for name in reads if name.startswith("history/")]
    assert len(reads) < 10


def test_the_ledger_of_another_pipeline(pipeline: Definition) -> None:
    other = pipeline.model_copy(update={"pipeline": pipeline.pipeline.model_copy(update={"name": "other"})})
    with pytest.raises(ConfigError, match="is the ledger of another pipeline"):
        status(other).to_dict()
    latest = read_ledger(pipeline).latest()
    assert latest is not None
    assert (latest.step, latest.state.barrier) == (STEPS, STEPS - 1)


@pytest.mark.parametrize(
    "text, keep",
    [
        ("all", Keep()),
        (1000, Keep(cuts=1000)),
        ("1000", Keep(cuts=1000)),
        ("30 days", Keep(age=timedelta(days=30))),
        ("1 hour", Keep(age=timedelta(hours=1))),
    ],
)
def test_values_of_keep_cuts(text: Any, keep: Keep, tmp_path: Path) -> None:
    assert definition("x", tmp_path, **{"keep-cuts": text}).pipeline.retention == keep


@pytest.mark.parametrize("text", ["none", "0", 0, -5, "30 weeks", "30days", "", "1e3", True])
def test_wrong_values_of_keep_cuts_are_refused(text: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="keep-cuts"):
        definition("x", tmp_path, **{"keep-cuts": text})


@pytest.mark.parametrize("sink, version", [("delta", 7_214_395_808_472_001_001), ("iceberg", "7214395808472001001")])
def test_ids_of_snapshots_are_texts_in_json(tmp_path: Path, sink: str, version: int | str) -> None:
    """JavaScript and jq would round them; versions of Delta count up and stay numbers."""
    store = FileStore(LocalFolder(f"{tmp_path}/_changefeed/ledger"), "test")
    store.claim()
    written = LastWrite(7_214_395_808_472_001_001, 1, 1, 1)
    store.finish(State(barrier=5, tables={"app.t": TableState(table("t"), "app/t", True, written)}))
    report = status(definition(tmp_path / "x.jsonl", tmp_path, sink=sink), ask_source=False)
    assert report.to_dict()["cuts"] == [{"commit_ts": 5, "tables": {"app.t": version}}]
