from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from changefeed.errors import ConfigError
from changefeed.model.batch import BatchBuilder, TableBatch
from changefeed.model.position import Position
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType

COLUMNS = tuple(
    Column(name, ColumnType.parse(text))
    for name, text in (("id", "bigint unsigned"), ("total", "decimal(10,2)"), ("note", "text"))
)
SHAPE = TableShape("shop", "orders", COLUMNS, before=("id", "total"))


def batch() -> TableBatch:
    builder = BatchBuilder()
    old, new = {"id": 1, "total": Decimal("2.50")}, {"id": 1, "total": Decimal("3.00"), "note": "x"}
    builder.add(SHAPE, Position("s", 0, 7, 0), "insert", before=None, after=new, commit_ts=5, commit_time=1000)
    builder.add(SHAPE, Position("s", 0, 7, 1), "update", before=old, after={**new, "note": None})
    builder.add(SHAPE, Position("s", 0, 8, None, 1), "delete", before=old, after=None)
    (made,) = builder.build()
    return made


def test_a_row_is_as_the_change_left_it_or_as_it_was_deleted() -> None:
    table = batch().to_arrow()
    assert table.to_pylist() == [
        {"_op": "insert", "_commit_ts": 5, "_commit_time": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
         "_position": "s:0:7:0", "id": 1, "total": Decimal("3.00"), "note": "x"},
        {"_op": "update", "_commit_ts": None, "_commit_time": None,
         "_position": "s:0:7:1", "id": 1, "total": Decimal("3.00"), "note": None},
        {"_op": "delete", "_commit_ts": None, "_commit_time": None,
         "_position": "s:0:8", "id": 1, "total": Decimal("2.50"), "note": None},
    ]  # fmt: skip
    assert table.schema.field("id").type == pa.uint64()
    assert table.schema.field("total").metadata == {b"mysql": b"decimal(10,2)"}


def test_any_library_that_reads_arrow_reads_a_batch() -> None:
    assert pa.table(batch()) == batch().to_arrow()


def test_pandas_keeps_integers_beside_null() -> None:
    frame = batch().to_pandas()
    assert list(frame["_commit_ts"].isna()) == [False, True, True]
    assert frame["_commit_ts"][0] == 5
    assert str(frame["id"].dtype) == "uint64[pyarrow]"


def test_polars_is_asked_for_by_its_name() -> None:
    try:
        import polars
    except ImportError:
        with pytest.raises(ConfigError, match="pip install polars"):
            batch().to_polars()
        return
    assert batch().to_polars()["id"].dtype == polars.UInt64


def test_a_batch_of_a_table_without_columns_has_the_changes_alone() -> None:
    builder = BatchBuilder()
    builder.add(TableShape("shop", "t", ()), Position("s", 0, 7), "insert", before=None, after={})
    (made,) = builder.build()
    assert made.to_arrow().column_names == ["_op", "_commit_ts", "_commit_time", "_position"]
    assert made.name == "shop.t"
