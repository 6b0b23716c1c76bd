"""Deletion of a Delta table that is interrupted: no reader finds a part of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from fsspec.implementations.local import LocalFileSystem

from changefeed.errors import SinkError
from changefeed.sinks.delta.sink import DeltaTables


def test_the_log_is_deleted_before_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deltalake(tmp_path / "shop" / "orders", pa.table({"id": [1, 2]}))
    sink = DeltaTables(str(tmp_path))
    remove, asked = LocalFileSystem.rm, list[str]()

    def once(system: LocalFileSystem, path: str, **options: Any) -> None:
        asked.append(path)
        if len(asked) == 2:
            raise PermissionError(13, "Permission denied")
        remove(system, path, **options)

    monkeypatch.setattr(LocalFileSystem, "rm", once)
    with pytest.raises(SinkError) as caught:
        sink.delete("shop/orders")
    assert str(caught.value) == f"{tmp_path}/shop/orders: [Errno 13] Permission denied"
    assert caught.value.transient
    assert not DeltaTable.is_deltatable(str(tmp_path / "shop" / "orders"))
    assert (sink.snapshot("shop/orders"), sink.has_files("shop/orders")) == (None, True)
    sink.delete("shop/orders")
    assert (sink.has_files("shop/orders"), list((tmp_path / "shop").iterdir())) == (False, [])
    assert asked == [f"{tmp_path}/shop/orders/_delta_log", *[f"{tmp_path}/shop/orders"] * 2]
