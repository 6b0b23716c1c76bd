"""Merge on read without Spark: the rows of another reader, the actions of each commit, and failures."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import Phase, given
from hypothesis import strategies as st

from changefeed.errors import FencedError, SinkError
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.apply.item import write_item
from changefeed.sinks.base import WriteRequest
from changefeed.sinks.delta.native import log_file, replay
from changefeed.sinks.delta.native.commit import checkpoint, commit
from changefeed.sinks.delta.native.step import NativeWrites
from changefeed.sinks.writes import Upsert, WriteId
from changefeed.storage.local import LocalFolder
from tests.examples import examples
from tests.sinks.contract import Given, Row, table
from tests.sinks.delta_native.applying import SMALL, apply, create, inline, item, opened, payloads, read
from tests.sinks.delta_native.histories import History, all_types, sorted_rows

NO_SPARK: Any = SimpleNamespace(conf=SimpleNamespace(getAll={}))


def actions(path: Path | str, version: int, kind: str) -> list[Any]:
    """The actions of one kind in a commit."""
    lines = (Path(path) / "_delta_log" / f"{version:020d}.json").read_text().split("\n")
    return [action[kind] for line in lines if line and kind in (action := json.loads(line))]


def entries(path: Path | str) -> Mapping[str, Any]:
    """The data files of the newest version, as the log has them."""
    return replay.state(LocalFolder(str(path))).files


def same_rows(path: Path | str, history: History) -> None:
    wanted = history.expected()
    assert sorted_rows(read(path, wanted.column_names)) == sorted_rows(wanted)


@pytest.mark.heavy
@examples(10, phases=[Phase.generate])
@given(
    seed=st.integers(0, 2**32),
    keys=st.sampled_from([(), ("name",), ("dec38", "moment", "day"), ("clock", "raw")]),
    partial=st.booleans(),
    steps=st.lists(
        st.tuples(
            st.integers(1, 60), st.sampled_from(["marks", "marks", "rewrites"]), st.sampled_from([1, 20_000, 2**30])
        ),
        min_size=2,
        max_size=6,
    ),
)
def test_random_histories(
    tmp_path_factory: pytest.TempPathFactory, seed: int, keys: Any, partial: bool, steps: list[tuple[int, str, int]]
) -> None:
    """A table with every type; some steps are copied on write, some have more changes than are held in memory."""
    history, path = History(all_types(*keys), seed, partial=partial, irregular=True), tmp_path_factory.mktemp("t")
    create(path, history.table)
    apply(path, history.table, history.step(80), 1, partial=partial, marks=True)
    for number, (count, how, held_bytes) in enumerate(steps, 2):
        limits = replace(SMALL, held_bytes=held_bytes)
        apply(path, history.table, history.step(count), number, partial=partial, marks=how == "marks", limits=limits)
        same_rows(path, history)
        for file in entries(path).values():
            stats, vector = json.loads(file["stats"]), file.get("deletionVector")
            rows = pq.read_metadata(path / file["path"]).num_rows
            assert (stats["numRecords"], stats["tightBounds"]) == (rows, vector is None)
            assert vector is None or 0 < vector["cardinality"] < rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of 300 rows in files whose deleted rows are marked, not written again."""
    return tmp_path / "t"


@pytest.fixture
def history(path: Path) -> History:
    made = History(all_types(), 4, irregular=True)
    create(path, made.table)
    apply(path, made.table, made.step(300), 1, marks=True)
    return made


def test_a_file_is_marked_and_its_new_rows_are_in_another(path: Path, history: History) -> None:
    before = entries(path)
    written = apply(path, history.table, history.step(5), 2, marks=True)
    assert written.marked
    assert all(file.rows <= 5 for file in written.added)
    assert {mark.path for mark in written.marked} | set(before) >= {mark.path for mark in written.marked}
    for mark in written.marked:
        [gone] = [a for a in actions(path, 2, "remove") if a["path"] == mark.path]
        [there] = [a for a in actions(path, 2, "add") if a["path"] == mark.path]
        assert "deletionVector" not in gone
        assert there["deletionVector"]["cardinality"] == mark.deleted
        assert (there["size"], there["modificationTime"]) == (
            before[mark.path]["size"],
            before[mark.path]["modificationTime"],
        )
        old, new = json.loads(before[mark.path]["stats"]), json.loads(there["stats"])
        assert {**old, "tightBounds": False} == new
    same_rows(path, history)


def test_a_vector_that_is_there_grows(path: Path, history: History) -> None:
    for step in range(2, 8):
        apply(path, history.table, history.step(6), step, marks=True)
        before = replay.state(LocalFolder(str(path)), step - 1).files
        for gone in actions(path, step, "remove"):
            assert gone.get("deletionVector") == before[gone["path"]].get("deletionVector")
    assert any("deletionVector" in gone for gone in actions(path, 7, "remove"))
    same_rows(path, history)


def test_a_file_of_which_all_rows_are_deleted_is_removed(path: Path, history: History) -> None:
    apply(path, history.table, history.step(2_000), 2, marks=True)
    added = {file["path"] for file in actions(path, 2, "add")}
    assert {file["path"] for file in actions(path, 2, "remove")} - added
    same_rows(path, history)


def test_all_vectors_of_a_commit_are_in_one_file(path: Path, history: History) -> None:
    apply(path, history.table, history.step(60), 2, marks=True)
    descriptors = [file["deletionVector"] for file in entries(path).values() if "deletionVector" in file]
    assert len(descriptors) > 2
    assert {one["storageType"] for one in descriptors} == {"u"}
    assert len(list(path.glob("deletion_vector_*.bin"))) == 1
    same_rows(path, history)


def test_vectors_within_the_log_are_read(path: Path, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(log_file, "_in_a_file", inline)
        apply(path, history.table, history.step(20), 2, marks=True)
    kinds = {file["deletionVector"]["storageType"] for file in entries(path).values() if "deletionVector" in file}
    assert kinds == {"i"}
    same_rows(path, history)
    apply(path, history.table, history.step(20), 3, marks=True)
    same_rows(path, history)


def test_a_table_gets_the_feature_in_the_commit_that_first_needs_it(tmp_path: Path) -> None:
    history, path = History(all_types(), 4, irregular=True), tmp_path / "t"
    create(path, history.table)
    apply(path, history.table, history.step(300), 1)
    before = DeltaTable(str(path)).protocol()
    assert "deletionVectors" not in (before.writer_features or ())
    apply(path, history.table, history.step(5), 2, marks=True)
    [protocol], [metadata] = actions(path, 2, "protocol"), actions(path, 2, "metaData")
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (3, 7)
    assert set(protocol["readerFeatures"]) == {"deletionVectors", *(before.reader_features or ())}
    assert set(protocol["writerFeatures"]) == {
        "deletionVectors",
        "appendOnly",
        "invariants",
        *(before.writer_features or ()),
    } - ({"appendOnly", "invariants"} if before.writer_features else set())
    assert metadata["configuration"]["delta.enableDeletionVectors"] == "true"
    [old] = actions(path, 0, "metaData")
    assert {**metadata, "configuration": {}} == {**old, "configuration": {}}
    apply(path, history.table, history.step(5), 3, marks=True)
    assert (actions(path, 3, "protocol"), actions(path, 3, "metaData")) == ([], [])
    same_rows(path, history)


@pytest.mark.parametrize(
    "protocol, features",
    [
        ((1, 2, None, None), ({"deletionVectors"}, {"deletionVectors", "appendOnly", "invariants"})),
        ((1, 7, None, ["appendOnly"]), ({"deletionVectors"}, {"deletionVectors", "appendOnly"})),
        (
            (3, 7, ["timestampNtz"], ["timestampNtz"]),
            ({"deletionVectors", "timestampNtz"}, {"deletionVectors", "timestampNtz"}),
        ),
        ((3, 7, ["deletionVectors"], ["deletionVectors"]), None),
    ],
)
def test_the_protocol_keeps_its_other_features(protocol: Any, features: Any) -> None:
    names = ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures")
    before = {name: value for name, value in zip(names, protocol, strict=True) if value is not None}
    changed = [a["protocol"] for a in log_file.upgrade(before, {"id": "x", "configuration": {}}) if "protocol" in a]
    assert [(set(p["readerFeatures"]), set(p["writerFeatures"])) for p in changed] == ([features] if features else [])
    assert all((p["minReaderVersion"], p["minWriterVersion"]) == (3, 7) for p in changed)


def test_a_table_of_an_older_writer_version_is_copied_on_write(tmp_path: Path) -> None:
    """Such a version implies features that would have to be named."""
    path, orders = tmp_path / "shop" / "orders", table("*id int", "note varchar(20)")
    create(path, orders, extra=())
    first = path / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in first.read_text().split("\n") if line]
    for action in lines:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 4}
    first.write_text("\n".join(map(json.dumps, lines)))
    assert (opened(path).not_upgraded() or "").startswith("writer version 4 of the Delta protocol: set delta.enable")
    writes = NativeWrites(LocalFolder(str(tmp_path)), (), merges_on_read=True, limits=Limits(least_marked=0))
    for number in (1, 2):
        rows: tuple[Row, ...] = tuple({"id": n, "note": str(number)} for n in range(number, 5))
        write = Upsert(path="shop/orders", number=1, table=orders)
        request = WriteRequest(write, Given(orders, rows), WriteId(1, number, 1), "{}")
        assert writes.apply(NO_SPARK, "test", *writes.prepare(NO_SPARK, "test", [request]))
    assert not opened(path).has_vectors
    notes = {row["id"]: row["note"] for row in read(path).to_pylist()}
    assert notes == {1: "1", 2: "2", 3: "2", 4: "2"}


def test_checkpoints_keep_the_vectors(path: Path, history: History) -> None:
    for step in range(2, 11):
        apply(path, history.table, history.step(10), step, marks=True)
    wanted = entries(path)
    assert checkpoint(opened(path), opened(path).version)
    for file in sorted((path / "_delta_log").glob("*.json"))[:-1]:
        file.unlink()
    kept = entries(path)
    assert {p: replay.vector(f) for p, f in kept.items()} == {p: replay.vector(f) for p, f in wanted.items()}
    assert {p: json.loads(f["stats"]) for p, f in kept.items()} == {
        p: json.loads(f["stats"]) for p, f in wanted.items()
    }
    apply(path, history.table, history.step(10), 11, marks=True)
    same_rows(path, history)


# Fences: the same as of plain commits, see `test_commit.py`.


def test_only_one_of_two_commits_at_once_succeeds(path: Path, history: History) -> None:
    a, b = opened(path), opened(path)
    chunks = payloads(history.step(5))
    done = [write_item(item(at, history.table, marks=True), chunks) for at in (a, b)]
    assert commit(a, [done[0]], WriteId(2, 1, 1), "{}", merges_on_read=True) == 2
    with pytest.raises(SinkError, match="version 2 was committed by another writer") as caught:
        commit(b, [done[1]], WriteId(2, 1, 2), "{}", merges_on_read=True)
    assert caught.value.transient
    same_rows(path, history)


def test_an_older_epoch_is_fenced(path: Path, history: History) -> None:
    late = opened(path)
    done = write_item(item(late, history.table, marks=True), payloads(history.step(5)))
    commit(opened(path), [done], WriteId(2, 1, 1), "{}", merges_on_read=True)
    with pytest.raises(FencedError, match="epoch 2 of pipeline test writes this table now"):
        commit(late, [done], WriteId(1, 9, 9), "{}", merges_on_read=True)
    same_rows(path, history)


def test_a_lost_answer_is_found_in_the_log(path: Path, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def lost(*args: Any) -> None:
        real(*args)
        raise OSError("input/output error")

    monkeypatch.setattr(os, "link", lost)
    apply(path, history.table, history.step(5), 2, marks=True)
    same_rows(path, history)


@pytest.mark.parametrize("where", ["writer", "write_bytes", "link"])
def test_a_failure_in_the_middle_leaves_the_table_as_it_was(
    path: Path, history: History, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    before = sorted_rows(read(path))
    at, chunks = opened(path), history.step(20)
    done = write_item(item(at, history.table, marks=True), payloads(chunks))

    def fails(*args: Any, **named: Any) -> Any:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        if where == "link":
            patch.setattr(os, "link", fails)
        elif where == "write_bytes":
            patch.setattr(Path, "write_bytes", fails)
        else:
            patch.setattr(type(at.folder), "writer", fails)
        with pytest.raises((SinkError, OSError)) as caught:
            commit(at, [done], WriteId(1, 2, 1), "{}", merges_on_read=True)
    assert isinstance(caught.value, SinkError)
    assert sorted_rows(read(path)) == before
    assert DeltaTable(str(path)).version() == 1
    apply(path, history.table, chunks, 2, marks=True)
    same_rows(path, history)


def test_a_file_that_a_crash_left_in_the_log_is_not_a_commit(path: Path, history: History) -> None:
    left = path / "_delta_log" / f".{2:020d}.9e2ca6a0.tmp"
    left.write_text('{"commitInfo":')
    apply(path, history.table, history.step(5), 2, marks=True)
    assert left.exists()
    same_rows(path, history)


def test_a_file_too_small_for_a_vector_is_written_again(path: Path, history: History) -> None:

    whole = replace(SMALL, least_marked=2**20)
    written = apply(path, history.table, history.step(5), 2, marks=True, limits=whole)
    assert written.removed
    assert not written.marked
    same_rows(path, history)
