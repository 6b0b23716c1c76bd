"""Compaction changes no row, carries no write id, and may fail or end anywhere."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from changefeed.sinks.apply import step as files_step
from changefeed.sinks.apply.compaction import CompactionRules, StoredFile, groups
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.base import WriteRequest
from changefeed.sinks.delta.log import _commit
from changefeed.sinks.delta.native import log_file
from changefeed.sinks.delta.native.opened import open_table
from changefeed.sinks.delta.native.replay import TableLog
from changefeed.sinks.delta.native.step import NativeWrites
from changefeed.sinks.writes import Load, Upsert, WriteId
from changefeed.storage.local import LocalFolder
from tests.sinks.contract import Given, Row, table
from tests.sinks.delta_native.applying import opened, read

ORDERS = table("*id int", "note varchar(20)")
RULES = CompactionRules(share=0.3, small_bytes=100, many=3, group_bytes=250, most_bytes=600)
NO_SPARK: Any = SimpleNamespace(conf=SimpleNamespace(getAll={}))


def file(path: str, size: int, deleted: int = 0, rows: int = 100) -> StoredFile:
    return StoredFile(path, 1, size, rows, deleted)


@pytest.mark.parametrize(
    "files, wanted",
    [
        ([file("a", 1000), file("b", 1000)], []),
        ([file("a", 1000, 29)], []),
        ([file("a", 1000, 30)], [["a"]]),
        ([file("a", 10), file("b", 10)], []),
        ([file("a", 10), file("b", 10), file("c", 10), file("d", 1000)], [["a", "b", "c"]]),
        ([file("a", 99), file("b", 99), file("c", 99)], [["a", "b"]]),  # writing c again alone has no use
        (
            [file("a", 200, 80), file("b", 10), file("c", 10)],
            [["a", "b", "c"]],
        ),  # the remaining rows of `a` are small
        ([file("a", 900, 50), file("b", 900, 50)], [["a"]]),  # the other file waits
    ],
)
def test_files_are_compacted_if_it_saves_enough(files: list[StoredFile], wanted: list[list[str]]) -> None:
    assert groups(files, RULES) == wanted


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 99)), max_size=30))
def test_no_file_is_compacted_twice_or_without_use(sizes: list[tuple[int, int]]) -> None:
    files = {str(i): file(str(i), size, deleted) for i, (size, deleted) in enumerate(sizes)}
    chosen = groups(files.values(), RULES)
    taken = [path for group in chosen for path in group]
    assert len(taken) == len(set(taken))
    assert all(len(group) > 1 or files[group[0]].deleted for group in chosen)


class Table:
    """A table that is written natively, and its expected rows."""

    def __init__(self, root: Path, rules: CompactionRules | None) -> None:
        self.path, self.rows, self.number = root / "shop" / "orders", dict[int, Any](), 0
        self.writes = NativeWrites(LocalFolder(str(root)), (), True, rules, Limits(least_marked=0))

    def request(self, *changes: Row, deleted: tuple[int, ...] = ()) -> WriteRequest:
        """The next write."""
        self.number += 1
        gone = tuple({"id": key} for key in deleted)
        kind: Any = Load if self.number == 1 else Upsert
        self.rows |= {row["id"]: row["note"] for row in changes}
        self.rows = {key: note for key, note in self.rows.items() if key not in deleted}
        write = kind(path="shop/orders", number=1, table=ORDERS)
        return WriteRequest(write, Given(ORDERS, changes, gone), WriteId(1, self.number, 1), "{}")

    def apply(self, request: WriteRequest) -> None:
        (prepared,) = self.writes.prepare(NO_SPARK, "test", [request])
        assert self.writes.apply(NO_SPARK, "test", prepared)

    def read(self) -> dict[int, Any]:
        return {row["id"]: row["note"] for row in read(self.path).to_pylist()}

    def operations(self) -> list[tuple[str, bool]]:
        """Each commit's name, and whether guards count it as a change of the table."""
        files = sorted((self.path / "_delta_log").glob("*.json"))
        commits = [[json.loads(line) for line in file.read_text().split("\n") if line] for file in files]
        return [(c.operation, c.changes_table) for c in (_commit(0, actions) for actions in commits)]


@pytest.fixture
def orders(tmp_path: Path) -> Table:
    """A table of 40 rows in one file."""
    made = Table(tmp_path, CompactionRules(every=1, many=4))
    made.apply(made.request(*({"id": n, "note": str(n)} for n in range(40))))
    return made


def test_small_files_and_deleted_rows_are_written_again(orders: Table) -> None:
    for n in range(8):
        orders.apply(orders.request({"id": 5 + n, "note": "new"}, deleted=(n,)))
    assert orders.read() == orders.rows
    assert dict(orders.operations()) == {
        "CREATE TABLE AS SELECT": True,
        "WRITE": True,
        "OPTIMIZE": False,
    }
    at = opened(orders.path)
    assert len(at.files()) < 4
    assert at.write_id == WriteId(1, 9, 1)


def test_compaction_is_considered_after_a_number_of_versions(tmp_path: Path) -> None:
    orders = Table(tmp_path, CompactionRules(every=4, share=0.01))
    orders.apply(orders.request(*({"id": n, "note": str(n)} for n in range(40))))
    for n in range(9):
        orders.apply(orders.request(deleted=(n,)))
    assert [place for place, (name, _) in enumerate(orders.operations()) if name == "OPTIMIZE"] == [5, 9]
    assert orders.read() == orders.rows


def test_off_is_off(tmp_path: Path) -> None:
    orders = Table(tmp_path, None)
    for n in range(30):
        orders.apply(orders.request({"id": n, "note": "x"}, {"id": n + 1, "note": "y"}))
    assert "OPTIMIZE" not in dict(orders.operations())
    assert orders.read() == orders.rows


def test_a_commit_in_between_leaves_the_compaction_out(orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    real, theirs = log_file.put, 0

    def put(folder: LocalFolder, version: int, actions: list[Any]) -> None:
        nonlocal theirs
        if not any("txn" in action for action in actions):
            theirs += 1
            write_deltalake(folder.path, read(folder.path).slice(0, 0), mode="append")
        real(folder, version, actions)

    monkeypatch.setattr(log_file, "put", put)
    for n in range(6):
        orders.apply(orders.request({"id": n, "note": "new"}))
    assert theirs
    assert "OPTIMIZE" not in dict(orders.operations())
    assert orders.read() == orders.rows


class Ended(BaseException):
    """Raised where the process ends."""


def test_a_process_that_ends_anywhere_leaves_the_table_as_before_or_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends at every access of a write or a compaction to the disk, once before it and once after it."""
    compacted = 0
    for left in range(1, 200):
        orders = Table(tmp_path / str(left), CompactionRules(every=1, many=4))
        orders.apply(orders.request(*({"id": n, "note": str(n)} for n in range(40))))
        for n in range(3):
            orders.apply(orders.request({"id": n, "note": "new"}))
        before = dict(orders.rows)
        job = orders.request({"id": 2, "note": "last"}, deleted=(7,))
        with monkeypatch.context() as patch:
            ended = _ending(patch, left)
            try:
                orders.apply(job)
            except Ended:
                assert ended()
        if not ended():
            break
        assert orders.read() in (before, orders.rows), left
        again = open_table(orders.writes._folder("shop/orders"), "test")
        assert again is not None
        done = again.write_id == job.write_id
        assert orders.read() == (orders.rows if done else before)
        if not done:
            orders.apply(job)
        orders.apply(orders.request({"id": 50, "note": "more"}))
        assert orders.read() == orders.rows
        compacted += "OPTIMIZE" in dict(orders.operations())
    assert left > 10, "so many places were tried"
    assert compacted


def _ending(patch: pytest.MonkeyPatch, left: int) -> Callable[[], bool]:
    """Ends the process at the `left`th access to the disk, before or after it; the result returns whether it has ended."""
    passed = 0

    def at(real: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal passed
            passed += 1
            if passed == left:
                raise Ended
            done = real(*args, **named)
            passed += 1
            if passed == left:
                raise Ended
            return done

        return call

    for owner, name in (
        (os, "link"),
        (Path, "write_bytes"),
        (Path, "unlink"),
        (files_step, "write_item"),
        (TableLog, "read"),
    ):
        patch.setattr(owner, name, at(getattr(owner, name)))
    patch.setattr(DeltaTable, "create_checkpoint", at(DeltaTable.create_checkpoint))
    return lambda: passed >= left
