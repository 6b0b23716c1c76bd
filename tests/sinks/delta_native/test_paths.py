"""Tables in folders with names that have a special meaning in URLs, patterns and shells."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from changefeed.sinks.apply.files import Limits
from changefeed.sinks.base import WriteRequest
from changefeed.sinks.delta.native.step import NativeWrites, is_native
from changefeed.sinks.writes import Load, Upsert, WriteId
from changefeed.storage.local import LocalFolder
from tests.sinks.contract import Given, Row, table
from tests.sinks.delta_native.applying import read

ORDERS = table("*id int", "note varchar(20)")
ONE, OLD, TWO = {"id": 1, "note": "one"}, {"id": 2, "note": "old"}, {"id": 2, "note": "two"}
_NO_SPARK: Any = SimpleNamespace(conf=SimpleNamespace(getAll={}))


@pytest.mark.parametrize("merges_on_read", [False, True], ids=["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("name", ["a b", "a#b", "a?b", "ü", "a%b", "a&b=c", "a'b\"c", "a[b]c*", "a:b", "a+b", "~"])
def test_a_table_is_at_its_path(name: str, merges_on_read: bool, tmp_path: Path) -> None:
    root = tmp_path / name
    writes = NativeWrites(LocalFolder(str(root)), (), merges_on_read, limits=Limits(least_marked=0))
    first, then = Load(path="shop/orders", number=1, table=ORDERS), Upsert(path="shop/orders", number=1, table=ORDERS)
    writes_of_rows: list[tuple[Load | Upsert, tuple[Row, ...]]] = [(first, (ONE, OLD)), (then, (TWO,))]
    for step, (write, rows) in enumerate(writes_of_rows, 1):
        request = WriteRequest(write, Given(ORDERS, rows), WriteId(1, step, 1), "{}")
        assert writes.apply(_NO_SPARK, "test", *writes.prepare(_NO_SPARK, "test", [request]))
    there = writes.snapshot("shop/orders", "test")
    assert there is not None
    assert there.write_id == WriteId(1, 2, 1)
    assert len([*(root / "shop" / "orders").glob("deletion_vector_*.bin")]) == merges_on_read
    assert [path.name for path in tmp_path.iterdir()] == [name]
    table_rows = sorted(read(f"{root}/shop/orders").to_pylist(), key=lambda row: int(row["id"]))
    assert [(row["id"], row["note"]) for row in table_rows] == [(1, "one"), (2, "two")]


@pytest.mark.parametrize("root", ["s3a://lake/shop", "file:/tmp/lake", "file:///tmp/lake", "/tmp/a\\b"])
def test_other_file_systems_are_left_to_spark(root: str) -> None:
    assert not is_native(root)
    assert is_native("/tmp/lake")
