"""Pipelines below folders, local and in an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from changefeed.errors import ConfigError
from changefeed.monitor.finding import find
from changefeed.pipeline.state import State
from changefeed.pipeline.store.files import FileStore
from changefeed.storage.memory import MemoryFolder
from tests.monitor import pipelines
from tests.monitor.site import Site


def test_definitions_and_folders_below_a_folder(tmp_path: Path) -> None:
    for name in ("a", "deep/er/b"):
        (tmp_path / name).mkdir(parents=True)
        pipelines.write(tmp_path / name, "p", 1)
    pipelines.define(tmp_path / "a", "defined")
    (tmp_path / "notes.yaml").write_text("source: x\n")
    (tmp_path / "half.yml").write_text("{")
    shown = [(one.name, one.folder, one.definition is not None) for one in find([str(tmp_path)])]
    assert shown == [
        ("b", f"{tmp_path}/deep/er/b/_changefeed", False), ("defined", f"{tmp_path}/a/_changefeed", True)
    ]  # fmt: skip
    assert find([str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a/pipeline.yaml")]) == find([str(tmp_path)])


def test_two_pipelines_of_one_name_have_two_addresses_that_stay(tmp_path: Path) -> None:
    for name in ("x/lake", "y/lake"):
        (tmp_path / name).mkdir(parents=True)
        pipelines.write(tmp_path / name, "lake", 1)
    one, other = find([str(tmp_path)])
    assert one.name == other.name == "lake"
    assert one.id != other.id
    assert [p.id for p in find([str(tmp_path)])] == [one.id, other.id]


def test_a_pipeline_in_an_object_store(tmp_path: Path) -> None:
    folder = "memory://page/lake"
    store = FileStore(MemoryFolder(f"{folder}/_changefeed/ledger"), "stored")
    store.claim()
    store.finish(State(barrier=pipelines.START))
    with Site([folder]) as site:
        (shown,) = site.json("/overview.json")["pipelines"]
        assert (shown["name"], shown["state"], shown["step"]) == ("lake", "not known", 1)
        assert site.json(f"/pipelines/{shown['id']}.json")["steps"][0]["step"] == 1


def test_places_that_cannot_be_searched(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is neither a definition nor a folder"):
        find([str(tmp_path / "none")])
    with pytest.raises(ConfigError, match="only Spark reaches"):
        find(["hdfs://host/lake"])


def test_a_pipeline_that_appears_later_is_found_by_a_new_search(tmp_path: Path) -> None:
    with Site([str(tmp_path)]) as site:
        assert site.json("/overview.json")["pipelines"] == []
        pipelines.write(tmp_path, "p", 1)
        site.catalog._searched = site.catalog._overview = None
        assert len(site.json("/overview.json")["pipelines"]) == 1
